package stream

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// run drives the protocol through one range over Events: it does what the
// state says, feeds the result to step, and tells what comes out.
type run struct {
	*Stream
	index *index
	yield func(Event, error) bool
	left  bool // the caller has left the loop

	listed bool        // a whole list has been told
	items  []object    // of the page last read
	conn   *connection // while streaming
	failed bool        // the last request; only the log wants to know
}

var errLeft = errors.New("the loop was left")

// loop runs until the sequence ends and returns why.
func (r *run) loop(ctx context.Context) error {
	defer func() { r.conn.close() }()
	for s := start(); ; {
		if end, ok := s.(stopped); ok {
			return end.err
		}
		in := r.act(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx) // whatever in says, it is due to that
		}
		next, outputs := step(s, in)
		if _, ok := next.(streaming); !ok {
			r.conn.close()
			r.conn = nil
		}
		for _, o := range outputs {
			if err := r.tell(ctx, o); err != nil {
				return err
			}
		}
		s = next
	}
}

// act does what the state asks for and returns what came of it.
func (r *run) act(ctx context.Context, s state) input {
	switch s := s.(type) {
	case listing:
		return r.list(ctx, s.token(), s.failures)
	case connecting:
		return r.connect(ctx, s.rv)
	case streaming:
		return r.conn.receive(ctx)
	case waiting:
		return r.wait(ctx, s)
	}
	return nil
}

func (r *run) wait(ctx context.Context, s waiting) input {
	d := max(backoff(s.attempt), s.atLeast)
	r.failed = true
	r.options.Logger.WarnContext(ctx, "trying again after a failure", "resource", r.resource.String(), "after", d, "error", s.cause)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return elapsed{}
}

func (r *run) tell(ctx context.Context, o output) error {
	switch o := o.(type) {
	case tellGap:
		return r.emit(ctx, Event{Type: Gap, Gap: &GapDetails{Reason: o.reason, From: o.from}})
	case beginList:
		r.index.beginList()
	case tellPage:
		items := r.items
		r.items = nil
		for i, o := range items {
			items[i] = object{} // what has been told need not be kept
			if err := r.tellChanges(ctx, r.index.put(o), o.Unstructured, true); err != nil {
				return err
			}
		}
	case endList:
		err := r.tellChanges(ctx, r.index.endList(), nil, true)
		r.listed = true
		return err
	case tellSynced:
		return r.emit(ctx, Event{Type: Synced, ResourceVersion: o.rv})
	case tellFrame:
		f := r.conn.take()
		return r.tellChanges(ctx, f.changes(r.index, o.old), f.Unstructured, false)
	}
	return nil
}

// tellChanges emits changes; o is the object of those that have no identity.
func (r *run) tellChanges(ctx context.Context, changes []change, o *unstructured.Unstructured, listed bool) error {
	for _, c := range changes {
		ev := Event{Type: c.kind, Object: o}
		switch {
		case c.gone != nil:
			ev.Object, ev.Inferred = c.gone.unstructured(r.resource), true
		case listed:
			// What a first list has is no inference, but that something has changed
			// since another list is.
			ev.Inferred = r.listed || c.kind != Added
		}
		ev.ResourceVersion = ev.Object.GetResourceVersion()
		if err := r.emit(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) emit(ctx context.Context, ev Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // stopped while a page is being told
	}
	ev.Resource = r.resource
	if !r.yield(ev, nil) {
		r.left = true
		return errLeft
	}
	return nil
}
