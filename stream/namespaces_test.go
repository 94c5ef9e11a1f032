package stream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// mover runs a Stream whose namespaces change.
type mover struct {
	*testing.T
	srv        *streamtest.Server
	stream     *running
	namespaces *host.Namespaces
	refused    []string
	cancel     context.CancelFunc
	events     chan stream.Event
	err        error
}

func newMover(t *testing.T, o *setup) *mover {
	m := &mover{T: t, srv: streamtest.NewServer(widgets()), events: make(chan stream.Event, 100)}
	m.stream = streamOf(t, m.srv.Client(), widgets(), o)
	return m
}

// track gives the Stream a checkpoint.
func (m *mover) track(store checkpoint.Store, o setup) *checkpoint.Tracker {
	m.Helper()
	o.Checkpoint = newTracker(m.T, store, checkpoint.Options{})
	m.stream = streamOf(m.T, m.srv.Client(), widgets(), &o)
	return o.Checkpoint
}

// begin starts a run in some namespaces, or across the cluster, from a position or from the Stream's Start.
func (m *mover) begin(from *checkpoint.Position, names ...string) {
	m.namespaces = host.NewNamespaces(names, func(namespace string, err error) {
		if !apierrors.IsForbidden(err) {
			m.Errorf("namespace %s failed: %v, want Forbidden", namespace, err)
		}
		m.refused = append(m.refused, namespace)
	})
	r := host.Run{Namespaces: m.namespaces}
	if from != nil {
		r.Start = func() *checkpoint.Position { return from }
	}
	ctx, cancel := context.WithCancel(m.Context())
	m.cancel = cancel
	m.events, m.err = make(chan stream.Event, 100), nil
	go func() {
		defer close(m.events)
		for ev, err := range m.stream.Host(ctx, r) {
			if err != nil {
				m.err = err
				return
			}
			m.events <- ev
			ev.Ack()
		}
	}()
}

// end ends the run and returns the position it reached.
func (m *mover) end() *checkpoint.Position {
	m.cancel()
	for range m.events {
	}
	p := m.stream.Position()
	return &p
}

// expect waits five seconds and compares the events that have come, in sorted order.
func (m *mover) expect(why string, want ...string) {
	m.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	var got []string
	for len(m.events) > 0 {
		got = append(got, (<-m.events).String())
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if diff := cmp.Diff(want, got); diff != "" {
		m.Errorf("%s (-want +got):\n%s", why, diff)
	}
}

func (m *mover) watchesIn(namespace string) (n int) {
	for _, q := range m.srv.Requests() {
		if q.Verb == "watch" && q.Namespace == namespace {
			n++
		}
	}
	return n
}

func (m *mover) do(what string) {
	m.Helper()
	noError(m.T, m.srv.Do(what))
}

func (m *mover) apply(script string) {
	m.Helper()
	noError(m.T, m.srv.Apply(script))
}

func (m *mover) put(namespace, name, field string) {
	m.srv.Put(widgets(), namespace, name, field)
}

// Adding or removing a namespace changes only the watch of that namespace.
func TestNamespaceChangeKeepsOtherWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1") // @2
		m.put("two", "b", "spec.n=1")
		m.begin(nil, "one")
		m.expect("a run delivers only its namespaces", "ADDED one/a@2", "SYNCED @3 in one")
		m.namespaces.Set([]string{"one", "two"})
		m.expect("a new namespace delivers its objects and SYNCED", "ADDED two/b@3", "SYNCED")
		m.put("one", "a", "spec.n=2")
		m.put("two", "b", "spec.n=2")
		m.expect("a run delivers changes in all its namespaces", "MODIFIED one/a@4", "MODIFIED two/b@5")
		m.namespaces.Set([]string{"one"})
		m.expect("removing a namespace delivers no DELETED")
		m.put("two", "b", "spec.n=3")
		m.expect("changes in a removed namespace are not delivered")
		m.namespaces.Set([]string{"one", "two"})
		m.expect("a namespace that was removed resumes at its version", "MODIFIED two/b@6", "SYNCED")
		m.namespaces.Set([]string{"one"})
		m.expect("removing it again delivers nothing")
		m.srv.Delete(widgets(), "two", "b")
		m.put("two", "c", "spec.n=1")
		m.do("compact")
		m.namespaces.Set([]string{"one", "two"})
		m.expect("a namespace whose version has expired gets a GAP and the differences",
			"GAP expired 6..8 in two", "ADDED two/c@8 inferred", "DELETED two/b@6 inferred", "SYNCED")
		if n := m.watchesIn("one"); n != 1 {
			t.Errorf("namespace one was watched %d times, want once", n)
		}
		m.end()
	})
}

