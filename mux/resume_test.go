package mux_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const resumeSeeds = seedtest.Default(100)

// TestResumedRunsAreOneSequence: a Mux of Sequences that resume is run again and again. The loop is slow, so that
// events wait, and is left at random, under random faults. What each source delivers in all runs together keeps every
// promise.
func TestResumedRunsAreOneSequence(t *testing.T) {
	resumeSeeds.Run(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) {
			p := &resumedRuns{Scenario: scenario.New(t, n, 21, resources, "one", "two"), all: map[string]*resumed{}}
			p.run()
		})
	})
}

// resumedRuns is one seed.
type resumedRuns struct {
	*scenario.Scenario
	m   *mux.Mux
	all map[string]*resumed // by key
}

// resumed is a source, and what it has delivered in all runs.
type resumed struct {
	r        gvr.Resource
	o        stream.Options
	overflow mux.Overflow
	unbroken
}

// unbroken joins what several runs deliver into one sequence.
type unbroken struct {
	events []stream.Event
	synced bool // SYNCED was delivered, and no GAP since
}

// add appends an event. A source that resumes delivers SYNCED when it watches again, even if nothing was missed. Such a
// SYNCED promises no more than a BOOKMARK. That of several namespaces has no version and is left out. A source that was
// left right after GAP, before it has compared anything, resumes before the GAP, which is then taken back.
func (u *unbroken) add(ev stream.Event) {
	var last *stream.Event
	if len(u.events) > 0 {
		last = &u.events[len(u.events)-1]
	}
	switch {
	case ev.Type == stream.Synced && ev.ResourceVersion != "" && last != nil && last.Type == stream.Gap &&
		last.Gap.From == ev.ResourceVersion && last.Gap.To != ev.ResourceVersion:
		ev.Type, u.synced, u.events = stream.Bookmark, true, u.events[:len(u.events)-1]
	case ev.Type == stream.Gap:
		u.synced = false
	case ev.Type == stream.Synced && !u.synced:
		u.synced = true
	case ev.Type == stream.Synced && ev.ResourceVersion == "":
		return
	case ev.Type == stream.Synced:
		ev.Type = stream.Bookmark
	}
	u.events = append(u.events, ev)
}

func (p *resumedRuns) run() {
	p.Writes(p.Rand, 29)
	p.Faults(8, "500", "503", "slow 2s", "close", "reset", "410", "garbage", "half-open")
	decision := scenario.Pick(p.Rand, mux.Fail, mux.Retry)
	p.m = newMux(p.T, &mux.Options{
		Overflow: scenario.Pick(p.Rand, mux.Block, mux.Latest), BufferEvents: 1 + p.IntN(9),
		BufferBytes: int64(1 + p.IntN(50_000)), ConcurrentSnapshots: 1 + p.IntN(3),
		OnError: func(string, error) mux.Decision { return decision },
	})
	for i := range 1 + p.IntN(3) {
		p.add(fmt.Sprint("s", i))
	}
	for range 2 + p.IntN(8) {
		p.runOnce(false)
		p.between()
	}
	p.Do("heal")
	p.runOnce(true)
	for key, s := range p.all {
		p.check(key, s)
	}
}

func (p *resumedRuns) add(key string) {
	s := &resumed{r: scenario.Pick(p.Rand, resources...), overflow: scenario.Pick(p.Rand, mux.Block, mux.Latest)}
	s.o.Requests.PagedLists, s.o.Requests.PageSize = p.Chance(33), p.IntN(4)
	switch p.IntN(4) {
	case 0:
		s.o.Namespaces = p.Namespaces
	case 1:
		s.o.LabelSelector = "colour=red"
	}
	if p.Chance(50) {
		s.o.Requests.GiveUpAfter = time.Duration(1+p.IntN(20)) * time.Second
	}
	s.o.Objects = p.Objects()
	q := newStream(p.T, p.Server, s.r, &s.o).With(stream.Run{
		Start: stream.Resume(), Key: key, Bookmarks: p.Chance(50),
	})
	add(p.T, p.m, q, &mux.SourceOptions{Overflow: s.overflow})
	p.all[key] = s
}

