package stream

import (
	"context"
	"iter"
	"strings"
)

// Range says how one range over the events of a Stream differs from another. It
// is for who runs many Streams, as package mux does.
type Range struct {
	// Start says where it begins. It is called once, at the beginning, so that nobody
	// has to keep a position that has been entered. Nil means where Options.Start says;
	// with a Checkpoint it is where that says in any case.
	Start func() Start
	// Lists bounds how many snapshots are read at once by those who share it. Nil
	// means that nothing does.
	Lists *Lists
}

// EventsWith is Events with a Range.
func (s *Stream) EventsWith(ctx context.Context, r Range) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := s.run(ctx, r, yield); err != nil {
			yield(Event{}, err)
		}
	}
}

// Key tells the Stream from others in a Mux: Options.CheckpointKey if there is
// one, else the resource and its group ("deployments.apps"), and if there are any
// the namespaces, "deployments.apps in a,b", and the selectors, "pods where
// app=web".
func (s *Stream) Key() string {
	if s.options.CheckpointKey != "" {
		return s.options.CheckpointKey
	}
	key := s.resource.GroupResource().String()
	if in := strings.Join(s.options.Namespaces, ","); in != "" {
		key += " in " + in
	}
	var where []string
	for _, selector := range []string{s.options.LabelSelector, s.options.FieldSelector} {
		if selector != "" {
			where = append(where, selector)
		}
	}
	if len(where) > 0 {
		key += " where " + strings.Join(where, " and ")
	}
	return key
}
