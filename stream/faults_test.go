package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The faults that a server can be told to have, one by one. What it is right to
// tell is the same every time, but for GAP and SYNCED: two objects at first, and
// then one that comes (at 11 s), one that changes (at 21 s), one that goes (at 31 s).
func TestFaults(t *testing.T) {
	plain := []string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"}
	gap := func(lines ...string) []string {
		return append([]string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3"}, lines...)
	}
	tests := []struct {
		name     string
		script   string // of the server, from the beginning
		options  stream.Options
		want     []string
		requests int // at most, up to the last event; zero means that they are not counted
		why      string
	}{
		{"none", "", stream.Options{}, plain, 1, "one request is all it takes"},
		{"none, paged", "", stream.Options{PagedLists: true}, plain, 2, "a list and a watch"},

		{"410 as HTTP status", "at 2s: 410 as status\nat 15s: widgets expire", stream.Options{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"the same version is never tried again"},
		{"410 in the stream", "at 2s: close watches\nat 5s: widgets expire\nwatch 1: 410 in stream", stream.Options{},
			gap("GAP expired 3..3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"routine: nothing has changed, nothing is told"},
		{"closed at once, again and again", "at 5s: close watches\nwatch 1-3: close", stream.Options{},
			gap("GAP expired 3..3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"kubernetes#104171: expired without a word"},
		{"lagging replica", "at 5s: close watches\nprobe 1: stale 2", stream.Options{}, plain, 0,
			"one answer of the past is no proof of a restored etcd: nothing of it is told"},
		{"lagging replica lists", "at 15s: widgets expire\nlist 1: stale 3", stream.Options{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"nor is such a list"},
		{"replay after resuming", "at 25s: close watches\nwatch 1: replay 4", stream.Options{}, plain, 0,
			"not told twice"},
		{"429 with Retry-After", "at 5s: close watches\nwatch 1: 429 retry-after 8s", stream.Options{}, plain, 4,
			"client-go waits as told, and asks for the same version; no new list"},
		{"429 with Retry-After in the Status", "at 5s: close watches\nwatch 1: 429 in status 8s", stream.Options{}, plain, 4,
			"likewise, but it is us who wait"},
		{"500, 503, 504, refused", "at 5s: close watches\nwatch 1: 500\nwatch 2: 503\nwatch 3: 504\nwatch 4: refuse\nwatch 5: 503 plain", stream.Options{}, plain, 0,
			"the version is kept"},
		{"list fails", "list 1: 500\nlist 2: 503\nlist 3: refuse\nlist 4: 429 in status 3s", stream.Options{PagedLists: true}, plain, 6,
			"it is tried again"},
		{"no answer to the list", "list 1: hang", stream.Options{PagedLists: true},
			[]string{"ADDED ns/a@6", "ADDED ns/c@4", "SYNCED @7"}, 3,
			"for two minutes: then what there is"},
		{"no answer to the watch", "at 5s: close watches\nwatch 1: hang", stream.Options{}, plain, 0, "asked again"},

		{"garbage", "at 5s: close watches\nwatch 1 after 1 frames: garbage", stream.Options{}, plain, 0, "the same version once more"},
		{"unknown type", "at 5s: close watches\nwatch 1 after 1 frames: unknown type", stream.Options{}, plain, 0, "likewise"},
		{"no kind", "at 5s: close watches\nwatch 1 after 1 frames: no kind", stream.Options{}, plain, 0, "likewise"},
		{"no name", "at 5s: close watches\nwatch 1 after 1 frames: no name", stream.Options{}, plain, 0, "likewise"},
		{"1e400", "at 5s: close watches\nwatch 1 after 1 frames: 1e400", stream.Options{}, plain, 0, "likewise"},
		{"invalid UTF-8", "at 5s: close watches\nwatch 1 after 1 frames: invalid utf-8", stream.Options{}, plain, 0, "likewise"},
		{"frame over the limit", "at 5s: close watches\nwatch 1 after 1 frames: huge frame", stream.Options{}, plain, 0, "likewise"},
		{"event without version", "at 5s: close watches\nwatch 1 after 1 frames: no version", stream.Options{}, plain, 0, "likewise"},
		{"garbage for ever", "change 6: garbage", stream.Options{}, poisoned(), 0, "gone around: the others flow on"},
		{"unknown type for ever", "change 6: unknown type", stream.Options{}, poisoned(), 0, "likewise"},
		{"no kind for ever", "change 6: no kind", stream.Options{}, poisoned(), 0, "likewise"},
		{"1e400 for ever", "change 6: 1e400", stream.Options{}, poisoned(), 0, "likewise"},
		{"invalid UTF-8 for ever", "change 6: invalid utf-8", stream.Options{}, poisoned(), 0, "likewise"},
		{"frame over the limit for ever", "change 6: huge frame", stream.Options{}, poisoned(), 0, "likewise"},
		{"event without version for ever", "change 6: no version", stream.Options{}, poisoned(), 0, "likewise"},

		{"frames after an ERROR", "at 5s: close watches\nwatch 1 after 1 frames: frames after error", stream.Options{}, plain, 0,
			"the first ERROR ends the segment; what follows comes again"},
		{"ERROR that is no Status", "at 5s: close watches\nwatch 1 after 1 frames: error not status", stream.Options{}, plain, 0,
			"it is an ERROR all the same"},
		{"reset", "at 5s: close watches\nwatch 1 after 1 frames: reset", stream.Options{}, plain, 0, "a plain reconnect"},
		{"reset inside a frame", "at 5s: close watches\nwatch 1 after 1 frames: reset inside frame", stream.Options{}, plain, 0, "likewise: half an event is none"},
		{"half-open", "at 5s: silence", stream.Options{IdleTimeout: 30 * time.Second}, plain, 0, "noticed within IdleTimeout"},
		{"slow frames", "any *: slow 2s", stream.Options{}, plain, 0, "late, but nothing else"},

		{"streaming lists refused", "initial *: 422", stream.Options{}, plain, 3, "a list and a watch, from then on"},
		{"streaming lists not understood", "initial *: ignore initial", stream.Options{}, plain, 3, "a bookmark without the annotation, or none: pages"},
		{"marker never sent", "initial *: no marker", stream.Options{}, plain, 3, "client-go's reflector waits for ever"},
		{"marker without annotation", "initial *: plain marker", stream.Options{}, plain, 3, "it is no marker"},
		{"streaming list breaks", "initial 1-3 after 1 frames: reset", stream.Options{}, plain, 0, "once more, then pages; nothing is told twice"},

		{"restart of the server", "at 15s: restart", stream.Options{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"its watch cache knows nothing from before"},
		{"etcd restored", "at 25s: rewind 3\nat 26s: close watches", stream.Options{},
			gap("ADDED ns/c@4", "MODIFIED ns/a@6", "GAP rewound 6..3", "MODIFIED ns/a@2 inferred", "MODIFIED ns/b@3 inferred", "DELETED ns/c@4 inferred", "SYNCED @3", "DELETED ns/b@4"), 0,
			"a watch at 5 would be silent; and a version may be that of something else now"},
		{"token expired", "at 15s: unauthorized\nat 15s: close watches\nat 40s: authorized", stream.Options{}, plain, 0, "a state, not an end"},
		{"rights lost", "at 15s: forbid all\nat 15s: close watches\nat 40s: allow", stream.Options{}, plain, 0, "likewise; no DELETED"},
		{"only the right to watch", "at 0s: forbid list\nat 15s: expire", stream.Options{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"a streaming list heals the gap"},
		{"pages that do not fit", "at 15s: expire\npage 1: inconsistent pages", stream.Options{PageSize: 2},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"a list of two versions is base for nothing"},
		{"continue token expires", "page 1: 410", stream.Options{PageSize: 2, PagedLists: true},
			[]string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"}, 0,
			"the list begins again"},
	}
	for i := range len(tests) * len(clientKinds) {
		tt, client := tests[i/len(clientKinds)], clientKinds[i%len(clientKinds)]
		t.Run(tt.name+"/"+client, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gadgets := widgets()
				gadgets.Resource, gadgets.Kind = "gadgets", "Gadget"
				srv := streamtest.NewServer(widgets(), gadgets)
				srv.Put(widgets(), "ns", "a")
				srv.Put(widgets(), "ns", "b")
				noError(t, srv.Apply(tt.script))
				rec := watchOn(t, srv, clientOf(t, srv, client), tt.options, func() {
					time.Sleep(11 * time.Second)
					srv.Put(widgets(), "ns", "c")
					time.Sleep(2 * time.Second)
					srv.Put(gadgets, "ns", "other") // so that versions can expire while nothing happens here
					time.Sleep(8 * time.Second)
					srv.Put(widgets(), "ns", "a", "spec.changed=true")
					time.Sleep(10 * time.Second)
					if _, err := srv.Delete(widgets(), "ns", "b"); err != nil {
						t.Error(err)
					}
					time.Sleep(5 * time.Minute)
				})
				if diff := cmp.Diff(tt.want, streamtest.Texts(rec.Events)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if n := requestsUntil(srv, rec); tt.requests > 0 && n > tt.requests {
					t.Errorf("%s: %d requests, want at most %d", tt.why, n, tt.requests)
				}
			})
		})
	}
}

func poisoned() []string {
	return []string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3", "ADDED ns/c@4",
		"GAP poison 4..6", "MODIFIED ns/a@6 inferred", "SYNCED @6", "DELETED ns/b@7"}
}

// requestsUntil counts those up to the last event.
func requestsUntil(srv *streamtest.Server, rec streamtest.Recording) int {
	if len(rec.Times) == 0 {
		return 0
	}
	n := 0
	for _, r := range srv.Requests() {
		if !r.At.After(rec.Times[len(rec.Times)-1]) {
			n++
		}
	}
	return n
}

// watchFor records what a Stream tells while something happens, and holds it to
// every promise.
func watchFor(t *testing.T, srv *streamtest.Server, o stream.Options, happens func()) streamtest.Recording {
	t.Helper()
	return watchOn(t, srv, srv.Client(), o, happens)
}

func watchOn(t *testing.T, srv *streamtest.Server, client dynamic.Interface, o stream.Options, happens func()) streamtest.Recording {
	t.Helper()
	var mu sync.Mutex
	var statuses []stream.Status
	o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
		mu.Lock()
		defer mu.Unlock()
		statuses = append(statuses, s)
	}}
	s := streamOf(t, client, widgets(), &o)
	ctx, cancel := context.WithCancelCause(t.Context())
	var doing sync.WaitGroup
	doing.Go(func() {
		happens()
		cancel(errTimeUp)
	})
	rec := streamtest.Record(s.Events(ctx), nil)
	doing.Wait()
	rec.Statuses = statuses
	h := srv.History(widgets(), nil)
	check := &streamtest.CheckOptions{Settled: errors.Is(rec.Err, errTimeUp)}
	if err := errors.Join(
		streamtest.Check(h, rec.Events, check),
		oracle.CheckRequests(h.Requests),
		oracle.CheckStatuses(rec.Statuses),
	); err != nil {
		t.Error(err)
	}
	return rec
}

// A connection that is dead must be noticed within IdleTimeout, whatever the
// server does, and at the default too.
func TestDeadConnectionsAreNoticed(t *testing.T) {
	for _, idle := range []time.Duration{0, 5 * time.Second, time.Hour} {
		for _, what := range []string{"silence", "widgets silence"} {
			t.Run(fmt.Sprint(what, " ", idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := streamtest.NewServer(widgets())
					srv.Put(widgets(), "ns", "a")
					noError(t, srv.Apply("at 0s: bookmarks never"))
					o := stream.Options{IdleTimeout: idle, Timeout: 3 * time.Hour}
					rec := watchFor(t, srv, o, func() {
						time.Sleep(2 * time.Second)
						if err := srv.Do(what); err != nil {
							t.Error(err)
						}
						srv.Put(widgets(), "ns", "b")
						time.Sleep(2 * time.Hour)
					})
					limit := idle
					if idle == 0 {
						limit = 90 * time.Second
					}
					if err := oracle.CheckTimely(srv.History(widgets(), nil), rec, limit, nil); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
