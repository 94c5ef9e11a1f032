package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// sharers are Streams that range at once, with one Connections.
type sharers struct {
	*testing.T
	srv    *streamtest.Server
	client dynamic.Interface
	all    *stream.Connections
	wg     sync.WaitGroup
	writes int
	hurry  atomic.Bool // nobody dawdles
}

func newSharers(t *testing.T) *sharers {
	srv := streamtest.NewServer(widgets())
	return &sharers{T: t, srv: srv, client: srv.Client(), all: stream.NewConnections()}
}

// sharer is one of them.
type sharer struct {
	*sharers
	stream *stream.Stream
	check  streamtest.CheckOptions
	scope  streamtest.Scope
	cancel context.CancelCauseFunc
	over   chan struct{}
	body   func(stream.Event)

	mu       sync.Mutex
	rec      streamtest.Recording
	requests []stream.Request
	asked    []streamtest.Request
	ends     []stream.WatchEnd
}

// add makes one that is not ranging yet.
func (g *sharers) add(o stream.Options) *sharer {
	g.Helper()
	s := &sharer{sharers: g, over: make(chan struct{}), check: streamtest.CheckOptions{Settled: true, Namespaces: o.Namespaces}}
	s.scope = streamtest.Scope{Namespaces: o.Namespaces, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector}
	o.Trace = &stream.Trace{
		RequestDone: func(r stream.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests = append(s.requests, r)
			s.asked = append(s.asked, streamtest.Request{At: time.Now(), Verb: r.Verb}) // or would have, if it had not joined
		},
		StatusChanged: func(st stream.Status) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.rec.Statuses = append(s.rec.Statuses, st)
		},
		WatchClosed: func(e stream.WatchEnd) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ends = append(s.ends, e)
		},
	}
	var err error
	if s.stream, err = stream.New(g.client, widgets(), &o); err != nil {
		g.Fatal(err)
	}
	return s
}

// start lets it range, until stop.
func (s *sharer) start() *sharer {
	bound, done := context.WithTimeout(s.Context(), 24*time.Hour) // in a bubble, one that never ends would spin for ever
	ctx, cancel := context.WithCancelCause(bound)
	s.cancel = cancel
	s.wg.Go(func() {
		defer close(s.over)
		defer done()
		rec := streamtest.Record(s.stream.EventsWith(ctx, stream.Range{Connections: s.all}), func(ev stream.Event) bool {
			if s.body != nil {
				s.body(ev)
			}
			return false
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		rec.Statuses = s.rec.Statuses
		s.rec = rec
	})
	return s
}

func (g *sharers) begin(o stream.Options) *sharer { return g.add(o).start() }

// stop ends it, waits, and returns what is wrong with what it told.
func (s *sharer) stop() error {
	s.cancel(errTimeUp)
	<-s.over
	if !errors.Is(s.rec.Err, errTimeUp) {
		return fmt.Errorf("it ended with %w", s.rec.Err)
	}
	h := s.srv.History(widgets(), s.scope)
	if err := errors.Join(streamtest.Check(h, s.rec.Events, &s.check), streamtest.CheckStatuses(s.rec.Statuses), streamtest.CheckRequests(s.asked)); err != nil {
		return fmt.Errorf("%w\n\ntold:\n%s\n\nhistory:\n%s", err, strings.Join(streamtest.Texts(s.rec.Events), "\n"), historyText(h))
	}
	return nil
}

// settle lets all be told, and ends them.
func (g *sharers) settle(all ...*sharer) {
	g.Helper()
	time.Sleep(time.Second)
	for i, s := range all {
		if err := s.stop(); err != nil {
			g.Errorf("stream %d: %v", i, err)
		}
	}
}

// watches are those that the server has seen.
func (g *sharers) watches() (n int) {
	for _, r := range g.srv.Requests() {
		if r.Verb == "watch" {
			n++
		}
	}
	return n
}

func (g *sharers) wantWatches(n int, why string) {
	g.Helper()
	if got := g.watches(); got != n {
		g.Errorf("the server saw %d watches, want %d: %s\n%s", got, n, why, historyText(streamtest.History{Requests: g.srv.Requests()}))
	}
}

func (g *sharers) put(n int) {
	for i := range n {
		g.writes++ // what changes nothing is no event
		g.srv.Put(widgets(), "default", fmt.Sprint("o", i%7), fmt.Sprint("spec.n=", g.writes), "labels.colour=red")
	}
}

func (g *sharers) do(what string) {
	g.Helper()
	if err := g.srv.Do(what); err != nil {
		g.Fatal(err)
	}
}

func (g *sharers) apply(script string) {
	g.Helper()
	if err := g.srv.Apply(script); err != nil {
		g.Fatal(err)
	}
}

// types counts the events of a sharer.
func (s *sharer) count(kind stream.Type) (n int) {
	for _, ev := range s.rec.Events {
		if ev.Type == kind {
			n++
		}
	}
	return n
}

func TestSharedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		first, second := g.begin(stream.Options{}), g.begin(stream.Options{})
		time.Sleep(time.Minute)
		g.put(20)
		third := g.begin(stream.Options{InitialList: stream.ListPaged})
		g.put(20)
		time.Sleep(time.Second)
		g.wantWatches(1, "they share it, those that begin together and the one that comes later")
		if err := first.stop(); err != nil {
			t.Error(err)
		}
		g.put(20)
		g.settle(second, third)
		g.wantWatches(1, "who leaves does not end it for others")
		shared := 0
		for _, s := range []*sharer{first, second, third} {
			for _, r := range s.requests {
				if r.Shared && r.Verb == "watch" && r.Err == nil {
					shared++
				}
			}
		}
		if shared != 2 {
			t.Errorf("two have joined, and %d requests are told as shared", shared)
		}
		g.settle(g.begin(stream.Options{}))
		g.wantWatches(2, "the last one has ended it")
	})
}