func TestForbiddenNamespaceEndsNoOtherWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1")
		m.put("two", "b", "spec.n=1")
		m.do("forbid all in two")
		m.begin(nil, "one", "two")
		m.expect("SYNCED does not wait for a forbidden namespace", "ADDED one/a@2", "SYNCED")
		if diff := cmp.Diff([]string{"two"}, m.refused); diff != "" {
			t.Errorf("the forbidden namespaces (-want +got):\n%s", diff)
		}
		m.do("allow all in two")
		m.namespaces.Set([]string{"one", "two"})
		m.expect("Set retries a namespace that was forbidden", "ADDED two/b@3", "SYNCED")
		if m.end(); m.err == nil {
			t.Error("the run ended without the cause of its ctx")
		}
	})
}

// A run changes from the cluster to namespaces, or back.
func TestScopeChangeResumesFromKnownObjects(t *testing.T) {
	for _, tracked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, store := newMover(t, nil), &checkpoint.Memory{}
			var tracker *checkpoint.Tracker
			if tracked {
				tracker = m.track(store, setup{})
			}
			from := func(p *checkpoint.Position) *checkpoint.Position {
				if tracked {
					return nil
				}
				return p
			}
			for _, n := range []string{"one", "two", "three"} {
				m.put(n, "a", "spec.n=1") // @2, @3, @4
			}
			m.begin(nil)
			m.expect("the cluster is listed", "ADDED one/a@2", "ADDED two/a@3", "ADDED three/a@4", "SYNCED @4")
			p := m.end()
			m.put("one", "a", "spec.n=2") // @5
			m.srv.Delete(widgets(), "two", "a")
			m.begin(from(p), "one", "two")
			m.expect("each namespace gets a GAP and its differences to the cluster",
				"GAP scope 4..6 in one", "MODIFIED one/a@5 inferred",
				"GAP scope 4..6 in two", "DELETED two/a@3 inferred", "SYNCED")
			m.srv.Delete(widgets(), "three", "a")
			m.put("two", "b", "spec.n=1") // @8
			m.expect("other namespaces are not watched", "ADDED two/b@8")
			p = m.end()
			if tracked {
				noError(t, tracker.Flush(t.Context()))
				c, err := store.Load(t.Context(), "widgets.example.com")
				if err != nil {
					t.Fatal(err)
				}
				p.Objects = c.Position.Objects
			}
			if !slices.ContainsFunc(p.Objects, func(o checkpoint.Object) bool { return o.Namespace == "three" }) {
				t.Errorf("tracked %v: the objects of a namespace that is not watched are lost: %+v", tracked, p.Objects)
			}
			m.begin(from(p))
			m.expect("the cluster is compared with the known objects of all namespaces",
				"GAP scope 4..8", "DELETED three/a@4 inferred", "SYNCED @8")
			p = m.end()
			m.begin(from(p))
			m.expect("the next run resumes without a GAP", "SYNCED @8")
			m.end()
			if tracked {
				noError(t, tracker.Close())
			}
		})
	}
}

