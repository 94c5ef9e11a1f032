package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const historySeeds = seedtest.Default(200)

// TestRandomHistories runs Streams with random options over random histories under random faults, and checks what they
// deliver against every promise.
//
//	go test ./stream -run TestRandomHistories -seed 4711 -v
func TestRandomHistories(t *testing.T) {
	historySeeds.Run(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) { newRandomRun(t, rand.New(rand.NewPCG(n, 1))).run() })
	})
}

func FuzzHistories(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		synctest.Test(t, func(t *testing.T) { newRandomRun(t, rand.New(rand.NewPCG(a, b))).run() })
	})
}

// randomRun is one run with random options, changes and faults.
type randomRun struct {
	*testing.T
	*rand.Rand
	srv     *streamtest.Server
	r       gvr.Resource
	options setup
	check   streamtest.CheckOptions
	scope   setup
	script  string   // the server's faults
	acts    []string // what the writer did to the server, other than writes
}

func newRandomRun(t *testing.T, r *rand.Rand) *randomRun {
	p := &randomRun{T: t, Rand: r, r: widgets()}
	p.srv = streamtest.NewServer(p.r).AllFaults(friend.Access{})
	return p
}

func (p *randomRun) chance(percent int) bool { return p.IntN(100) < percent }

func (p *randomRun) pick(of ...string) string { return of[p.IntN(len(of))] }

func (p *randomRun) run() {
	for range p.IntN(30) {
		p.write()
	}
	if p.chance(20) {
		p.srv.Compact("")
	}
	p.choose()
	switch {
	case p.chance(15):
		rv := p.srv.ResourceVersion()
		p.writes()
		p.options.Start, p.check.After = stream.After(rv), rv
	case p.chance(15):
		p.options.Start, p.check.Now = stream.Now(), true
	case p.chance(20):
		// Resume an earlier run, without faults, from a random event.
		if pos, ok := p.earlierPosition(); ok {
			p.options.Start, p.check.From = stream.From(pos), &pos
		}
	}
	p.writes()
	p.faults()
	rec := p.record()
	if rec.Err != nil && !errors.Is(rec.Err, errTimeUp) {
		// A refusal before the first SYNCED is final: the events need not be complete.
		var refused *stream.RequestError
		var gap *stream.GapError
		switch {
		case p.options.FailOnGap && errors.As(rec.Err, &gap):
		case !errors.As(rec.Err, &refused), synced(rec.Events):
			p.Errorf("the run ended with %v", rec.Err)
		}
		p.check.Complete = false
	}
	h := p.srv.History(p.r, &p.scope.Options)
	err := errors.Join(
		streamtest.Check(h, rec.Events, &p.check),
		oracle.CheckRequests(h.Requests),
		oracle.CheckStatuses(rec.Statuses),
	)
	if err != nil {
		p.Errorf("%v\n\noptions: %+v\nscript:\n%sacts: %q\n\ndelivered:\n%s\n\nhistory:\n%s", err, p.options, p.script,
			p.acts, strings.Join(rec.Texts(), "\n"), historyText(h))
	}
}

func synced(events []stream.Event) bool {
	for _, ev := range events {
		if ev.Type == stream.Synced {
			return true
		}
	}
	return false
}

func historyText(h streamtest.History) string {
	var b strings.Builder
	for _, c := range h.Changes {
		fmt.Fprintf(&b, "%s %s/%s@%s epoch %d at %s\n", c.Type, c.Object.GetNamespace(), c.Object.GetName(),
			c.ResourceVersion, c.Epoch, c.At.Format("15:04:05.000"))
	}
	for _, r := range h.Requests {
		fmt.Fprintf(&b, "%s %s %s rv=%q limit=%d initial=%v continue=%q: %d\n", r.At.Format("15:04:05.000"), r.Verb,
			r.Namespace, r.ResourceVersion, r.Limit, r.SendInitialEvents, r.Continue, r.Code)
	}
	return b.String()
}