func TestSharedWith(t *testing.T) {
	red := stream.Options{LabelSelector: "colour=red,size in (1,2)"}
	tests := []struct {
		name   string
		a, b   stream.Options
		client func(*streamtest.Server) dynamic.Interface // of b, if it is another one
		want   int
		why    string
	}{
		{"all", stream.Options{}, stream.Options{}, nil, 1, "the same"},
		{"what one Stream does with it", stream.Options{}, stream.Options{Index: stream.IndexNone, PageSize: 7, Bookmarks: true, InitialList: stream.ListPaged, Select: nil}, nil, 1, "the server is asked the same"},
		{"one namespace", stream.Options{Namespaces: []string{"default"}}, stream.Options{Namespaces: []string{"default"}}, nil, 1, "the same"},
		{"namespaces in common", stream.Options{Namespaces: []string{"default", "x"}}, stream.Options{Namespaces: []string{"default", "y"}}, nil, 3, "one is"},
		{"another namespace", stream.Options{Namespaces: []string{"default"}}, stream.Options{Namespaces: []string{"x"}}, nil, 2, "others objects"},
		{"cluster and namespace", stream.Options{}, stream.Options{Namespaces: []string{"default"}}, nil, 2, "other objects"},
		{"label selector", red, red, nil, 1, "the same"},
		{"the same in other words", red, stream.Options{LabelSelector: "size in (2, 1), colour = red"}, nil, 1, "it says the same"},
		{"another label selector", red, stream.Options{LabelSelector: "colour=red"}, nil, 2, "other objects"},
		{"field selector", stream.Options{FieldSelector: "metadata.name=o1"}, stream.Options{Name: "o1"}, nil, 1, "it says the same"},
		{"another field selector", stream.Options{FieldSelector: "metadata.name=o1"}, stream.Options{}, nil, 2, "other objects"},
		{"metadata", stream.Options{}, stream.Options{MetadataOnly: true}, nil, 2, "the server may be asked for less"},
		{"at first close", stream.Options{}, stream.Options{End: stream.AtFirstClose}, nil, 2, "it wants to see its own watch end"},
		{"another client", stream.Options{}, stream.Options{}, func(s *streamtest.Server) dynamic.Interface { return s.Client() }, 2, "it may be another user's, or another server's"},
		{"a client that can't be compared", stream.Options{}, stream.Options{}, func(s *streamtest.Server) dynamic.Interface { return odd{s.Client(), nil} }, 2, "nobody knows whether it is the same"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newSharers(t)
				g.put(20)
				a := g.begin(tt.a)
				time.Sleep(time.Second)
				if tt.client != nil {
					g.client = tt.client(g.srv)
				}
				b := g.add(tt.b)
				b.check.IndexNone = tt.b.Index == stream.IndexNone
				b.scope.FieldSelector = strings.TrimPrefix(tt.b.FieldSelector+",metadata.name="+tt.b.Name, ",")
				if tt.b.Name == "" {
					b.scope.FieldSelector = tt.b.FieldSelector
				}
				if tt.b.MetadataOnly {
					b.check.Transform = metadataAlone
				}
				b.start()
				time.Sleep(time.Second)
				g.put(20)
				g.settle(a, b)
				g.wantWatches(tt.want, tt.why)
			})
		})
	}
}

