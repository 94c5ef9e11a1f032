package mux_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const randomSeeds = seedtest.Default(150)

// TestRandom adds, removes, stops, drains and begins again at random, under random
// faults, and holds what each source told while it was in to every promise.
//
//	go test ./mux -run TestRandom -seed 4711
func TestRandom(t *testing.T) {
	randomSeeds.Play(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) {
			p := &play{T: t, Rand: rand.New(rand.NewPCG(n, 1)), seed: n, lives: map[string]*life{}}
			p.run()
		})
	})
}

// play is one seed.
type play struct {
	*testing.T
	*rand.Rand
	seed     uint64
	srv      *streamtest.Server
	m        *mux.Mux
	overflow mux.Overflow

	mu    sync.Mutex
	lives map[string]*life // by key, those that are in
	past  []*life
	acts  []string
}

// life is what a source told in one range, from when it was added until it was
// removed, or the range ended.
type life struct {
	key     string
	r       gvr.Resource
	o       stream.Options
	latest  bool
	events  []stream.Event
	settled bool               // it was in until all was quiet
	history streamtest.History // up to its end
}

func (p *play) act(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acts = append(p.acts, time.Now().Format("04:05.000 ")+what)
}

var resources = []gvr.Resource{widgets(), gadgets(), resource("cogs", "Cog")}

func (p *play) run() {
	p.srv = streamtest.NewServer(resources...)
	for range p.IntN(30) {
		p.write(p.Rand)
	}
	for range p.IntN(4) {
		what := fmt.Sprintf("%s %d: %s", []string{"list", "watch", "initial", "any"}[p.IntN(4)], 1+p.IntN(4), []string{"500", "503", "slow 2s", "close", "reset", "410"}[p.IntN(6)])
		p.act(what)
		if err := p.srv.Apply(what); err != nil {
			p.Fatal(err)
		}
	}
	p.overflow = []mux.Overflow{mux.Block, mux.Latest}[p.IntN(2)]
	p.m = newMux(p.T, &mux.Options{Overflow: p.overflow, Events: 1 + p.IntN(5), Bytes: int64(1 + p.IntN(5000)), Lists: 1 + p.IntN(3),
		OnError: func(string, error) mux.Decision { return []mux.Decision{mux.Drop, mux.Retry}[p.seed%2] }})
	for i := range 1 + p.IntN(4) {
		p.add(p.Rand, fmt.Sprint("s", i))
	}
	for range 1 + p.IntN(3) {
		p.onceOver()
	}
	for _, l := range p.past {
		p.check(l)
	}
}

