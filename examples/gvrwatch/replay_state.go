package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

// state prints the objects that existed at a time.
func (r *replay) state(at time.Time, whole span) error {
	if at.Before(whole.begin) {
		return fmt.Errorf("--at=%s: the recording begins only at %s", r.opts.at, whole.begin.Format(time.RFC3339))
	}
	r.time = at
	d, err := r.delivery(whole, true)
	if err != nil {
		return err
	}
	then, err := stateAt(recording.Changes(r.file.Entries()), at)
	if err != nil {
		return err
	}
	if at.After(whole.end) {
		then.unsure[scope{"the recording", ""}] = "ends at " + whole.end.Format(time.RFC3339)
	}
	printed := 0
	for _, e := range then.existing() {
		if !r.selects(e.Event) {
			continue
		}
		ev := e.Event
		ev.Type, ev.Inferred, ev.JSON = stream.Added, false, r.columns.Join(ev.JSON, e.Row)
		some, err := d.deliver(ev, func() {})
		if err != nil {
			return errors.Join(err, d.end())
		}
		if some {
			printed++
		}
		if printed == r.opts.watch.end.limit && printed > 0 {
			break
		}
	}
	err = d.end()
	for _, of := range slices.SortedFunc(maps.Keys(then.unsure), func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace))
	}) {
		what := of.resource
		if of.namespace != "" {
			what += " in the namespace " + of.namespace
		}
		resource, isResource := whole.resources[of.resource]
		if why := then.unsure[of]; why != "" && (!isResource || r.selects(stream.Event{Resource: resource})) {
			printMessage(r.streams.ErrOut, "%s: %s: the objects are those that were known then", what, why)
		}
	}
	return err
}

// pastState is what a recording knows of a moment.
type pastState struct {
	objects map[pastObject]recording.Entry // the last event of each object that exists
	// unsure says of what it may not know all objects, and why. It is empty for what is synced.
	unsure map[scope]string
	// incomplete says why SYNCED does not mean that all objects are known. It is empty if it does.
	incomplete string
	last       time.Time
}

// scope is what a list or a watch is of.
type scope struct{ resource, namespace string }

type pastObject struct {
	resource string
	name     types.NamespacedName
}

// stateAt returns the state at a time, by the entries of recording.Changes.
func stateAt(entries iter.Seq2[recording.Entry, error], at time.Time) (*pastState, error) {
	s := &pastState{objects: map[pastObject]recording.Entry{}, unsure: map[scope]string{}}
	ended := false
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if e.Time.After(at) && !ended {
			ended = true
			if e.Run != nil {
				s.unsure[scope{"the recording", ""}] = fmt.Sprintf("nobody recorded from %s to %s",
					s.last.Format(time.RFC3339), e.Time.Format(time.RFC3339))
			}
		}
		switch {
		case !ended:
			s.last = e.Time
			s.apply(e)
		case e.Event.Type == stream.Gap: // it is delivered when it is over
			if since := e.Time.Add(-e.Event.Gap.Duration); !since.After(at) {
				s.unsure[scopeOf(e.Event)] = "within a gap since " + since.Format(time.RFC3339)
			}
		}
	}
	return s, nil
}

func scopeOf(ev stream.Event) scope { return scope{ev.Resource.String(), ev.Namespace} }

func (s *pastState) begin(e recording.Entry) {
	switch {
	case e.Run.Start == recording.Snapshot:
		s.incomplete = ""
	case e.Forgets:
		s.incomplete = "only changes were recorded since " + e.Time.Format(time.RFC3339)
	}
	if e.Forgets {
		clear(s.objects)
		clear(s.unsure)
	}
	for of := range s.unsure {
		s.unsure[of] = "not synced yet since " + e.Time.Format(time.RFC3339)
	}
}

func (s *pastState) apply(e recording.Entry) {
	if e.Run != nil {
		s.begin(e)
		return
	}
	of := scopeOf(e.Event)
	object := pastObject{of.resource, e.Event.NamespacedName()}
	switch e.Event.Type {
	case stream.Synced:
		s.unsure[of] = s.incomplete
		for other := range s.unsure { // one without a namespace is for all of them
			if of.namespace == "" && other.resource == of.resource {
				s.unsure[other] = s.incomplete
			}
		}
	case stream.Gap:
		s.unsure[of] = "within a gap since " + e.Time.Add(-e.Event.Gap.Duration).Format(time.RFC3339)
	case stream.Deleted:
		delete(s.objects, object)
	case stream.Added, stream.Modified:
		if _, known := s.unsure[of]; !known {
			s.unsure[of] = "not synced yet"
		}
		s.objects[object] = e
	}
}

// existing returns the last events of the objects, by resource, namespace and name.
func (s *pastState) existing() (all []recording.Entry) {
	for _, o := range slices.SortedFunc(maps.Keys(s.objects), func(a, b pastObject) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.name.Namespace, b.name.Namespace),
			cmp.Compare(a.name.Name, b.name.Name))
	}) {
		all = append(all, s.objects[o])
	}
	return all
}

// moments are the times that flags name. Zero is none.
type moments struct{ at, from, to time.Time }

// moments returns the times of --at, --from and --to in a recording.
func (o *replayOptions) moments(whole span) (m moments, err error) {
	for _, f := range []struct {
		name, text string
		to         *time.Time
	}{{"at", o.at, &m.at}, {"from", o.from, &m.from}, {"to", o.to, &m.to}} {
		var ok bool
		if *f.to, ok = momentOf(f.text, whole); !ok {
			return m, fmt.Errorf("--%s=%s: must be a time: 2026-03-01T03:00:00Z, 03:00:00, 03:00, +10m or -10m",
				f.name, f.text)
		}
	}
	return m, nil
}

// momentOf returns the time that a text means in a recording, or false if it means none.
func momentOf(text string, whole span) (time.Time, bool) {
	if text == "" {
		return time.Time{}, true
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	if d, err := time.ParseDuration(text); err == nil && (text[0] == '+' || text[0] == '-') {
		if text[0] == '-' {
			return whole.end.Add(d), true
		}
		return whole.begin.Add(d), true
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		day := whole.begin.Local()
		on := func(days int) time.Time { // the day after may have 23 or 25 hours
			return time.Date(day.Year(), day.Month(), day.Day()+days, clock.Hour(), clock.Minute(), clock.Second(), 0,
				time.Local)
		}
		if t := on(0); !t.Before(whole.begin) || on(1).After(whole.end) {
			return t, true
		}
		return on(1), true
	}
	return time.Time{}, false
}