// odd is a client whose type can't be compared.
type odd struct {
	dynamic.Interface
	_ []int
}

func TestSharedFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(widget("default", "a", "red"))
		all := stream.NewConnections()
		var wg sync.WaitGroup
		for range 2 {
			s, err := stream.New(c, widgets(), nil)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				streamtest.Record(s.EventsWith(ctx, stream.Range{Connections: all}), nil)
			})
		}
		wg.Wait()
		watches := 0
		for _, a := range c.Actions() {
			if a.GetVerb() == "watch" {
				watches++
			}
		}
		if watches != 2 {
			t.Errorf("the fake saw %d watches, want 2: its versions say nothing about where one could join", watches)
		}
	})
}

// metadataAlone is what MetadataOnly makes of an object.
func metadataAlone(u *unstructured.Unstructured) {
	for field := range u.Object {
		if field != "apiVersion" && field != "kind" && field != "metadata" {
			delete(u.Object, field)
		}
	}
}

func TestSharedObjectsAreOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(1)
		var all []*sharer
		for i := range 3 {
			s := g.add(stream.Options{})
			s.body = func(ev stream.Event) {
				if ev.Object == nil {
					return
				}
				if who, ok := ev.Object.GetAnnotations()["who"]; ok {
					t.Errorf("stream %d sees what %s has written", i, who)
				}
				ev.Object.SetAnnotations(map[string]string{"who": fmt.Sprint("stream ", i)})
				ev.Object.SetLabels(nil)
				delete(ev.Object.Object, "spec")
			}
			s.check.Transform = nil
			all = append(all, s.start())
			time.Sleep(time.Second)
			g.apply("list 1: slow 1s") // what is kept for the next one is nobody's either
			g.put(3)
		}
		time.Sleep(time.Minute)
		g.put(10)
		time.Sleep(time.Second)
		for _, s := range all {
			s.cancel(errTimeUp)
		}
		g.wg.Wait()
		g.wantWatches(1, "all of them share")
	})
}

