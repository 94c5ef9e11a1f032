package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
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
		kept, gone := fmt.Sprintf("kept-%d", round), fmt.Sprintf("gone-%d", round)
		c.create(widgets, "default", kept)
		c.create(widgets, "default", gone)
		c.touch(widgets, "default", kept)
		if round%2 == 0 {
			// Another resource moves the server's version past this one's, so that
			// an idle cursor is older than all the restarted server's cache knows.
			rec.awaitVersion(c.writes[len(c.writes)-1].rv)
			newCluster(t, srv.Config()).create(globes, "", fmt.Sprintf("globe-%d", round))
		}
		if err := srv.Stop(); err != nil {
			t.Fatal(err)
		}
		srv = startServer(t, &o)
		// At once, while the stream may still be waiting to come back.
		c.delete(widgets, "default", gone)
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

// checkWrites compares what was told with what was written: every write exactly
// once, unless it fell into a GAP, where only the outcome is promised.
func checkWrites(t *testing.T, writes []write, events []stream.Event, gapsAllowed bool) {
	t.Helper()
	type fact struct {
		kind    stream.Type
		uid, rv string
	}
	told, begun, ended := map[fact]int{}, map[string]bool{}, map[string]int{}
	var inGap []func(rv string) bool
	from := ""
	for _, ev := range events {
		switch ev.Type {
		case stream.Gap:
			if !gapsAllowed {
				t.Errorf("GAP from %s, though nothing expired", ev.Gap.From)
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
			begun[string(ev.Object.GetUID())] = true
			told[fact{ev.Type, string(ev.Object.GetUID()), ev.ResourceVersion}]++
		}
	}
	t.Logf("%d writes, %d events, %d gaps", len(writes), len(events), len(inGap))
	for i, w := range writes {
		if w.kind == stream.Deleted {
			if ended[w.uid] > 1 || ended[w.uid] == 0 && begun[w.uid] {
				t.Errorf("write %d, the end of %s, was told %d times", i, w.name, ended[w.uid])
			}
			continue // of one that came and went within a gap nothing is known
		}
		n := told[fact{w.kind, w.uid, w.rv}]
		gap := false
		for _, in := range inGap {
			gap = gap || in(w.rv)
		}
		if n > 1 || (n == 0 && !gap) {
			t.Errorf("write %d, %s %s at %s, was told %d times", i, w.kind, w.name, w.rv, n)
		}
		delete(told, fact{w.kind, w.uid, w.rv})
	}
	for f := range told {
		gap := false
		for _, in := range inGap {
			gap = gap || in(f.rv)
		}
		if !gap {
			t.Errorf("told but never written: %v", f)
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