// Objects may have been created and deleted in a namespace without known objects.
func TestEmptyNamespaceGetsAGapToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1") // @2
		m.put("two", "b", "spec.n=1")
		m.begin(nil)
		m.expect("the cluster is listed", "ADDED one/a@2", "ADDED two/b@3", "SYNCED @3")
		m.srv.Delete(widgets(), "two", "b")
		m.expect("namespace two becomes empty", "DELETED two/b@4")
		p := m.end()
		m.begin(p, "one")
		m.expect("a run without namespace two", "GAP scope 4..4 in one", "SYNCED @4 in one")
		m.put("two", "c", "spec.n=1")
		m.namespaces.Set([]string{"one", "two"})
		m.expect("adding the namespace reports a GAP",
			"GAP scope 4..5 in two", "ADDED two/c@5 inferred", "SYNCED")
		m.srv.Delete(widgets(), "one", "a")
		m.srv.Delete(widgets(), "two", "c")
		m.expect("both namespaces become empty", "DELETED one/a@6", "DELETED two/c@7")
		p = m.end()
		m.put("two", "d", "spec.n=1")
		m.begin(p)
		m.expect("a cluster without known objects reports a GAP",
			"GAP scope 4..8", "ADDED two/d@8 inferred", "SYNCED @8")
		m.end()
	})
}

// Every Position contains the one that the run resumed from, even before all namespaces have started.
func TestPositionContainsTheResumedOne(t *testing.T) {
	const objects = 20_000
	srv := streamtest.NewServer(widgets())
	srv.Put(widgets(), "one", "a")
	p := checkpoint.Position{ResourceVersions: map[string]string{"one": "1", "two": "1"}, Unclean: true}
	for i := range objects {
		uid := types.UID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i))
		p.Objects = append(p.Objects,
			checkpoint.Object{Namespace: "two", Name: fmt.Sprint("o", i), UID: uid, ResourceVersion: "1"})
	}
	s := streamOf(t, srv.Client(), widgets(), &setup{Options: stream.Options{Namespaces: []string{"one", "two"}}})
	r := host.Run{Start: func() *checkpoint.Position { return &p }}
	for ev, err := range s.Host(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if q := s.Position(); len(q.Objects) < objects || q.ResourceVersions["two"] != "1" {
			t.Errorf("at %s the position has %d objects and versions %v", ev.String(), len(q.Objects),
				q.ResourceVersions)
		}
		break
	}
}