// TestSharedJoin lets a second one begin, while the writer writes as fast as the
// server takes it.
func TestSharedJoin(t *testing.T) {
	tests := []struct {
		name    string
		options stream.Options // of the one who joins
		script  string
		during  func(*sharers) // while it reads its snapshot
		want    int
		why     string
	}{
		{"quiet", stream.Options{}, "", nil, 1, "it stands where the other does"},
		{"in pages", stream.Options{PageSize: 2}, "page *: slow 200ms", func(g *sharers) {
			for range 10 {
				g.put(10)
				time.Sleep(100 * time.Millisecond)
			}
		}, 1, "what was told meanwhile was kept"},
		{"slow list", stream.Options{}, "list 1: slow 1s", func(g *sharers) { g.put(900) }, 1, "this is not too much"},
		{"busy", stream.Options{}, "", func(g *sharers) { g.put(1000) }, 1, "while the writer does not stop"},
		{"too much meanwhile", stream.Options{PageSize: 3}, "page *: slow 500ms", func(g *sharers) {
			for range 30 {
				time.Sleep(10 * time.Millisecond)
				g.put(100)
				time.Sleep(10 * time.Millisecond)
			}
		}, 2, "that was not kept, and a watch of its own knows"},
		{"a page fails", stream.Options{PageSize: 3}, "page 1: 500\npage 3: 410", func(g *sharers) {
			for range 30 {
				g.put(10)
				time.Sleep(100 * time.Millisecond)
			}
		}, 1, "it lists again, and what is kept is enough"},
		{"a stale list", stream.Options{}, "list 1: stale 5", nil, 2, "the replica lags behind the watch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newSharers(t)
				g.put(20)
				a := g.begin(stream.Options{})
				time.Sleep(time.Second)
				g.put(10)
				time.Sleep(time.Second)
				g.apply(tt.script)
				b := g.begin(tt.options)
				if tt.during != nil {
					tt.during(g)
				}
				time.Sleep(20 * time.Second)
				g.put(20)
				g.settle(a, b)
				g.wantWatches(tt.want, tt.why)
				for i, s := range []*sharer{a, b} {
					if n := s.count(stream.Gap); n > 0 {
						t.Errorf("stream %d told %d GAPs, and nothing was lost", i, n)
					}
				}
			})
		})
	}
}

// TestSharedSlow is about one whose loop body takes too long.
func TestSharedSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		quick := g.begin(stream.Options{})
		time.Sleep(time.Second)
		slow := g.add(stream.Options{Timeout: 5 * time.Minute})
		slow.body = func(stream.Event) { time.Sleep(100 * time.Millisecond) }
		slow.start()
		time.Sleep(10 * time.Second)
		g.wantWatches(1, "they share")
		var last time.Time
		for range 50 {
			g.put(20)
			last = time.Now()
			time.Sleep(10 * time.Millisecond)
		}
		late := g.begin(stream.Options{})
		time.Sleep(2 * time.Minute)
		g.wantWatches(2, "the slow one has one of its own, and nobody else joins that")
		if at := len(quick.ends); at != 0 {
			t.Errorf("the watch of the quick one has ended %d times", at)
		}
		g.put(20)
		time.Sleep(10 * time.Second)
		g.settle(quick, slow, late)
		for i, s := range []*sharer{quick, late} {
			for j, ev := range s.rec.Events {
				if ev.Type == stream.Modified && s.rec.Times[j].Sub(last) > 0 && s.rec.Times[j].Sub(last) < 2*time.Minute {
					t.Errorf("stream %d was told %s late", i, streamtest.Text(ev))
				}
			}
		}
		if n := slow.count(stream.Gap); n > 0 {
			t.Errorf("the slow one told %d GAPs, but nothing was lost", n)
		}
		if slow.count(stream.Modified) < 1000 {
			t.Errorf("the slow one was told %d changes", slow.count(stream.Modified))
		}
	})
}

// TestSharedAlone: without others, the server waits for the loop body.
func TestSharedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		release := make(chan struct{})
		s := g.add(stream.Options{IdleTimeout: time.Hour})
		read := 0
		s.body = func(ev stream.Event) {
			if ev.Type == stream.Modified {
				read++
				<-release
			}
		}
		s.start()
		time.Sleep(time.Second)
		g.put(2000)
		time.Sleep(2 * time.Minute)
		close(release)
		g.settle(s)
		g.wantWatches(1, "it is not cut off")
		if read < 2000 {
			t.Errorf("it was told %d changes of 2000", read)
		}
	})
}

func metadataTexts(events []stream.Event) []string {
	var texts []string
	for _, ev := range events {
		if ev.Object != nil {
			texts = append(texts, streamtest.Text(ev))
		}
	}
	slices.Sort(texts)
	return texts
}