// runOnce is one run. The last one ends when everything has been delivered.
func (p *resumedRuns) runOnce(last bool) {
	ctx, cancel := context.WithCancelCause(p.Context())
	defer cancel(nil)
	own, body, over := rand.New(rand.NewPCG(p.Uint64(), 2)), rand.New(rand.NewPCG(p.Uint64(), 3)), make(chan struct{})
	slow, leave, how := time.Duration(1+p.IntN(2500))*time.Millisecond, 1+p.IntN(25), p.IntN(6)
	if last {
		slow, how = 1, -1
	}
	p.Note("a run begins, %d wait", p.m.Status().Queued)
	var others sync.WaitGroup
	others.Go(func() {
		if last {
			time.Sleep(30 * time.Minute)
			p.m.Drain()
			return
		}
		for range 1 + own.IntN(6) {
			select {
			case <-time.After(time.Duration(own.IntN(8000)) * time.Millisecond):
			case <-over:
				return
			}
			p.disturb(own)
		}
		switch how {
		case 0:
			cancel(errTimeUp)
		case 1:
			p.m.Drain()
		default:
			p.m.Stop()
		}
	})
	n := 0
	for ev, err := range p.m.Events(ctx) {
		if err != nil {
			if err != errTimeUp && !errors.As(err, new(*stream.GaveUpError)) {
				p.Errorf("it ended with %v", err)
			}
			break
		}
		p.Note("%s: %s", mux.SourceOf(ev), ev)
		p.all[mux.SourceOf(ev)].add(ev)
		time.Sleep(time.Duration(body.Int64N(int64(slow))))
		if n++; n != leave {
			continue
		}
		switch how {
		case 2:
			p.m.Stop()
		case 3:
			cancel(errTimeUp)
		case 4:
			p.m.Drain()
		}
		if how == 5 {
			break
		}
	}
	close(over)
	others.Wait()
	p.Note("the run is over, %d wait", p.m.Status().Queued)
}

// disturb does something to the server.
func (p *resumedRuns) disturb(r *rand.Rand) {
	switch r.IntN(12) {
	case 0:
		p.Do(scenario.Pick(r, "compact", "restart", "widgets expire", "gadgets close watches", "widgets silence",
			"bookmarks every 5s"))
	case 1:
		p.Do("compact", "close watches")
	default:
		p.Writes(r, 9)
	}
}

// between is what happens between two runs.
func (p *resumedRuns) between() {
	for p.Chance(50) {
		time.Sleep(time.Duration(p.IntN(60)) * time.Second)
		p.disturb(p.Rand)
	}
}

func (p *resumedRuns) check(key string, s *resumed) {
	h := p.Server.History(s.r, &stream.Options{Namespaces: s.o.Namespaces, LabelSelector: s.o.LabelSelector})
	o := streamtest.CheckOptions{Latest: s.overflow == mux.Latest, Namespaces: s.o.Namespaces, Complete: true}
	if err := streamtest.Check(h, s.events, &o); err != nil {
		p.Errorf("%s of %s: %v\n%+v %s\nlog:\n%s\nevents:\n%s\nhistory:\n%s", key, s.r, err, s.o, s.overflow,
			strings.Join(p.Log, "\n"), strings.Join(oracle.Texts(s.events), "\n"), scenario.HistoryText(h))
	}
}

// resuming returns a Sequence of widgets that resumes.
func resuming(t *testing.T, srv *streamtest.Server, o *stream.Options) *stream.Sequence {
	t.Helper()
	return newStream(t, srv, widgets(), o).With(stream.Run{Start: stream.Resume()})
}