// A Position retains the versions and flags of namespaces that the run does not watch, or that have not answered.
func TestPositionRetainsUnwatchedNamespaces(t *testing.T) {
	known := []checkpoint.Object{{Namespace: "two", Name: "b", UID: "2", ResourceVersion: "3"}}
	both := map[string]string{"one": "3", "two": "3"}
	for _, tt := range []struct {
		name, script string
		from         checkpoint.Position
		watch        []string
		want         checkpoint.Position
		why          string
	}{
		{"rewound, not watched", "",
			checkpoint.Position{ResourceVersions: both, Objects: known, Rewound: true}, []string{"one"},
			checkpoint.Position{ResourceVersions: both, Rewound: true},
			"namespace two must still be compared"},
		{"rewound, without an answer", "list * in two: hang",
			checkpoint.Position{ResourceVersions: both, Objects: known, Rewound: true}, []string{"one", "two"},
			checkpoint.Position{ResourceVersions: both, Rewound: true},
			"namespace two must still be compared"},
		{"unclean", "",
			checkpoint.Position{ResourceVersions: map[string]string{"": "3"}, Unclean: true}, []string{"one"},
			checkpoint.Position{ResourceVersions: map[string]string{"": "3", "one": "3"}, Unclean: true},
			"other objects may have been delivered in any namespace"},
		{"partial", "",
			checkpoint.Position{ResourceVersions: map[string]string{"": "3"}, Partial: true}, []string{"one"},
			checkpoint.Position{ResourceVersions: map[string]string{"": "3", "one": "3"}, Partial: true},
			"other objects may exist in any namespace"},
		{"namespace to cluster, without an answer", "list *: 503\ninitial *: 503",
			checkpoint.Position{ResourceVersions: map[string]string{"": "2", "one": "3"}}, nil,
			checkpoint.Position{ResourceVersions: map[string]string{"": "2", "one": "3"}},
			"the GAP is still pending"},
		{"cluster to namespace, without an answer", "list * in one: 503\ninitial * in one: 503",
			checkpoint.Position{ResourceVersions: map[string]string{"": "2"}, Rewound: true}, []string{"one"},
			checkpoint.Position{ResourceVersions: map[string]string{"": "2"}, Rewound: true},
			"no event has been delivered since"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMover(t, nil)
				m.put("one", "a", "spec.n=1")
				m.put("two", "b", "spec.n=1")
				m.apply(tt.script)
				m.begin(&tt.from, tt.watch...)
				time.Sleep(20 * time.Second)
				got := m.end()
				got.Objects = nil
				if diff := cmp.Diff(&tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

func TestSyncedFollowsARemovedNamespacesGap(t *testing.T) {
	for synced, rest := range map[string][]string{"SYNCED": {"one"}, "": nil} {
		synctest.Test(t, func(t *testing.T) {
			m := newMover(t, nil)
			m.put("one", "a", "spec.n=1")
			m.put("two", "b", "spec.n=1")
			m.begin(nil, "one", "two")
			m.expect("both namespaces are listed", "ADDED one/a@2", "ADDED two/b@3", "SYNCED")
			m.apply("watch 2-* in two: 503")
			m.put("two", "b", "spec.n=2")
			m.put("one", "a", "spec.n=2") // so that the version of one does not expire
			m.do("compact")
			m.do("close watches")
			time.Sleep(30 * time.Second)
			for len(m.events) > 0 {
				<-m.events
			}
			m.put("one", "a", "spec.n=3")
			m.expect("one is synced, and two is not", "MODIFIED one/a@6")
			m.namespaces.Set(rest)
			m.expect("SYNCED comes if a namespace is left", strings.Fields(synced)...)
			m.end()
		})
	}
}

// A namespace that is removed and added again resumes from its state when it was removed.
func TestReturningNamespaceResumesFromItsState(t *testing.T) {
	change := func(m *mover) {
		for i := range 5 {
			m.put("one", "a", fmt.Sprint("spec.n=", 2+i)) // @4 to @8
		}
	}
	expire := func(m *mover) {
		change(m)
		m.do("compact")
		m.do("close watches")
	}
	rewind := func(m *mover) {
		noError(m.T, m.srv.Apply("list * in two: 503"))
		m.do("rewind 1 restart") // undoes two/b
		time.Sleep(20 * time.Second)
	}
	for _, tt := range []struct {
		name             string
		unclean          bool
		watched, removed func(*mover) // run before and after namespace two is removed
		want             []string
		why              string
	}{
		{"changes in another namespace", false, nil, change, []string{"SYNCED"},
			"the namespace resumes at its version"},
		{"expired", false, nil, expire, []string{"GAP expired 3..8 in two", "SYNCED"},
			"no history is lost: all objects of the namespace are known"},
		{"unclean", true, nil, expire, []string{"GAP expired 3..8 history lost in two", "SYNCED"},
			"history is lost: other objects may have been delivered"},
		{"back in time", false, rewind, change,
			[]string{"GAP rewound 3..7 in two", "DELETED two/b@3 inferred", "SYNCED"},
			"the rewind is reported even if the server has passed the namespace's version again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMover(t, nil)
				m.put("one", "a", "spec.n=1")
				m.put("two", "b", "spec.n=1")
				m.begin(nil, "one", "two")
				m.expect("both namespaces are listed", "ADDED one/a@2", "ADDED two/b@3", "SYNCED")
				p := m.end()
				p.Unclean = tt.unclean
				m.begin(p, "one", "two")
				m.expect("both namespaces resume", "SYNCED")
				if tt.watched != nil {
					tt.watched(m)
				}
				m.namespaces.Set([]string{"one"})
				time.Sleep(time.Second)
				m.do("heal")
				tt.removed(m)
				time.Sleep(time.Minute)
				for len(m.events) > 0 {
					<-m.events
				}
				m.namespaces.Set([]string{"one", "two"})
				m.expect(tt.why, tt.want...)
				m.end()
			})
		})
	}
}