// add adds a source and notes it before anything of it can be told.
func (p *play) add(r *rand.Rand, key string) {
	l := &life{key: key, r: resources[r.IntN(len(resources))], latest: p.overflow == mux.Latest}
	if r.IntN(3) == 0 {
		l.o.InitialList, l.o.PageSize = stream.ListPaged, 2+r.IntN(5)
	}
	if r.IntN(4) == 0 {
		l.o.Index = stream.IndexNone
	}
	switch r.IntN(5) {
	case 0:
		l.o.Namespaces = []string{"one", "two"}
	case 1:
		l.o.LabelSelector = "colour=red"
	}
	l.o.Bookmarks = r.IntN(2) == 0
	s, err := stream.New(p.srv.Client(), l.r, &l.o)
	if err != nil {
		p.Fatal(err)
	}
	var o *mux.SourceOptions
	if r.IntN(4) == 0 {
		l.latest = !l.latest
		o = &mux.SourceOptions{Overflow: mux.Block}
		if l.latest {
			o.Overflow = mux.Latest
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lives[key] != nil {
		return
	}
	if err := p.m.Add(keyed{s, key}, o); err != nil {
		p.Fatal(err)
	}
	p.lives[key] = l
}

// keyed is a Stream with another key.
type keyed struct {
	*stream.Stream
	key string
}

func (k keyed) Key() string { return k.key }

// remove removes a source, after which nothing of it may come.
func (p *play) remove(key string) {
	p.mu.Lock()
	l := p.lives[key]
	p.mu.Unlock()
	if l == nil || !p.m.Remove(key) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bury(l)
	delete(p.lives, key)
}

// bury notes the end of a life.
func (p *play) bury(l *life) {
	l.history = p.srv.History(l.r, &stream.Options{Namespaces: l.o.Namespaces, LabelSelector: l.o.LabelSelector})
	p.past = append(p.past, l)
}

// onceOver is one range.
func (p *play) onceOver() {
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
		l := p.lives[ev.Source]
		if l == nil {
			p.Errorf("seed %d: after Remove of %q comes %s", p.seed, ev.Source, streamtest.Text(ev))
			p.mu.Unlock()
			break
		}
		l.events = append(l.events, ev)
		p.mu.Unlock()
		if slow > 0 {
			time.Sleep(time.Duration(body.Int64N(int64(slow))))
		}
		if body.IntN(60) == 0 {
			p.act("body removes " + ev.Source)
			p.remove(ev.Source)
			p.add(body, ev.Source)
		}
		if n++; how == 3 && n == leave {
			break
		}
	}
	close(over)
	others.Wait()
	if last != nil {
		p.Errorf("seed %d: it ended with %v", p.seed, last)
	}
	for key, l := range p.lives {
		l.settled = how == 0
		p.bury(l)
		p.lives[key] = &life{key: key, r: l.r, o: l.o, latest: l.latest}
	}
}

// others is what other goroutines do meanwhile.
func (p *play) others(r *rand.Rand, how int, over chan struct{}) {
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
			p.act("remove " + key)
			p.remove(key)
		case 2, 3:
			p.act("add " + key)
			p.add(r, key)
		case 4:
			what := []string{"compact", "restart", "widgets expire", "gadgets close watches", "widgets silence", "bookmarks every 5s"}[r.IntN(6)]
			p.act(what)
			if err := p.srv.Do(what); err != nil {
				p.Error(err)
			}
		case 5:
			p.srv.Compact("")
			if err := p.srv.Do("close watches"); err != nil {
				p.Error(err)
			}
		default:
			for range r.IntN(10) {
				p.write(r)
			}
		}
	}
	if err := p.srv.Do("heal"); err != nil {
		p.Error(err)
	}
	switch how {
	case 0, 3:
		sleep(15 * time.Minute) // all is told by then
		if how == 0 {
			// Only what is told within the range counts, which the last event is.
			p.act("drain when all is quiet")
		}
		p.m.Drain()
	case 1:
		p.act("drain")
		p.m.Drain()
	case 2:
		p.act("stop")
		p.m.Stop()
	}
}

func (p *play) write(r *rand.Rand) {
	res := resources[r.IntN(len(resources))]
	ns, name := []string{"one", "two"}[r.IntN(2)], fmt.Sprint("o", r.IntN(6))
	if r.IntN(3) == 0 {
		_, err := p.srv.Delete(res, ns, name)
		if err == nil && r.IntN(2) == 0 {
			p.srv.Put(res, ns, name, fmt.Sprint("spec.n=", r.IntN(100)))
		}
		return
	}
	p.srv.Put(res, ns, name, "labels.colour="+[]string{"red", "blue"}[r.IntN(2)], fmt.Sprint("spec.n=", r.IntN(100)))
}

func (p *play) check(l *life) {
	err := streamtest.Check(l.history, l.events, &streamtest.CheckOptions{
		Latest: l.latest, Settled: l.settled, IndexNone: l.o.Index == stream.IndexNone, Namespaces: l.o.Namespaces,
	})
	if err != nil {
		var changes []string
		for _, c := range l.history.Changes {
			changes = append(changes, fmt.Sprintf("%s %s/%s@%s (%s)", c.Type, c.Object.GetNamespace(), c.Object.GetName(), c.ResourceVersion, c.Object.GetUID()[30:]))
		}
		p.Errorf("seed %d, %s of %s: %v\n%+v latest %v\nacts:\n%s\ntold:\n%s\nhistory:\n%s", p.seed, l.key, l.r, err, l.o, l.latest, strings.Join(p.acts, "\n"),
			strings.Join(streamtest.Texts(l.events), "\n"), strings.Join(changes, "\n"))
	}
}