// TestSharedEnds is about ends and errors of a watch that three share.
func TestSharedEnds(t *testing.T) {
	tests := []struct {
		name string
		do   func(*sharers)
		gaps int // that each tells
		most int // watches
		why  string
	}{
		{"closed", func(g *sharers) { g.do("widgets close watches") }, 0, 2, "one is opened again, for all"},
		{"planned", func(g *sharers) { time.Sleep(5 * time.Minute) }, 0, 2, "likewise"},
		{"restarted", func(g *sharers) { g.do("restart") }, 0, 2, "they stand at the newest version, which has not expired"},
		{"restarted, and on it goes", func(g *sharers) { g.apply("probe *: slow 1s"); g.do("restart"); g.put(5); g.do("compact") }, 1, 7, "each has to hear that its version has expired"},
		{"ended with its schema", func(g *sharers) { g.do("widgets expire") }, 0, 2, "nor that"},
		{"410 in stream", func(g *sharers) { g.apply("change " + nextRevision(g) + ": 410 in stream"); g.put(1) }, 1, 2, "it is about all of them"},
		{"error frame", func(g *sharers) { g.failOnce("error frame") }, 0, 2, "passed on to all"},
		{"garbage", func(g *sharers) { g.failOnce("garbage") }, 0, 2, "likewise"},
		{"reset", func(g *sharers) { g.failOnce("reset inside frame") }, 0, 2, "likewise"},
		{"poison", func(g *sharers) { g.apply("change " + nextRevision(g) + ": garbage"); g.put(1) }, 1, 8, "gone around by each"},
		{"no name", func(g *sharers) { g.apply("change " + nextRevision(g) + ": no name"); g.put(1); g.do("heal") }, 0, 4, "each finds it unreadable"},
		{"silence", func(g *sharers) { g.do("widgets silence"); g.put(5); time.Sleep(2 * time.Minute) }, 0, 4, "each takes it for dead"},
		{"replay", func(g *sharers) { g.apply("change " + nextRevision(g) + ": replay 3"); g.put(1) }, 0, 1, "what is repeated is not told"},
		{"rewind", func(g *sharers) { g.do("rewind 3 restart"); time.Sleep(time.Minute) }, 1, 5, "each notices that by itself"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newSharers(t)
				g.put(20)
				var all []*sharer
				for range 3 {
					all = append(all, g.begin(stream.Options{Timeout: 5 * time.Minute, IdleTimeout: 70 * time.Second}))
				}
				time.Sleep(time.Second)
				g.put(5)
				time.Sleep(time.Second)
				tt.do(g)
				time.Sleep(time.Second)
				g.put(5)
				time.Sleep(time.Minute)
				last := g.begin(stream.Options{})
				time.Sleep(time.Second)
				g.put(5)
				g.settle(append(all, last)...)
				if n := g.watches(); n > tt.most {
					g.wantWatches(tt.most, tt.why)
				}
				for i, s := range all {
					if n := s.count(stream.Gap); n != tt.gaps {
						t.Errorf("stream %d told %d GAPs, want %d: %s", i, n, tt.gaps, tt.why)
					}
				}
			})
		})
	}
}

// failOnce fails the watch at the next change. The server is well before anybody is
// back: whoever was there looks first, and is made to wait for that.
func (g *sharers) failOnce(fault string) {
	g.apply("probe *: slow 1s\nchange " + nextRevision(g) + ": " + fault)
	g.put(1)
	g.do("heal")
}

func nextRevision(g *sharers) string {
	var n int
	_, _ = fmt.Sscan(g.srv.ResourceVersion(), &n)
	return fmt.Sprint(n + 1)
}

// TestSharedNotOthers: what concerns the version that one began at concerns no
// other.
func TestSharedNotOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		old := g.srv.ResourceVersion()
		g.put(20)
		g.srv.Compact("")
		// The first one's watch is accepted, and says that it has expired a second later.
		g.apply("watch 1: slow 1s")
		a := g.add(stream.Options{Start: stream.After(old)})
		a.check.After = old
		a.start()
		time.Sleep(100 * time.Millisecond)
		b := g.begin(stream.Options{OnExpired: stream.Fail})
		time.Sleep(time.Minute)
		g.put(20)
		g.settle(a, b)
		if a.count(stream.Gap) != 1 {
			t.Errorf("the first one's version had expired:\n%s", strings.Join(streamtest.Texts(a.rec.Events), "\n"))
		}
	})
}