// What waited when the loop was left comes first in the next run, and is not read again.
func TestEventsThatWaitedComeFirst(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
		for _, leave := range []string{"break", "Stop", "cancel"} {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				for _, name := range []string{"a", "b", "c"} {
					srv.Put(widgets(), "default", name)
				}
				m := newMux(t, &mux.Options{Overflow: overflow, BufferEvents: 2}, resuming(t, srv, nil))
				run := func(n int) (got []string) { // up to n events
					ctx, cancel := context.WithCancelCause(anHour(t))
					defer cancel(nil)
					for ev, err := range m.Events(ctx) {
						if err != nil {
							return got
						}
						got = append(got, ev.String())
						synctest.Wait() // the others wait
						if len(got) < n {
							continue
						}
						switch leave {
						case "break":
							return got
						case "Stop":
							m.Stop()
						case "cancel":
							cancel(errTimeUp)
						}
					}
					return got
				}
				got := [][]string{run(1), run(1), run(2)}
				srv.Put(widgets(), "default", "b", "spec.n=1")
				got = append(got, slices.Compact(run(20))) // one SYNCED or more: each run that resumes delivers one
				want := [][]string{{"ADDED default/a@2"}, {"ADDED default/b@3"}, {"ADDED default/c@4", "SYNCED @4"},
					{"SYNCED @4", "MODIFIED default/b@5"}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", overflow, leave, diff)
				}
				if st := m.Status(); st.Queued != 0 || st.Bytes != 0 {
					t.Errorf("%s, %s: nothing waits, and the status is %+v", overflow, leave, st)
				}
			})
		}
	}
}

// An event that the source was about to deliver when the loop was left is not lost.
func TestEventThatComesLateIsKept(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			srv.Put(widgets(), "default", "a")
			srv.Put(widgets(), "default", "b")
			slowly := func(*unstructured.Unstructured) { time.Sleep(time.Minute) }
			q := resuming(t, srv, &stream.Options{Transform: slowly})
			m := newMux(t, &mux.Options{Overflow: overflow}, q)
			var got []string
			for range 2 {
				for ev, err := range m.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, ev.String()); len(got) == 1 || ev.Type == stream.Synced {
						synctest.Wait()
						break // at first while b is transformed
					}
				}
			}
			want := []string{"ADDED default/a@2", "ADDED default/b@3", "GAP restarted ..3", "SYNCED @3"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", overflow, diff)
			}
		})
	}
}

// A source that is removed has lost what waited, so it begins again with everything that exists.
func TestRemovedSequenceBeginsAgain(t *testing.T) {
	tests := []struct {
		name   string
		within bool // Remove and Add are called in the loop body, else between two runs
		after  int  // events
		want   []string
		why    string
	}{
		{"in a run, in the snapshot", true, 1, []string{"ADDED default/a@2",
			"ADDED default/a@2", "ADDED default/b@3", "SYNCED @3"}, "b and SYNCED waited"},
		{"in a run, live", true, 3, []string{"ADDED default/a@2", "ADDED default/b@3", "SYNCED @3",
			"ADDED default/a@2", "ADDED default/b@3", "SYNCED @3"}, "nothing waited"},
		{"between runs, in the snapshot", false, 1, []string{"ADDED default/a@2",
			"ADDED default/a@2", "ADDED default/b@3", "SYNCED @3"}, "b and SYNCED waited"},
		{"between runs, live", false, 3, []string{"ADDED default/a@2", "ADDED default/b@3", "SYNCED @3",
			"ADDED default/a@2", "ADDED default/b@3", "SYNCED @3"}, "nothing waited"},
	}
	for _, tt := range tests {
		for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
			t.Run(tt.name+", "+string(overflow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := streamtest.NewServer(widgets())
					srv.Put(widgets(), "default", "a")
					srv.Put(widgets(), "default", "b")
					q := resuming(t, srv, nil)
					m := newMux(t, &mux.Options{Overflow: overflow}, q)
					replace := func() {
						if !m.Remove(q.Key()) {
							t.Error("the source was not in the Mux")
						}
						add(t, m, q, nil)
					}
					var got []string
					runs := 1
					if !tt.within {
						runs = 2
					}
					for range runs {
						time.AfterFunc(10*time.Minute, m.Stop)
						for ev, err := range m.Events(anHour(t)) {
							if err != nil {
								t.Fatal(err)
							}
							got = append(got, ev.String())
							synctest.Wait()
							if len(got) != tt.after {
								continue
							}
							if !tt.within {
								break
							}
							replace()
						}
						if !tt.within && len(got) == tt.after {
							replace()
						}
					}
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", tt.why, diff)
					}
				})
			})
		}
	}
}

