package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

func startServer(t *testing.T, o *devserver.Options) *devserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	s, err := devserver.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServerRestarts(t *testing.T) {
	t.Parallel()
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchCache=%v", cache), func(t *testing.T) {
			t.Parallel()
			testServerRestarts(t, cache)
		})
	}
}

func testServerRestarts(t *testing.T, cache bool) {
	o := devserver.Options{Dir: t.TempDir(), DisableWatchCache: !cache}
	srv := startServer(t, &o)
	o.Port = srv.Port()
	c := newCluster(t, srv.Config())
	if err := devserver.CreateCRDs(t.Context(), c.client, widgets, globes); err != nil {
		t.Fatal(err)
	}
	r := resolve(t, newResolver(srv.Config(), false), "widgets")
	rec := record(t, newStream(t, c.client, r, nil))
	rec.awaitSynced(1)

	for round := range 2 * seedtest.Soak() {
		kept, deleted := fmt.Sprintf("kept-%d", round), fmt.Sprintf("deleted-%d", round)
		c.create(widgets, "default", kept)
		c.create(widgets, "default", deleted)
		c.touch(widgets, "default", kept)
		if round%2 == 0 {
			// A write to another resource raises the server's version, so that the version of the idle stream is older
			// than the cache of the restarted server.
			rec.awaitVersion(c.writes[len(c.writes)-1].rv)
			newCluster(t, srv.Config()).create(globes, "", fmt.Sprintf("globe-%d", round))
		}
		if err := srv.Stop(); err != nil {
			t.Fatal(err)
		}
		srv = startServer(t, &o)
		// Write at once, while the stream may still wait before it reconnects.
		c.delete(widgets, "default", deleted)
		c.touch(widgets, "default", kept)
	}
	c.create(widgets, "default", "last")

	last := c.writes[len(c.writes)-1].rv
	events := rec.await("the last write, and no open gap", func(events []stream.Event) bool {
		found, open := false, false
		for _, ev := range events {
			found = found || ev.Object != nil && ev.ResourceVersion == last
			open = ev.Type == stream.Gap || open && ev.Type != stream.Synced
		}
		return found && !open
	})
	checkRules(t, events)
	checkWrites(t, c.writes, events, cache)
}

// checkWrites compares events with writes: each write is delivered exactly once. In a GAP only the outcome is.
func checkWrites(t *testing.T, writes []write, events []stream.Event, gapsAllowed bool) {
	t.Helper()
	type fact struct {
		kind    stream.Type
		uid, rv string
	}
	delivered, existed, ended := map[fact]int{}, map[string]bool{}, map[string]int{}
	var inGap []func(rv string) bool
	from := ""
	for _, ev := range events {
		switch ev.Type {
		case stream.Gap:
			if !gapsAllowed {
				t.Errorf("GAP from %s, though no version expired", ev.Gap.From)
			}
			from = ev.Gap.From
		case stream.Synced:
			if from != "" {
				after, upTo := from, ev.ResourceVersion
				inGap = append(inGap, func(rv string) bool { return newer(t, rv, after) && !newer(t, rv, upTo) })
				from = ""
			}
		case stream.Deleted:
			ended[string(ev.Object.GetUID())]++
		default:
			existed[string(ev.Object.GetUID())] = true
			delivered[fact{ev.Type, string(ev.Object.GetUID()), ev.ResourceVersion}]++
		}
	}
	t.Logf("%d writes, %d events, %d gaps", len(writes), len(events), len(inGap))
	for i, w := range writes {
		if w.kind == stream.Deleted {
			if ended[w.uid] > 1 || ended[w.uid] == 0 && existed[w.uid] {
				t.Errorf("write %d, the deletion of %s, was delivered %d times", i, w.name, ended[w.uid])
			}
			continue // an object that existed only within a GAP has no events
		}
		n := delivered[fact{w.kind, w.uid, w.rv}]
		gap := false
		for _, in := range inGap {
			gap = gap || in(w.rv)
		}
		if n > 1 || (n == 0 && !gap) {
			t.Errorf("write %d, %s %s at %s, was delivered %d times", i, w.kind, w.name, w.rv, n)
		}
		delete(delivered, fact{w.kind, w.uid, w.rv})
	}
	for f := range delivered {
		gap := false
		for _, in := range inGap {
			gap = gap || in(f.rv)
		}
		if !gap {
			t.Errorf("delivered but never written: %v", f)
		}
	}
}

func newer(t *testing.T, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return order > 0
}
