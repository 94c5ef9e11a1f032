package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// leg is one range of a sequence that moves between scopes.
type leg struct {
	namespaces []string // none: the cluster
	before     []string // what happens before it: "put one/a", "delete one/a", or what Server.Do does
	want       []string
}

func TestScopes(t *testing.T) {
	one, both := []string{"one"}, []string{"one", "two"}
	tests := []struct {
		name string
		legs []leg
		why  string
	}{
		{"narrowed and widened", []leg{
			{nil, []string{"put one/a", "put two/b"}, []string{"ADDED one/a@2", "ADDED two/b@3", "SYNCED @3"}},
			{one, []string{"put one/a", "put two/b", "put two/c"}, []string{"SYNCED @3 in one", "MODIFIED one/a@4"}},
			{nil, []string{"put one/a", "delete two/b"}, []string{"SYNCED @3", "MODIFIED two/b@5", "ADDED two/c@6", "MODIFIED one/a@7", "DELETED two/b@8"}},
		}, "what could not be seen comes in full, what was seen does not come again"},
		{"widened for the first time", []leg{
			{both, []string{"put one/a", "put two/b", "put three/c"}, []string{"ADDED one/a@2", "ADDED two/b@3", "SYNCED"}},
			{nil, []string{"put one/a", "put one/a", "delete two/b", "put three/c"}, []string{"ADDED three/c@8", "SYNCED @4", "MODIFIED one/a@5", "MODIFIED one/a@6", "DELETED two/b@7"}},
			{nil, []string{"put three/c"}, []string{"SYNCED @8", "MODIFIED three/c@9"}},
		}, "what is new is listed, and what was watched is watched on where it was"},
		{"another namespace", []leg{
			{one, []string{"put one/a", "put two/b"}, []string{"ADDED one/a@2", "SYNCED @3 in one"}},
			{both, []string{"put two/b"}, []string{"ADDED two/b@4", "SYNCED"}},
			{[]string{"two"}, []string{"delete one/a", "put two/b"}, []string{"SYNCED @4 in two", "MODIFIED two/b@6"}},
			{both, nil, []string{"SYNCED", "DELETED one/a@5"}},
		}, "one that is watched no more is kept, and one that comes is listed"},
		{"expired meanwhile", []leg{
			{nil, []string{"put one/a", "put two/b"}, []string{"ADDED one/a@2", "ADDED two/b@3", "SYNCED @3"}},
			{one, []string{"put one/a"}, []string{"SYNCED @3 in one", "MODIFIED one/a@4"}},
			{nil, []string{"delete two/b", "put three/c", "compact"}, []string{"SYNCED @3", "GAP expired 3..6", "ADDED three/c@6 inferred", "DELETED two/b@3 inferred", "SYNCED @6"}},
		}, "what nobody could see, and nobody can tell any more, is a gap"},
	}
	for _, tt := range tests {
		for _, kept := range []string{"position", "checkpoint"} {
			t.Run(tt.name+"/"+kept, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMover(t, kept == "checkpoint")
					for i, l := range tt.legs {
						for _, what := range l.before {
							m.do(what)
						}
						got := streamtest.Texts(m.leg(l.namespaces, time.Minute, nil))
						if len(l.namespaces) > 1 { // in any order
							slices.Sort(got)
							slices.Sort(l.want)
						}
						if diff := cmp.Diff(l.want, got); diff != "" {
							t.Errorf("leg %d: %s (-want +got):\n%s", i, tt.why, diff)
						}
					}
				})
			})
		}
	}
}

// mover makes a sequence that moves between scopes.
type mover struct {
	*testing.T
	srv      *streamtest.Server
	tracker  *checkpoint.Tracker // or else
	position *checkpoint.Position
	seed     uint64
	told     []told
}

// told is an event, and the scope in which it was told.
type told struct {
	stream.Event
	scope []string
}

func newMover(t *testing.T, tracked bool) *mover {
	m := &mover{T: t, srv: streamtest.NewServer(widgets())}
	if tracked {
		tracker, err := checkpoint.NewTracker(checkpoint.NewMemory(), &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tracker.Close() })
		m.tracker = tracker
	}
	return m
}

func (m *mover) do(what string) {
	verb, object, _ := strings.Cut(what, " ")
	ns, name, _ := strings.Cut(object, "/")
	switch verb {
	case "put":
		m.srv.Put(widgets(), ns, name, "spec.n="+m.srv.ResourceVersion())
	case "delete":
		if _, err := m.srv.Delete(widgets(), ns, name); err != nil {
			m.Fatal(err)
		}
	default:
		if err := m.srv.Do(what); err != nil {
			m.Fatal(err)
		}
	}
}

var errLegOver = errors.New("the leg is over")