// A source that panicked begins with a snapshot. What it had delivered before is not lost, and later runs resume.
func TestPanickedSequenceIsResumedLater(t *testing.T) {
	tests := []struct {
		name string
		left bool // the loop is left before it receives the failure
		n    int  // events of the run that has the failure
		why  string
	}{
		{"retried", false, 10, "OnError retries it, and the loop is left in its snapshot"},
		{"left", true, 6, "the next run starts it again"},
	}
	for _, tt := range tests {
		for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
			t.Run(tt.name+", "+string(overflow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := streamtest.NewServer(widgets())
					for i := range 5 {
						srv.Put(widgets(), "default", fmt.Sprint("o", i))
					}
					var armed atomic.Bool
					o := &stream.Options{Select: func(m stream.Meta) bool {
						if m.GetName() == "o3" && armed.CompareAndSwap(true, false) {
							panic("once")
						}
						return true
					}}
					const all = 1000
					var lives []*unbroken
					begin := func() { lives = append(lives, &unbroken{}) }
					failures := 0
					m := newMux(t, &mux.Options{Overflow: overflow, OnError: func(_ string, err error) mux.Decision {
						failures++
						begin() // its events have been delivered
						return mux.Retry
					}}, resuming(t, srv, o))
					// run ends after n events, of which the first kept belong to the life before.
					run := func(n, kept int, on func(n int)) {
						for ev, err := range m.Events(anHour(t)) {
							if err != nil {
								t.Fatal(err)
							}
							if kept--; kept == -1 {
								begin()
							}
							lives[len(lives)-1].add(ev)
							if on != nil {
								on(n)
							}
							synctest.Wait()
							if n--; n == 0 {
								break
							}
						}
					}
					begin()
					run(2, all, nil) // in the snapshot
					run(tt.n, all, func(left int) {
						if tt.n-left == 4 { // SYNCED
							armed.Store(true)
							srv.Put(widgets(), "default", "o1", "spec.n=1")
							srv.Put(widgets(), "default", "o2", "spec.n=1")
							srv.Put(widgets(), "default", "o3", "spec.n=1") // panics
						}
					})
					if armed.Load() {
						t.Fatal("it has not panicked")
					}
					if tt.left {
						if kept := m.Status().Queued; kept != 0 {
							t.Fatalf("%d events wait, and the next run begins again", kept)
						}
						run(3, 0, nil)
					}
					srv.Put(widgets(), "default", "o4", "spec.n=2")
					_, _ = srv.Delete(widgets(), "default", "o0")
					time.AfterFunc(10*time.Minute, m.Stop)
					run(-1, all, nil)
					if len(lives) != 2 || failures == 1 == tt.left {
						t.Fatalf("%s: %d lives, %d failures", tt.why, len(lives), failures)
					}
					for i, l := range lives {
						check := &streamtest.CheckOptions{Latest: overflow == mux.Latest, Complete: i == 1}
						if err := streamtest.Check(srv.History(widgets(), nil), l.events, check); err != nil {
							t.Errorf("%s: life %d: %v\n%s", tt.why, i, err,
								strings.Join(oracle.Texts(l.events), "\n"))
						}
					}
				})
			})
		}
	}
}