// TestSharedRefusal: if a watch can't be opened, only the one who tried hears why.
func TestSharedRefusal(t *testing.T) {
	for _, fault := range []string{"403", "500", "410", "refuse", "429 retry-after 2s", "hang"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newSharers(t)
				g.put(20)
				g.apply("watch 1: " + fault)
				a := g.begin(stream.Options{InitialList: stream.ListPaged})
				b := g.begin(stream.Options{InitialList: stream.ListPaged})
				time.Sleep(20 * time.Second)
				var errs []error
				for _, s := range []*sharer{a, b} {
					s.mu.Lock()
					for _, r := range s.requests {
						if r.Err != nil {
							errs = append(errs, r.Err)
						}
					}
					s.mu.Unlock()
				}
				if len(errs) > 1 {
					t.Errorf("one has failed, and these are told: %v", errs)
				}
				time.Sleep(time.Minute)
				g.put(20)
				time.Sleep(time.Second)
				refused := 0
				for _, s := range []*sharer{a, b} {
					if err := s.stop(); errors.Is(err, stream.ErrForbidden) {
						refused++
					} else if err != nil {
						t.Error(err)
					}
				}
				if want := map[bool]int{true: 1}[fault == "403"]; refused != want {
					t.Errorf("%d were refused, want %d", refused, want)
				}
				g.wantWatches(2, "the one that failed, and one for those who are left")
			})
		})
	}
}

// TestSharedOpenerLeaves while its watch is being opened, or told, or later.
func TestSharedOpenerLeaves(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond, time.Second, 1100 * time.Millisecond, 3 * time.Second} {
		for _, script := range []string{"initial 1: slow 300ms", "initial 1: slow 10ms", "initial 1: hang", "initial *: 422\nwatch 1: hang"} {
			t.Run(fmt.Sprint(script, " ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newSharers(t)
					g.put(20)
					g.apply(script)
					a, b := g.begin(stream.Options{}), g.add(stream.Options{})
					time.Sleep(10 * time.Millisecond)
					b.start()
					time.Sleep(after)
					a.cancel(errTimeUp)
					<-a.over
					time.Sleep(time.Minute)
					g.put(20)
					time.Sleep(10 * time.Second)
					g.settle(b)
					if n := g.watches(); n > 4 {
						t.Errorf("the server saw %d watches", n)
					}
				})
			})
		}
	}
}

// TestSharedSuspect: a watch that somebody takes for dead is joined by nobody.
func TestSharedSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		g.do("bookmarks never")
		patient := g.begin(stream.Options{IdleTimeout: time.Hour})
		time.Sleep(time.Second)
		g.put(1)
		time.Sleep(time.Second)
		impatient := g.begin(stream.Options{IdleTimeout: 5 * time.Second})
		time.Sleep(3 * time.Second)
		g.wantWatches(1, "they share")
		g.do("widgets silence")
		time.Sleep(4 * time.Second) // impatient has given it up
		g.wantWatches(2, "it has another one")
		next := g.begin(stream.Options{IdleTimeout: time.Hour})
		time.Sleep(time.Second)
		g.wantWatches(2, "which is what the next one joins")
		g.put(5)
		time.Sleep(time.Second)
		g.settle(impatient, next)
		patient.cancel(errTimeUp)
		g.wg.Wait()
		want := metadataTexts(next.rec.Events[len(next.rec.Events)-5:])
		if diff := cmp.Diff(want, metadataTexts(impatient.rec.Events[len(impatient.rec.Events)-5:])); diff != "" {
			t.Errorf("both hear what comes (-want +got):\n%s", diff)
		}
	})
}

// TestSharedLongSilent: who would take the watch for dead already does not join it.
func TestSharedLongSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		g.do("bookmarks never")
		patient := g.begin(stream.Options{IdleTimeout: time.Hour})
		time.Sleep(10 * time.Second)
		g.settle(g.begin(stream.Options{IdleTimeout: 5 * time.Second}))
		g.wantWatches(2, "it has been silent for too long, for that one")
		g.settle(g.begin(stream.Options{IdleTimeout: 20 * time.Second}), patient)
		g.wantWatches(2, "and not for this one")
	})
}
