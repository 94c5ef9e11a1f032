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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestRandomHistoriesOnServersThatBreakRules runs Streams with random options over random histories of servers that
// break a rule each, with few faults besides, and checks that at each SYNCED and at the end the receiver has what
// exists, that no deletion is missing, and that a GAP announces what may be.
func TestRandomHistoriesOnServersThatBreakRules(t *testing.T) {
	seedtest.Default(100).Run(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) { newBrokenRun(t, n).run() })
	})
}

// brokenRun is a random run on a server that breaks a rule.
type brokenRun struct {
	*randomRun
	servers.Personality
}

func newBrokenRun(t *testing.T, seed uint64) *brokenRun {
	all := servers.All()
	b := &brokenRun{newRandomRun(t, rand.New(rand.NewPCG(seed, 5))), all[seed%uint64(len(all))]}
	for range 2 * servers.MaxLowered {
		b.put("one", "always")
	}
	return b
}

// quietAfter is longer than any wait of a Stream on a server that breaks rules: it lists at least every five minutes.
const quietAfter = 12 * time.Minute

func (b *brokenRun) run() {
	for range b.IntN(20) {
		b.write()
	}
	b.choose()
	b.scope.Namespaces = b.options.Namespaces
	b.faults()
	rec := b.record()
	if !errors.Is(rec.Err, errTimeUp) {
		b.Errorf("the run ended with %v", rec.Err)
	}
	h := shown(b.srv.History(b.r, &b.scope.Options), b.Personality)
	err := errors.Join(oracle.CheckTruth(h, rec, &b.check), oracle.CheckStatuses(rec.Statuses))
	for _, ns := range []string{"", "one", "two"} { // each has a worker of its own
		err = errors.Join(err, oracle.CheckRequests(requestsOf(h, ns)))
	}
	if err != nil || b.Failed() {
		b.Errorf("%s: %v\n\noptions: %+v\nscript:\n%sacts: %q\n\ndelivered:\n%s\n\nhistory:\n%s", b.Name, err,
			b.options, b.script, b.acts, timed(rec), historyText(h))
	}
}

// requestsOf returns what a Stream requested in a namespace. A personality itself lists without a limit.
func requestsOf(h streamtest.History, namespace string) (all []streamtest.Request) {
	for _, r := range h.Requests {
		if r.Namespace == namespace && (r.Verb != "list" || r.Limit > 0) {
			all = append(all, r)
		}
	}
	return all
}

// timed returns the events with their times.
func timed(rec streamtest.Recording) string {
	var lines strings.Builder
	for i, text := range rec.Texts() {
		fmt.Fprintln(&lines, rec.Times[i].Format("15:04:05.000"), text)
	}
	return lines.String()
}

// shown returns a history with the objects as the server shows them.
func shown(h streamtest.History, p servers.Personality) streamtest.History {
	if p.Object == nil {
		return h
	}
	h.Changes = slices.Clone(h.Changes)
	for i := range h.Changes {
		c := &h.Changes[i]
		c.Object = c.Object.DeepCopy()
		p.Object(c.Object.Object["metadata"].(map[string]any))
		c.ResourceVersion = c.Object.GetResourceVersion()
	}
	return h
}

// choose sets random options.
func (b *brokenRun) choose() {
	o := &b.options
	alone := strings.HasPrefix(b.Name, "namesakes") // its namespaces are not the server's
	if b.chance(20) && !alone {
		o.Namespaces = []string{"one", "two"}
		b.put("two", "always")
	}
	b.check.Namespaces = o.Namespaces
	if b.chance(20) {
		o.Select = func(m stream.Meta) bool { return m.GetLabels()["size"] != "0" || m.GetName() == "always" }
		b.check.Selected = func(u *unstructured.Unstructured) bool { return o.Select(u) }
	}
	o.Requests.PagedLists = b.chance(50)
	o.Requests.PageSize = []int{10, 500}[b.IntN(2)] // so that lists have few pages
	o.Objects = []stream.ObjectsMode{stream.Full, stream.Raw, stream.Metadata}[b.IntN(3)]
	o.Requests.WatchLifetime = time.Duration(20+b.IntN(100)) * time.Second
	o.Requests.IdleTimeout = time.Duration(15+b.IntN(60)) * time.Second
	b.check.Complete = true
}

// faults gives the server a script of faults that every client meets.
func (b *brokenRun) faults() {
	for range b.IntN(3) {
		line := b.pick("list", "page", "probe", "watch", "initial") + " " + fmt.Sprint(1+b.IntN(6)) + ": " +
			b.pick("500", "503", "429 retry-after 3s", "reset", "close")
		if err := b.srv.Apply(line); err == nil {
			b.script += line + "\n"
		}
	}
}

// live writes and rests at random times, then heals the server and waits until the Stream must have caught up.
func (b *brokenRun) live() {
	for range 5 + b.IntN(30) {
		b.sleep(b.pickInt(1, 1, 5, 20, 60))
		switch b.IntN(20) {
		case 0:
			b.do(b.pick("compact", "restart", "widgets close watches", "bookmarks every 5s", "widgets expire"))
		case 2, 3, 4: // changes while nobody watches
			if err := b.srv.Apply("any 1-3: 503"); err == nil {
				b.script += time.Now().Format("15:04:05.000 ") + "any 1-3: 503\n"
			}
			b.do("widgets close watches")
			time.Sleep(50 * time.Millisecond)
			b.writes()
		case 1:
			time.Sleep(quietAfter) // a rest
		default:
			b.writes()
		}
	}
	for _, ns := range []string{"one", "two"} {
		_, _ = b.srv.Delete(b.r, ns, "g") // the one that a webhook cannot convert
	}
	b.do("heal")
	time.Sleep(quietAfter)
}

// record records a Stream while live changes the server.
func (b *brokenRun) record() streamtest.Recording {
	var mu sync.Mutex
	var statuses []stream.Status
	o := b.options
	o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
		mu.Lock()
		defer mu.Unlock()
		statuses = append(statuses, s)
	}}
	s := streamOf(b.T, brokenClient(b.T, b.Personality, b.srv, b.pick(clientKinds...)), b.r, &o)
	b.replayable(s)
	ctx, cancel := context.WithCancelCause(b.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		b.live()
		cancel(errTimeUp)
	})
	rec := streamtest.Record(s.Events(ctx), nil)
	writer.Wait()
	rec.Statuses = statuses
	return rec
}

// brokenClient returns a client of a server with a personality.
func brokenClient(t testing.TB, p servers.Personality, srv *streamtest.Server, kind string) dynamic.Interface {
	t.Helper()
	cfg := p.Config(srv)
	c, err := dynamic.Interface(dynamic.NewForConfigOrDie(cfg)), error(nil)
	if kind != "client-go" {
		c, err = stream.NewClient(cfg, nil)
	}
	noError(t, err)
	return c
}