// A source whose run has ended is started again in the next run of the Mux, where it was.
func TestEndedSequenceIsStartedAgain(t *testing.T) {
	tests := []struct {
		name string
		run  stream.Run
		left bool // the loop is left before it receives the end
		want []string
		why  string
	}{
		{"failed", stream.Run{Start: stream.Resume()}, false,
			[]string{"SYNCED @2", "ADDED default/b@3", "DELETED default/a@4"}, "the failure ended the run"},
		{"failed, and left", stream.Run{Start: stream.Resume()}, true,
			[]string{"ADDED default/x@3", "SYNCED @3", "ADDED default/b@4", "DELETED default/a@5"},
			"the failure of the earlier run does not count"},
		{"until SYNCED", stream.Run{Start: stream.Resume(), Until: stream.UntilSynced}, false,
			[]string{"ADDED default/b@3 inferred", "DELETED default/a@2 inferred", "SYNCED @4"},
			"the differences are delivered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "default", "a")
				s := newStream(t, srv, widgets(), &stream.Options{
					Requests: stream.Requests{GiveUpAfter: 10 * time.Second},
				})
				m := newMux(t, nil, s.With(tt.run))
				var ended error
				var got []string
				for ev, err := range m.Events(anHour(t)) {
					if ended = err; err != nil {
						break
					}
					got = append(got, ev.String())
					if ev.Type != stream.Synced {
						continue
					}
					if tt.left {
						srv.Put(widgets(), "default", "x")
						synctest.Wait()
					}
					do(t, srv, "unauthorized")
					do(t, srv, "close watches")
					if tt.left {
						time.Sleep(5 * time.Minute)
						if st := s.Status(); st.State != stream.Stopped {
							t.Fatalf("the Stream is %s", st.State)
						}
						break
					}
				}
				fails := tt.run.Until == "" && !tt.left
				if fails != errors.As(ended, new(*stream.GaveUpError)) {
					t.Errorf("%s: the first run ended with %v", tt.why, ended)
				}
				if diff := cmp.Diff([]string{"ADDED default/a@2", "SYNCED @2"}, got); diff != "" {
					t.Errorf("the first run (-want +got):\n%s", diff)
				}
				do(t, srv, "authorized")
				srv.Put(widgets(), "default", "b")
				if _, err := srv.Delete(widgets(), "default", "a"); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(10*time.Minute, m.Stop)
				rec := streamtest.Record(m.Events(anHour(t)), nil)
				if diff := cmp.Diff(tt.want, rec.Texts()); rec.Err != nil || diff != "" {
					t.Errorf("%s: %v, -want +got:\n%s", tt.why, rec.Err, diff)
				}
			})
		})
	}
}

// TestLatestKeepsItsQueue: a source that resumes goes on to coalesce after a run whose events were discarded.
func TestLatestKeepsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		m := newMux(t, &mux.Options{Overflow: mux.Latest}, resuming(t, srv, nil))
		once := func(panics bool) (n int) {
			defer func() { _ = recover() }()
			for ev, err := range m.Events(anHour(t)) {
				switch {
				case err != nil:
					t.Fatal(err)
				case panics:
					panic("mine")
				case ev.Type == stream.Synced:
					for i := range 100 {
						srv.Put(widgets(), "default", "a", fmt.Sprint("spec.n=", i))
					}
					synctest.Wait()
					m.Drain()
				default:
					n++
				}
			}
			return n
		}
		once(true)
		if n := once(false); n != 1 {
			t.Errorf("%d events of one object, want 1", n)
		}
	})
}

// TestRetriedSnapshotWaitsForTheNextRun: a source of two namespaces is retried after a gap. The snapshot of one waits
// while the other is not read, and the loop is left. What is deleted until the next run is reported, as in
// TestLatestAfterRetry.
func TestRetriedSnapshotWaitsForTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		for _, name := range []string{"a", "b", "c"} {
			srv.Put(widgets(), "one", name)
		}
		q := newStream(t, srv, widgets(), &stream.Options{
			Namespaces: []string{"one", "two"}, Requests: stream.Requests{PagedLists: true},
		}).With(stream.Run{Start: stream.Resume(), FailOnGap: true})
		m := newMux(t, &mux.Options{Overflow: mux.Latest, OnError: retrying}, q)
		synced := false
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if synced && ev.Type == stream.Added {
				time.Sleep(5 * time.Second)
				synctest.Wait() // the others wait
				break
			}
			if ev.Type == stream.Synced {
				synced = true
				if err := srv.Apply("watch 1 in one: 410 in stream\nlist 1-* in two: hang"); err != nil {
					t.Fatal(err)
				}
				do(t, srv, "widgets close watches")
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			_, _ = srv.Delete(widgets(), "one", name)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errTimeUp)
		defer cancel()
		deleted := map[string]bool{}
		for ev, err := range m.Events(ctx) {
			if err != nil {
				break
			}
			if len(deleted) == 0 {
				time.Sleep(10 * time.Second)
				synctest.Wait()
				do(t, srv, "heal")
			}
			deleted[ev.NamespacedName().Name] = deleted[ev.NamespacedName().Name] || ev.Type == stream.Deleted
		}
		delete(deleted, "") // SYNCED
		if diff := cmp.Diff(map[string]bool{"a": true, "b": true, "c": true}, deleted); diff != "" {
			t.Errorf("deletions that were reported (-want +got):\n%s", diff)
		}
	})
}