// choose sets random options.
func (p *randomRun) choose() {
	o := &p.options
	switch p.IntN(4) {
	case 0:
		o.Namespaces = []string{"one"}
	case 1:
		o.Namespaces = []string{"one", "two"}
	}
	p.scope.Namespaces, p.check.Namespaces = o.Namespaces, o.Namespaces
	if p.chance(30) {
		o.LabelSelector, p.scope.LabelSelector = "colour=red", "colour=red"
	}
	if p.chance(10) {
		o.Name, p.scope.FieldSelector = "a", "metadata.name=a"
	}
	if p.chance(20) {
		o.Select = func(m stream.Meta) bool { return m.GetLabels()["size"] != "0" }
		p.check.Selected = func(u *unstructured.Unstructured) bool { return o.Select(u) }
	}
	if p.chance(40) {
		o.Requests.PagedLists = true
	}
	o.Requests.PageSize = 1 + p.IntN(8)
	if o.Requests.PageSize == 1 {
		o.Requests.PageSize = 2 // the scripted server takes a list with limit 1 for a probe
	}
	o.Bookmarks = p.chance(30)
	if p.chance(5) {
		o.FailOnGap = true
	}
	o.Objects = []stream.ObjectsMode{stream.Full, stream.Full, stream.Full, stream.Raw, stream.Metadata}[p.IntN(5)]
	if o.Objects == stream.Metadata {
		p.check.Transform = onlyMetadata
	}
	if p.chance(50) {
		o.Requests.WatchLifetime = time.Duration(20+p.IntN(120)) * time.Second
	}
	o.Requests.IdleTimeout = time.Duration(15+p.IntN(60)) * time.Second
	p.check.Complete = true
}

// onlyMetadata reduces an object as Metadata does.
func onlyMetadata(u *unstructured.Unstructured) {
	for field := range u.Object {
		if field != "apiVersion" && field != "kind" && field != "metadata" {
			delete(u.Object, field)
		}
	}
}

// write puts or deletes a random object.
func (p *randomRun) write() {
	ns, name := p.pick("one", "two", "two"), p.pick("a", "b", "c", "d", "e", "f", "g", "h")
	if p.chance(30) {
		if _, err := p.srv.Delete(p.r, ns, name); err == nil && p.chance(50) {
			p.put(ns, name) // a successor with another uid
		}
		return
	}
	p.put(ns, name)
}

func (p *randomRun) put(ns, name string) {
	p.srv.Put(p.r, ns, name, "labels.colour="+p.pick("red", "blue"), fmt.Sprint("labels.size=", p.IntN(3)),
		"annotations.note="+p.pick("", "é", "a longer text"), fmt.Sprint("spec.n=", p.IntN(100)))
}

func (p *randomRun) writes() {
	for range p.IntN(6) {
		p.write()
	}
}

// faults gives the server a script of random faults.
func (p *randomRun) faults() {
	p.script = ""
	for range p.IntN(7) {
		line := p.fault()
		if p.options.Objects == stream.Raw { // delivers such a number: it is valid JSON
			line = strings.ReplaceAll(line, "1e400", "garbage")
		}
		if err := p.srv.Apply(line); err == nil {
			p.script += line + "\n"
		} else if !strings.Contains(err.Error(), "can never happen") {
			p.Fatal(err)
		}
	}
}

func (p *randomRun) fault() string {
	nth := p.pick("1", "2", "1-3", "2-4", fmt.Sprint(1+p.IntN(8)))
	switch p.IntN(9) {
	case 0:
		return p.pick("list", "page", "probe", "watch", "initial", "any") + " " + nth + ": " +
			p.pick("500", "503", "504", "429 retry-after 3s", "429 in status 2s", "503 plain", "refuse", "hang",
				"reset", "garbage", "close", "slow 2s", "410", "410 Gone")
	case 1:
		return "initial " + nth + ": " +
			p.pick("no marker", "plain marker", "ignore initial", "422", "400", "501")
	case 2:
		return "watch " + nth + p.pick("", " after 1 frames", " after 2 frames", " after 3s") + ": " +
			p.pick("close", "replay 3", "half-open", "reset", "410 in stream", "error frame", "error not status",
				"frames after error")
	case 3:
		if p.chance(20) {
			return "initial " + nth + " after 2 frames: replay 3"
		}
		return p.pick("watch ", "initial ") + nth + p.pick(" after 1 frames", " after 2 frames") + ": " +
			p.pick("reset inside frame", "garbage", "unknown type", "invalid utf-8", "no kind", "no name", "no version",
				"1e400")
	case 4:
		rev := 30 + p.IntN(60)
		return fmt.Sprintf("change %d: ", rev) +
			p.pick("garbage", "unknown type", "invalid utf-8", "no kind", "no name", "1e400", "error frame",
				"reset inside frame")
	case 5:
		return p.pick("list ", "page ", "probe ") + nth + ": stale " + p.pick("1", "2", "5")
	case 6:
		return "page " + nth + ": " + p.pick("inconsistent pages", "token circle")
	case 7:
		return "list " + nth + ": " + p.pick("no version", "404", "403", "401")
	default:
		// No 403 for probes: without the right to list, a Stream can't detect that the server has gone back in time.
		return p.pick("watch "+nth+": 403", "watch "+nth+": 401", "watch "+nth+": 404",
			"probe "+nth+": 401", "probe "+nth+": 404")
	}
}

