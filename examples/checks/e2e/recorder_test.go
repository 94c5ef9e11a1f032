package e2e

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/stream"
)

// sequence is a Stream, or one with a Run.
type sequence interface {
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
	Status() stream.Status
}

// recorder runs a sequence until the test ends, and keeps its events.
type recorder struct {
	t      *testing.T
	stream sequence
	done   chan struct{}

	mu      sync.Mutex
	events  []stream.Event
	err     error
	changed chan struct{} // closed at the next event
}

func record(t *testing.T, s sequence) *recorder {
	t.Helper()
	r := &recorder{t: t, stream: s, done: make(chan struct{}), changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(r.done)
		for ev, err := range s.Events(ctx) {
			r.mu.Lock()
			if err != nil {
				r.err = err
			} else {
				r.events = append(r.events, ev)
			}
			close(r.changed)
			r.changed = make(chan struct{})
			r.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// await waits until enough returns true for the events so far, and returns these.
func (r *recorder) await(what string, enough func([]stream.Event) bool) []stream.Event {
	r.t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		events, err, changed := slices.Clone(r.events), r.err, r.changed
		r.mu.Unlock()
		if enough(events) {
			return events
		}
		if err != nil {
			r.t.Fatalf("waiting for %s: the stream ended: %v", what, err)
		}
		select {
		case <-changed:
		case <-deadline.C:
			r.t.Fatalf("waiting for %s: timeout after %q", what, texts(events))
		}
	}
}

func (r *recorder) awaitSynced(times int) []stream.Event {
	r.t.Helper()
	return r.await("SYNCED", func(events []stream.Event) bool {
		n := 0
		for _, ev := range events {
			if ev.Type == stream.Synced {
				n++
			}
		}
		return n >= times
	})
}

// awaitObject waits for an event of an object.
func (r *recorder) awaitObject(kind stream.Type, name string) []stream.Event {
	r.t.Helper()
	return r.await(string(kind)+" "+name, func(events []stream.Event) bool {
		return slices.ContainsFunc(events, func(ev stream.Event) bool {
			return ev.Type == kind && ev.Object.GetName() == name
		})
	})
}

// awaitVersion waits for an event with an object at a version.
func (r *recorder) awaitVersion(rv string) []stream.Event {
	r.t.Helper()
	return r.await("version "+rv, func(events []stream.Event) bool {
		return slices.ContainsFunc(events, func(ev stream.Event) bool {
			return ev.Object != nil && ev.ResourceVersion == rv
		})
	})
}

// texts formats events without versions and uids, which differ from run to run.
func texts(events []stream.Event) []string {
	var all []string
	for _, ev := range events {
		s := string(ev.Type)
		if ev.Object != nil {
			s += " " + ev.Object.GetName()
			if ns := ev.Object.GetNamespace(); ns != "" {
				s = string(ev.Type) + " " + ns + "/" + ev.Object.GetName()
			}
		}
		if ev.Inferred {
			s += " inferred"
		}
		all = append(all, s)
	}
	return all
}

// checkRules checks what package stream promises for every sequence.
func checkRules(t *testing.T, events []stream.Event) {
	t.Helper()
	type key struct {
		uid, rv string
		kind    stream.Type
	}
	seen, alive := map[key]bool{}, map[string]string{}
	last, live := "", false
	for i, ev := range events {
		switch ev.Type {
		case stream.Synced:
			last, live = ev.ResourceVersion, true
			continue
		case stream.Gap:
			live = false
			continue
		}
		o := ev.Object
		k := key{string(o.GetUID()), ev.ResourceVersion, ev.Type}
		if seen[k] {
			t.Errorf("event %d, %v, is a repeat", i, k)
		}
		seen[k] = true
		if live {
			order, err := resourceversion.CompareResourceVersion(ev.ResourceVersion, last)
			if err != nil || order <= 0 {
				t.Errorf("live event %d is at version %s after %s (%v)", i, ev.ResourceVersion, last, err)
			}
			last = ev.ResourceVersion
		}
		_, known := alive[k.uid]
		switch ev.Type {
		case stream.Added:
			if known {
				t.Errorf("event %d adds %s, which exists already", i, o.GetName())
			}
			alive[k.uid] = k.rv
		case stream.Modified:
			if !known {
				t.Errorf("event %d modifies %s, which does not exist", i, o.GetName())
			}
			alive[k.uid] = k.rv
		case stream.Deleted:
			if !known {
				t.Errorf("event %d deletes %s, which does not exist", i, o.GetName())
			}
			delete(alive, k.uid)
		}
	}
}
