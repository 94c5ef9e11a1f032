package mux_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const randomSeeds = seedtest.Default(100)

// TestRandom adds and removes sources, stops, drains and runs again at random, under random faults, and checks what
// each source delivered while it was in the Mux against every promise.
//
//	go test ./mux -run TestRandom -seed 4711
func TestRandom(t *testing.T) {
	randomSeeds.Run(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) {
			p := &randomRun{Scenario: scenario.New(t, n, 1, resources, "one", "two"), lives: map[string]*life{}}
			p.run()
		})
	})
}

// randomRun is one seed.
type randomRun struct {
	*scenario.Scenario
	m        *mux.Mux
	client   dynamic.Interface // of most sources
	overflow mux.Overflow      // of most sources

	mu    sync.Mutex
	lives map[string]*life // of the sources in the Mux, by key
	past  []*life
}

// life is what a source delivered in one run, from Add to Remove or the end of the run.
type life struct {
	key      string
	r        gvr.Resource
	o        stream.Options
	run      stream.Run
	overflow mux.Overflow
	events   []stream.Event
	complete bool               // the source was in the Mux until nothing changed any more
	history  streamtest.History // up to its end
}

var resources = []gvr.Resource{widgets(), gadgets(), resource("cogs", "Cog")}

func (p *randomRun) run() {
	p.Writes(p.Rand, 29)
	p.Faults(8, "500", "503", "slow 2s", "close", "reset", "410")
	p.overflow = mux.Block
	if p.Chance(50) {
		p.overflow = mux.Latest
	}
	var err error
	if p.client, err = stream.NewClient(p.Server.Config(), nil); err != nil {
		p.Fatal(err)
	}
	decision := scenario.Pick(p.Rand, mux.Drop, mux.Retry)
	p.m = newMux(p.T, &mux.Options{
		Overflow: p.overflow, BufferEvents: 1 + p.IntN(5), BufferBytes: int64(1 + p.IntN(5000)),
		ConcurrentSnapshots: 1 + p.IntN(3),
		OnError:             func(string, error) mux.Decision { return decision },
	})
	for i := range 1 + p.IntN(4) {
		p.add(p.Rand, fmt.Sprint("s", i))
	}
	for range 1 + p.IntN(3) {
		p.runOnce()
	}
	for _, l := range p.past {
		p.check(l)
	}
}