// leg watches in a scope for some time, or until stop says so.
func (m *mover) leg(namespaces []string, d time.Duration, stop func() bool) []stream.Event {
	o := stream.Options{Scope: &stream.Scope{}, Namespaces: namespaces, InitialList: stream.ListPaged, Checkpoint: m.tracker, PageSize: 2 + int(m.seed%3)}
	if m.position != nil {
		o.Start = stream.From(*m.position)
	}
	s, err := stream.New(m.srv.Client(), widgets(), &o)
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(m.Context(), d, errLegOver)
	defer cancel()
	rec := streamtest.Record(stream.Acked(s.Events(ctx)), func(ev stream.Event) bool {
		m.told = append(m.told, told{ev, namespaces})
		if stop == nil || !stop() {
			return false
		}
		ev.Ack()
		return true
	})
	if rec.Err != nil && rec.Err != errLegOver {
		m.Fatal(rec.Err)
	}
	if m.tracker == nil {
		p := s.Position()
		m.position = &p
	}
	return rec.Events
}

// check holds what was told of each namespace to the promises.
func (m *mover) check(namespaces ...string) error {
	var broken []error
	for _, n := range namespaces {
		var events []stream.Event
		synced, known := false, map[types.UID]bool{}
		for _, ev := range m.told {
			sees := len(ev.scope) == 0 || slices.Contains(ev.scope, n)
			if ev.Object != nil && ev.Inferred && ev.Type == stream.Deleted && m.tracker != nil && !known[ev.Object.GetUID()] {
				continue // a leg ended when it was about to be told
			}
			if ev.Object != nil {
				known[ev.Object.GetUID()] = ev.Type != stream.Deleted
			}
			switch {
			case ev.Type == stream.Synced && sees && !synced:
				// That of a leg which goes on is for who begins there.
				ev.ResourceVersion, synced = "", true
			case ev.Object != nil && ev.Object.GetNamespace() == n:
				ev.Namespace = n
			case ev.Type == stream.Gap && (ev.Event.Namespace == n || ev.Event.Namespace == "" && sees):
				ev.Namespace, synced = n, false
			default:
				continue
			}
			events = append(events, ev.Event)
		}
		h := m.srv.History(widgets(), streamtest.Scope{Namespaces: []string{n}})
		err := streamtest.Check(h, events, &streamtest.CheckOptions{Namespaces: []string{n, "nowhere"}, Settled: true})
		if err != nil {
			broken = append(broken, fmt.Errorf("in %s: %w\n%s\n%s", n, err, strings.Join(streamtest.Texts(events), "\n"), historyText(h)))
		}
	}
	return errors.Join(broken...)
}

// TestRandomScopes moves a sequence at random between the cluster and namespaces,
// while all of them change. Nothing may come twice, and at the end nothing may be
// missing.
func TestRandomScopes(t *testing.T) {
	historySeeds.Share(8).Play(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) { randomScopes(t, rand.New(rand.NewPCG(n, 7)), n) })
	})
}

func randomScopes(t *testing.T, r *rand.Rand, seed uint64) {
	m := newMover(t, seed%2 == 1)
	m.seed = seed
	expires := r.IntN(4) == 0
	all := []string{"one", "two", "three"}
	for range r.IntN(20) {
		m.random(r, all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writer sync.WaitGroup
	w := rand.New(rand.NewPCG(seed, 8))
	writer.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(w.IntN(2000)) * time.Millisecond)
			for range w.IntN(4) {
				m.random(w, all)
			}
			if expires && w.IntN(30) == 0 {
				m.srv.Compact("")
			}
		}
	})
	var scopes []string
	for range 2 + r.IntN(8) {
		scope := slices.DeleteFunc(slices.Clone(all), func(string) bool { return r.IntN(2) == 0 })
		if len(scope) == 0 || r.IntN(3) == 0 {
			scope = nil
		}
		scopes = append(scopes, strings.Join(scope, ","))
		left := 1 + r.IntN(30)
		m.leg(scope, time.Duration(r.IntN(20000))*time.Millisecond, func() bool { left--; return left == 0 })
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(10000)) * time.Millisecond)
		}
	}
	cancel()
	writer.Wait()
	m.leg(nil, 5*time.Minute, nil)
	if err := m.check(all...); err != nil {
		t.Errorf("scopes %q: %v", scopes, err)
	}
}

func (m *mover) random(r *rand.Rand, namespaces []string) {
	ns, name := namespaces[r.IntN(len(namespaces))], string(rune('a'+r.IntN(5)))
	if r.IntN(3) == 0 {
		m.srv.Delete(widgets(), ns, name)
		return
	}
	m.srv.Put(widgets(), ns, name, fmt.Sprint("spec.n=", r.IntN(1000)))
}
