package stream_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/seeds"
	"github.com/gvrwatch/gvrwatch/stream"
)

var shareSeeds = seeds.Flags("share-", "TestSharedRandom", 100)

// TestSharedRandom lets Streams come and go that share what they can, while things
// are written, requests fail and the server has its days, and holds each of them to
// every promise.
func TestSharedRandom(t *testing.T) {
	var asked, joined atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		shareSeeds.Play(t, func(t *testing.T, n uint64) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlay(t, rand.New(rand.NewPCG(n, 7)))
				a, j := p.share()
				asked.Add(a)
				joined.Add(j)
			})
		})
	})
	t.Logf("%d watches were asked for, %d were joined", asked.Load(), joined.Load())
	if shareSeeds.Count() > 50 && joined.Load() < asked.Load()/4 {
		t.Errorf("%d watches were asked for, and only %d joined: is anything shared at all?", asked.Load(), joined.Load())
	}
}

// share is one round. It returns how many watches were asked for, and joined.
func (p *play) share() (asked, joined int64) {
	g := &sharers{T: p.T, srv: p.srv, client: p.srv.Client(), all: stream.NewConnections()}
	other, err := stream.NewClient(p.srv.Config(), nil)
	if err != nil {
		p.Fatal(err)
	}
	for range p.IntN(30) {
		p.write()
	}
	p.check.IndexNone = true // no initial events that repeat themselves
	if p.chance(80) {
		p.faults()
	}
	var here, gone []*sharer
	come := func() {
		s := p.sharer(g, g.client, other)
		here = append(here, s.start())
	}
	for range 1 + p.IntN(4) {
		come()
	}
	for range 5 + p.IntN(20) {
		p.sleep(p.pickInt(1, 1, 5, 20, 60))
		switch n := p.IntN(100); {
		case n < 10:
			g.hurry.Store(true) // that the server has gone back must be seen before it is where it was
			p.act()
			g.hurry.Store(false)
		case n < 35 && len(here) < 8:
			if p.chance(30) {
				p.apply("list 1: slow 1s")
			}
			come()
			if p.chance(25) {
				p.burst() // while it reads its snapshot
			}
		case n < 50 && len(here) > 0:
			i := p.IntN(len(here))
			here[i].check.Settled = false
			here[i].cancel(errTimeUp)
			gone = append(gone, here[i])
			here = append(here[:i], here[i+1:]...)
		case n < 52:
			p.burst()
		default:
			p.writes()
		}
	}
	p.do("heal")
	g.hurry.Store(true)
	quiet := 6 * time.Minute
	if strings.Contains(p.script, "hang") || strings.Contains(p.script, "slow") {
		quiet = 25 * time.Minute
	}
	time.Sleep(quiet)
	for i, s := range append(gone, here...) {
		err := s.stop()
		var refused *stream.RequestError
		var gap *stream.GapError
		switch {
		case errors.As(err, &refused) && !synced(s.rec.Events):
		case errors.As(err, &gap) && errors.Is(s.rec.Err, gap):
		case err != nil:
			p.Errorf("stream %d of %d, which shared %d of %d requests: %v\n\nscript:\n%sacts: %q", i, len(gone)+len(here), s.joins(), len(s.requests), err, p.script, p.acts)
		}
		joined += int64(s.joins())
	}
	g.wg.Wait()
	return int64(g.watches()), joined
}

func (p *play) apply(script string) {
	if err := p.srv.Apply(script); err != nil {
		p.Fatal(err)
	}
}

func (p *play) burst() {
	for range p.IntN(300) {
		p.write()
	}
}

func (s *sharer) joins() (n int) {
	for _, r := range s.requests {
		if r.Shared && r.Err == nil {
			n++
		}
	}
	return n
}

// sharer has options that leave few keys to share.
func (p *play) sharer(g *sharers, clients ...dynamic.Interface) *sharer {
	var o stream.Options
	switch p.IntN(5) {
	case 0:
		o.Namespaces = []string{"two"}
	case 1:
		o.Namespaces = []string{"one", "two"}
	}
	if p.chance(10) {
		o.LabelSelector = "colour=red"
	}
	if p.chance(15) {
		o.Index = stream.IndexNone
	}
	if p.chance(30) {
		o.InitialList = stream.ListPaged
	}
	o.PageSize = 2 + p.IntN(8)
	o.Bookmarks = p.chance(30)
	if p.chance(5) {
		o.OnExpired = stream.Fail
	}
	if p.chance(50) {
		o.Timeout = time.Duration(20+p.IntN(120)) * time.Second
	}
	o.IdleTimeout = time.Duration(15+p.IntN(60)) * time.Second
	var now bool
	if now = p.chance(10); now {
		o.Start = stream.Now()
	}
	g.client = clients[0]
	if p.chance(10) {
		g.client = clients[1]
	}
	s := g.add(o)
	s.check.IndexNone, s.check.Now = o.Index == stream.IndexNone, now
	if pause := p.pickInt(0, 0, 0, 0, 0, 0, 0, 100, 1000); pause > 0 {
		s.body = func(stream.Event) {
			if !g.hurry.Load() {
				time.Sleep(time.Duration(pause) * time.Millisecond)
			}
		}
	}
	return s
}