// add adds a source and records it before it can deliver anything.
func (p *randomRun) add(r *rand.Rand, key string) {
	l := &life{key: key, r: resources[r.IntN(len(resources))], overflow: p.overflow}
	if r.IntN(3) == 0 {
		l.o.Requests.PagedLists, l.o.Requests.PageSize = true, 2+r.IntN(5)
	}
	switch r.IntN(5) {
	case 0:
		l.o.Namespaces = []string{"one", "two"}
	case 1:
		l.o.LabelSelector = "colour=red"
	}
	l.run.Bookmarks, l.o.Objects = r.IntN(2) == 0, scenario.Pick(r, stream.Full, stream.Raw, stream.Metadata)
	client := p.client
	if r.IntN(4) == 0 {
		client = p.Server.Client()
	}
	s, err := stream.New(client, l.r, &l.o)
	if err != nil {
		p.Fatal(err)
	}
	o := &mux.SourceOptions{Key: key}
	if r.IntN(4) == 0 {
		l.overflow = map[mux.Overflow]mux.Overflow{mux.Block: mux.Latest, mux.Latest: mux.Block}[l.overflow]
		o.Overflow = l.overflow
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lives[key] != nil {
		return
	}
	if err := p.m.Add(s.With(l.run), o); err != nil {
		p.Fatal(err)
	}
	p.lives[key] = l
}

// remove removes a source, after which it must deliver nothing.
func (p *randomRun) remove(key string) {
	p.mu.Lock()
	l := p.lives[key]
	p.mu.Unlock()
	if l == nil || !p.m.Remove(key) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish(l)
	delete(p.lives, key)
}

// finish records the end of a life.
func (p *randomRun) finish(l *life) {
	l.history = p.Server.History(l.r, &stream.Options{Namespaces: l.o.Namespaces, LabelSelector: l.o.LabelSelector})
	p.past = append(p.past, l)
}

// runOnce is one run.
func (p *randomRun) runOnce() {
	ctx, cancel := context.WithTimeoutCause(p.Context(), 4*time.Hour, errTimeUp)
	defer cancel()
	own := rand.New(rand.NewPCG(p.Uint64(), 2))
	how := p.IntN(4)
	slow := time.Duration(p.IntN(3)) * time.Second
	leave := 1 + p.IntN(100)
	var others sync.WaitGroup
	over := make(chan struct{})
	others.Go(func() { p.others(own, how, over) })
	n := 0
	body := rand.New(rand.NewPCG(p.Uint64(), 3))
	var last error
	for ev, err := range p.m.Events(ctx) {
		if err != nil {
			last = err
			break
		}
		p.mu.Lock()
		l := p.lives[mux.SourceOf(ev)]
		if l == nil {
			p.Errorf("after Remove of %q, it delivers %s", mux.SourceOf(ev), ev)
			p.mu.Unlock()
			break
		}
		l.events = append(l.events, ev)
		p.mu.Unlock()
		if slow > 0 {
			time.Sleep(time.Duration(body.Int64N(int64(slow))))
		}
		if body.IntN(60) == 0 {
			p.Note("the body removes %s", mux.SourceOf(ev))
			p.remove(mux.SourceOf(ev))
			p.add(body, mux.SourceOf(ev))
		}
		if n++; how == 3 && n == leave {
			break
		}
	}
	close(over)
	others.Wait()
	if last != nil {
		p.Errorf("it ended with %v", last)
	}
	for key, l := range p.lives {
		l.complete = how == 0
		p.finish(l)
		p.lives[key] = &life{key: key, r: l.r, o: l.o, run: l.run, overflow: l.overflow}
	}
}

// others does what other goroutines do during a run.
func (p *randomRun) others(r *rand.Rand, how int, over chan struct{}) {
	sleep := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-over:
			return false
		}
	}
	for range 3 + r.IntN(12) {
		if !sleep(time.Duration(r.IntN(20_000)) * time.Millisecond) {
			return
		}
		switch key := fmt.Sprint("s", r.IntN(5)); r.IntN(12) {
		case 0, 1:
			p.Note("remove %s", key)
			p.remove(key)
		case 2, 3:
			p.Note("add %s", key)
			p.add(r, key)
		case 4:
			p.Do(scenario.Pick(r, "compact", "restart", "widgets expire", "gadgets close watches", "widgets silence",
				"bookmarks every 5s"))
		case 5:
			p.Do("compact", "close watches")
		default:
			p.Writes(r, 9)
		}
	}
	p.Do("heal")
	switch how {
	case 0, 3:
		sleep(15 * time.Minute) // everything is delivered by then
		if how == 0 {
			p.Note("drain when nothing changes")
		}
		p.m.Drain()
	case 1:
		p.Note("drain")
		p.m.Drain()
	case 2:
		p.Note("stop")
		p.m.Stop()
	}
}

func (p *randomRun) check(l *life) {
	o := streamtest.CheckOptions{
		Latest: l.overflow == mux.Latest, Complete: l.complete, Namespaces: l.o.Namespaces,
	}
	if l.o.Objects == stream.Metadata {
		o.Transform = onlyMetadata
	}
	if err := streamtest.Check(l.history, l.events, &o); err != nil {
		p.Errorf("%s of %s: %v\n%+v %s\nlog:\n%s\nevents:\n%s\nhistory:\n%s", l.key, l.r, err, l.o, l.overflow,
			strings.Join(p.Log, "\n"), strings.Join(oracle.Texts(l.events), "\n"), scenario.HistoryText(l.history))
	}
}

// onlyMetadata reduces an object as stream.Metadata does.
func onlyMetadata(u *unstructured.Unstructured) {
	maps.DeleteFunc(u.Object, func(field string, _ any) bool {
		return field != "apiVersion" && field != "kind" && field != "metadata"
	})
}
