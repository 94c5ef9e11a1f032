package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// timedEvent is an event and the time of its delivery.
type timedEvent struct {
	stream.Event
	at time.Time
}

// timedStatus is the status of a resource and the time of its report.
type timedStatus struct {
	follow.ResourceStatus
	at time.Time
}

// follower runs a Mux until the test ends, and keeps the events of each source.
type follower struct {
	t   *testing.T
	mux *mux.Mux

	mu      sync.Mutex
	events  map[string][]timedEvent
	states  []timedStatus
	err     error
	ended   bool
	changed chan struct{} // closed at the next event or state

	cancel context.CancelFunc
	done   chan struct{}
}

func newFollower(t *testing.T) *follower {
	return &follower{t: t, events: map[string][]timedEvent{}, changed: make(chan struct{}), done: make(chan struct{})}
}

// followOn starts to follow a selection. opts may be nil.
func followOn(t *testing.T, cfg *rest.Config, sel follow.Selection, opts *follow.Options) *follower {
	t.Helper()
	f := newFollower(t)
	var o follow.Options
	if opts != nil {
		o = *opts
	}
	o.StatusChanged = func(s follow.ResourceStatus) {
		f.update(func() { f.states = append(f.states, timedStatus{s, time.Now()}) })
	}
	f.run(newFollow(t, cfg, sel, o))
	return f
}

func newFollow(t *testing.T, cfg *rest.Config, sel follow.Selection, o follow.Options) *mux.Mux {
	t.Helper()
	dc, err := discovery.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := follow.New(discovery.NewResolver(dc, 0), client, sel, &o)
	if err != nil {
		t.Fatal(err)
	}
	return m.Mux
}

// shortWatches is an Options.Source of package follow: each watch lasts one second.
func shortWatches(gvr.Resource) (stream.Options, stream.Run) {
	return stream.Options{Requests: stream.Requests{WatchLifetime: time.Second}}, stream.Run{}
}

// run starts to run m; it stops when the test ends.
func (f *follower) run(m *mux.Mux) {
	f.mux = m
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(f.done)
		for ev, err := range m.Events(ctx) {
			f.update(func() {
				if err != nil {
					f.err = err
				} else {
					source := mux.SourceOf(ev)
					f.events[source] = append(f.events[source], timedEvent{ev, time.Now()})
				}
			})
		}
		f.update(func() { f.ended = true })
	}()
	f.t.Cleanup(f.stop)
}

// stop ends the run, and waits until it has ended.
func (f *follower) stop() {
	f.cancel()
	<-f.done
}

func (f *follower) update(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits until enough returns true. It calls enough with f.mu locked.
func (f *follower) await(what string, enough func() bool) {
	f.t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond) // for conditions that no event announces
	defer poll.Stop()
	for {
		f.mu.Lock()
		ok, err, over, changed := enough(), f.err, f.ended, f.changed
		f.mu.Unlock()
		switch {
		case ok:
			return
		case over:
			f.t.Fatalf("waiting for %s: the run ended: %v\n%s", what, err, f)
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-deadline.C:
			f.t.Fatalf("waiting for %s: timeout\n%s", what, f)
		}
	}
}

// awaitEvent waits for an event of a source after the first skip ones, and returns it with its index.
func (f *follower) awaitEvent(source, what string, skip int, is func(stream.Event) bool) (int, timedEvent) {
	f.t.Helper()
	at, found := 0, timedEvent{}
	f.await(source+": "+what, func() bool {
		all := f.events[source]
		for i := min(skip, len(all)); i < len(all); i++ {
			if is(all[i].Event) {
				at, found = i, all[i]
				return true
			}
		}
		return false
	})
	return at, found
}

func (f *follower) awaitSynced(source string, skip int) (int, timedEvent) {
	f.t.Helper()
	return f.awaitEvent(source, "SYNCED", skip, func(ev stream.Event) bool { return ev.Type == stream.Synced })
}

// awaitOutcome waits until the source has delivered the final state of each written object.
func (f *follower) awaitOutcome(source string, writes []write) {
	f.t.Helper()
	last := map[string]write{}
	for _, w := range writes {
		last[w.uid] = w
	}
	f.await(source+": the outcome of all writes", func() bool {
		delivered := map[string]timedEvent{}
		for _, ev := range f.events[source] {
			if ev.Object != nil {
				delivered[string(ev.Object.GetUID())] = ev
			}
		}
		for uid, w := range last {
			ev, ok := delivered[uid]
			switch {
			case w.kind == stream.Deleted && ok && ev.Type != stream.Deleted:
				return false
			case w.kind != stream.Deleted && (!ok || ev.ResourceVersion != w.rv):
				return false
			}
		}
		return true
	})
}

// awaitState waits until the last status of a resource has this state and these namespaces, and returns it.
func (f *follower) awaitState(source string, want follow.State, namespaces ...string) timedStatus {
	f.t.Helper()
	var found timedStatus
	f.await(fmt.Sprint(source, " ", want, " ", namespaces), func() bool {
		for _, s := range slices.Backward(f.states) {
			if s.Resource.GroupResource().String() == source {
				found = s
				return s.State == want && slices.Equal(s.Namespaces, namespaces)
			}
		}
		return false
	})
	return found
}

func (f *follower) eventsOf(source string) []stream.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	var events []stream.Event
	for _, ev := range f.events[source] {
		events = append(events, ev.Event)
	}
	return events
}

// String describes the last events and the states, for failure messages.
func (f *follower) String() string {
	st := f.mux.Status()
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	few := slices.Sorted(maps.Keys(f.events))
	for _, source := range few[:min(len(few), 10)] {
		events := f.events[source]
		fmt.Fprintf(&b, "%s: %d events, the last ones:", source, len(events))
		for _, ev := range events[max(0, len(events)-8):] {
			fmt.Fprintf(&b, " %q", texts([]stream.Event{ev.Event})[0]+"@"+ev.ResourceVersion)
		}
		b.WriteByte('\n')
	}
	for _, s := range f.states[max(0, len(f.states)-12):] {
		fmt.Fprintf(&b, "%s %s %s %v %v\n",
			s.at.Format(time.StampMilli), s.Resource.GroupResource(), s.State, s.Namespaces, s.Cause)
	}
	for _, s := range st.Sources[:min(len(st.Sources), 10)] {
		fmt.Fprintf(&b, "source %s: %s queued %d err %v\n", s.Key, s.State, s.Queued, s.Err)
		if st := s.Stream; st != nil {
			fmt.Fprintf(&b, "  %s at %s, cause %v, next try %v, %d namespaces\n",
				st.State, st.ResourceVersion, st.Cause, st.NextTry, len(st.Namespaces))
		}
	}
	return b.String()
}