// act does something random to the server while the Stream runs.
func (p *randomRun) act() {
	what := p.pick("compact", "compact", "restart", "widgets expire", "widgets close watches", "widgets silence",
		"410 as status", "410 as close", "410 in stream", "bookmarks never", "bookmarks every 5s",
		"forbid all", "forbid list", "unauthorized", "rewind 3", "rewind 2 restart", "widgets delete crd",
		"no protobuf")
	p.do(what)
	switch {
	case strings.HasPrefix(what, "forbid"):
		p.sleep(60)
		p.do("allow")
	case what == "unauthorized":
		p.sleep(60)
		p.do("authorized")
	case what == "widgets delete crd":
		p.sleep(20)
		p.do("widgets create crd")
	case strings.HasPrefix(what, "rewind"):
		// Leave time for a probe, or for a page that hangs three times (2, 4 and 8 minutes): once the server has passed
		// its old version again, the rewind is undetectable.
		time.Sleep(20 * time.Minute)
	}
}

func (p *randomRun) do(what string) {
	p.acts = append(p.acts, time.Now().Format("15:04:05.000 ")+what)
	noError(p.T, p.srv.Do(what))
}

func (p *randomRun) sleep(seconds int) {
	time.Sleep(time.Duration(p.IntN(seconds*1000)) * time.Millisecond)
}

// live writes and acts at random times, then heals the server and waits until the Stream has caught up.
func (p *randomRun) live() {
	for range 5 + p.IntN(40) {
		p.sleep(p.pickInt(1, 1, 5, 20, 60))
		if p.chance(15) {
			p.act()
		} else {
			p.writes()
		}
	}
	p.do("heal")
	quiet := 6 * time.Minute // longer than any wait of a Stream
	if strings.Contains(p.script, "hang") {
		quiet = 25 * time.Minute // three pages that hang take 14 minutes
	}
	time.Sleep(quiet)
}

func (p *randomRun) pickInt(of ...int) int { return of[p.IntN(len(of))] }

// replayable makes the waits of a Stream depend on the seed only. What happens at the same instant still happens in
// any order.
func (p *randomRun) replayable(s *running) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(p.Uint64(), 2))
	s.SetRandom(func(least, most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return least + time.Duration(r.Int64N(int64(most-least)+1))
	})
}

// record records a Stream while live changes the server. Some runs have a slow loop body.
func (p *randomRun) record() streamtest.Recording {
	var mu sync.Mutex
	var statuses []stream.Status
	o := p.options
	o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
		mu.Lock()
		defer mu.Unlock()
		statuses = append(statuses, s)
	}}
	s := streamOf(p.T, p.client(), p.r, &o)
	slow := p.chance(20)
	p.replayable(s)
	ctx, cancel := context.WithCancelCause(p.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		p.live()
		cancel(errTimeUp)
	})
	rec := streamtest.Record(s.Events(ctx), func(stream.Event) bool {
		if slow {
			time.Sleep(time.Second)
		}
		return false
	})
	writer.Wait()
	rec.Statuses = statuses
	return rec
}

// earlierPosition returns the position at a random event of a run.
func (p *randomRun) earlierPosition() (pos checkpoint.Position, ok bool) {
	o := p.options
	s := streamOf(p.T, p.client(), p.r, &o)
	p.replayable(s)
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	stop := p.IntN(20)
	var writer sync.WaitGroup
	other := *p // has its own Rand: how often it draws depends on when it stops
	other.Rand = rand.New(rand.NewPCG(p.Uint64(), 3))
	writer.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			other.writes()
		}
	})
	for _, err := range s.Events(ctx) {
		if err != nil {
			break
		}
		pos, ok = s.Position(), true
		if stop--; stop < 0 {
			break
		}
	}
	cancel()
	writer.Wait()
	return pos, ok
}

func (p *randomRun) client() dynamic.Interface {
	return clientOf(p.T, p.srv, clientKinds[p.IntN(len(clientKinds))])
}
