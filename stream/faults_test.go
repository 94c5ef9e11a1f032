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

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestFaults runs a Stream against each fault of streamtest.Server. Except for GAP and SYNCED, the correct events are
// always the same: two objects at first, then one is created (at 11 s), one modified (at 21 s), one deleted (at 31 s).
func TestFaults(t *testing.T) {
	plain := []string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"}
	const (
		afterOneFrame = "at 5s: close watches\nwatch 1 after 1 frames: " // followed by a fault
		again         = "the same version is requested again"
		replaced      = "a GAP replaces the event, and later ones are delivered"
	)
	gap := func(lines ...string) []string {
		return append([]string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3"}, lines...)
	}
	tests := []struct {
		name     string
		script   string // faults, from the start
		options  setup
		want     []string
		requests int // the maximum up to the last event; 0 disables the check
		why      string
	}{
		{"no fault", "", setup{}, plain, 1, "one request is enough"},
		{"no fault, paged", "", setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}, plain, 2,
			"a list and a watch"},

		{"410 as HTTP status", "at 2s: 410 as status\nat 15s: widgets expire", setup{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"an expired version is never requested again"},
		{"410 in the stream", "at 2s: close watches\nat 5s: widgets expire\nwatch 1: 410 in stream", setup{},
			gap("GAP expired 3..3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"a GAP without differences is followed by SYNCED"},
		{"closed at once, three times", "at 5s: close watches\nwatch 1-3: close", setup{},
			gap("GAP expired 3..3", "SYNCED @3", "ADDED ns/c@4", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"kubernetes#104171: a watch from an expired version may close without an error"},
		{"lagging replica", "at 5s: close watches\nprobe 1: stale 2", setup{}, plain, 0,
			"one old answer does not prove a restored etcd, and is discarded"},
		{"lagging replica lists", "at 15s: widgets expire\nlist 1: stale 3", setup{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"one old list does not prove it either"},
		{"replay after resuming", "at 25s: close watches\nwatch 1: replay 4", setup{}, plain, 0,
			"replayed events are not delivered again"},
		{"429 with Retry-After", "at 5s: close watches\nwatch 1: 429 retry-after 8s", setup{}, plain, 4,
			"client-go waits, then requests the same version; no new list"},
		{"429 with Retry-After in the Status", "at 5s: close watches\nwatch 1: 429 in status 8s",
			setup{}, plain, 4,
			"the Stream waits, then requests the same version; no new list"},
		{"500, 503, 504, refused", "at 5s: close watches\n" +
			"watch 1: 500\nwatch 2: 503\nwatch 3: 504\nwatch 4: refuse\nwatch 5: 503 plain", setup{}, plain, 0,
			"the watch resumes from the same version"},
		{"list fails", "list 1: 500\nlist 2: 503\nlist 3: refuse\nlist 4: 429 in status 3s",
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}, plain, 6,
			"the list is retried"},
		{"no answer to the list", "list 1: hang",
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}},
			[]string{"ADDED ns/a@6", "ADDED ns/c@4", "SYNCED @7"}, 3,
			"the list is retried after two minutes, and shows the state by then"},
		{"no answer to the watch", "at 5s: close watches\nwatch 1: hang", setup{}, plain, 0,
			"the watch is retried"},

		{"garbage", afterOneFrame + "garbage", setup{}, plain, 0, again},
		{"unknown type", afterOneFrame + "unknown type", setup{}, plain, 0, again},
		{"no kind", afterOneFrame + "no kind", setup{}, plain, 0, again},
		{"no name", afterOneFrame + "no name", setup{}, plain, 0, again},
		{"1e400", afterOneFrame + "1e400", setup{}, plain, 0, again},
		{"invalid UTF-8", afterOneFrame + "invalid utf-8", setup{}, plain, 0, again},
		{"frame over the limit", afterOneFrame + "huge object", setup{}, plain, 0, again},
		{"event without version", afterOneFrame + "no version", setup{}, plain, 0, again},
		{"garbage for ever", "change 6: garbage", setup{}, poisoned(), 0, replaced},
		{"unknown type for ever", "change 6: unknown type", setup{}, poisoned(), 0, replaced},
		{"no kind for ever", "change 6: no kind", setup{}, poisoned(), 0, replaced},
		{"1e400 for ever", "change 6: 1e400", setup{}, poisoned(), 0, replaced},
		{"invalid UTF-8 for ever", "change 6: invalid utf-8", setup{}, poisoned(), 0, replaced},
		{"frame over the limit for ever", "change 6: huge object", setup{}, poisoned(), 0, replaced},
		{"event without version for ever", "change 6: no version", setup{}, poisoned(), 0, replaced},

		{"frames after an ERROR", afterOneFrame + "frames after error", setup{}, plain, 0,
			"the first ERROR ends the watch; later frames are discarded, and come again"},
		{"ERROR without a Status", afterOneFrame + "error not status", setup{}, plain, 0,
			"it ends the watch like any other ERROR"},
		{"reset", afterOneFrame + "reset", setup{}, plain, 0, again},
		{"reset inside a frame", afterOneFrame + "reset inside frame", setup{}, plain, 0,
			"half a frame is discarded, and the same version is requested again"},
		{"half-open", "at 5s: silence",
			setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: 30 * time.Second}}}, plain, 0,
			"a dead connection is detected within IdleTimeout"},
		{"slow frames", "any *: slow 2s", setup{}, plain, 0, "the events come late, but are the same"},

		{"streaming lists refused", "initial *: 422", setup{}, plain, 3,
			"the Stream falls back to paged lists"},
		{"streaming lists ignored", "initial *: ignore initial", setup{}, plain, 3,
			"without the annotated bookmark, the Stream falls back to paged lists"},
		{"marker never sent", "initial *: no marker", setup{}, plain, 3,
			"the Stream falls back to paged lists, where client-go's reflector waits for ever"},
		{"marker without annotation", "initial *: plain marker", setup{}, plain, 3,
			"a bookmark without the annotation is not the marker"},
		{"streaming list breaks", "initial 1-3 after 1 frames: reset", setup{}, plain, 0,
			"a second failure leads to paged lists; nothing is delivered twice"},

		{"watches only, and an outage at the start", "list *: 403\ninitial 1-3: 503",
			setup{}, plain, 5, "a caller who may watch needs no list"},
		{"watches only, and a restart", "list *: 403\nprobe *: 403\nat 15s: restart", setup{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 5,
			"the differences come from a streaming list"},

		{"restart of the server", "at 15s: restart", setup{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"the new watch cache has no history"},
		{"etcd restored", "at 25s: rewind 3\nat 26s: close watches", setup{},
			gap("ADDED ns/c@4", "MODIFIED ns/a@6", "GAP rewound 6..3", "MODIFIED ns/a@2 inferred",
				"MODIFIED ns/b@3 inferred", "DELETED ns/c@4 inferred", "SYNCED @3", "DELETED ns/b@4"), 0,
			"a watch from 6 would be silent, and versions may be given a second time"},
		{"token expired", "at 15s: unauthorized\nat 15s: close watches\nat 40s: authorized", setup{}, plain, 0,
			"Unauthorized is a state, not the end of the run"},
		{"rights lost", "at 15s: forbid all\nat 15s: close watches\nat 40s: allow", setup{}, plain, 0,
			"Forbidden is a state, not the end of the run, and deletes nothing"},
		{"only the right to watch", "at 0s: forbid list\nat 15s: expire", setup{},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"a streaming list finds the differences"},
		{"inconsistent pages", "at 15s: expire\npage 1: inconsistent pages",
			setup{Options: stream.Options{Requests: stream.Requests{PageSize: 2}}},
			gap("ADDED ns/c@4", "GAP expired 4..5", "SYNCED @5", "MODIFIED ns/a@6", "DELETED ns/b@7"), 0,
			"a list whose pages have different versions is discarded"},
		{"continue token expires", "page 1: 410",
			setup{Options: stream.Options{Requests: stream.Requests{PageSize: 1, PagedLists: true}}},
			plain, 0,
			"the list starts again"},
	}
	kinds := append([]string{"metadata in protobuf"}, clientKinds...)
	for i := range len(tests) * len(kinds) {
		tt, client := tests[i/len(kinds)], kinds[i%len(kinds)]
		if client == kinds[0] {
			tt.options.Objects = stream.Metadata
		}
		t.Run(tt.name+"/"+client, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gadgets := widgets()
				gadgets.Resource, gadgets.Kind = "gadgets", "Gadget"
				srv := streamtest.NewServer(widgets(), gadgets).AllFaults(friend.Access{})
				srv.Put(widgets(), "ns", "a")
				srv.Put(widgets(), "ns", "b")
				noError(t, srv.Apply(tt.script))
				rec := watchOn(t, srv, clientOf(t, srv, client), tt.options, func() {
					time.Sleep(11 * time.Second)
					srv.Put(widgets(), "ns", "c")
					time.Sleep(2 * time.Second)
					srv.Put(gadgets, "ns", "other") // so that the widgets' version can expire without an event
					time.Sleep(8 * time.Second)
					srv.Put(widgets(), "ns", "a", "spec.changed=true")
					time.Sleep(10 * time.Second)
					if _, err := srv.Delete(widgets(), "ns", "b"); err != nil {
						t.Error(err)
					}
					time.Sleep(5 * time.Minute)
				})
				if diff := cmp.Diff(tt.want, rec.Texts()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if err := srv.CheckScript(); err != nil {
					t.Errorf("%s: %v", tt.why, err)
				}
				if n := requestsUntil(srv, rec); tt.requests > 0 && n > tt.requests {
					t.Errorf("%s: %d requests, want at most %d", tt.why, n, tt.requests)
				}
			})
		})
	}
}

// poisoned returns the events of a server whose change 6 can never be decoded.
func poisoned() []string {
	return []string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3", "ADDED ns/c@4",
		"GAP poison 4..6", "MODIFIED ns/a@6 inferred", "SYNCED @6", "DELETED ns/b@7"}
}

// requestsUntil counts the requests up to the last event of rec.
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

// watchFor records what a Stream delivers while happens runs, and checks every promise.
func watchFor(t *testing.T, srv *streamtest.Server, o setup, happens func()) streamtest.Recording {
	t.Helper()
	return watchOn(t, srv, srv.Client(), o, happens)
}

func watchOn(
	t *testing.T, srv *streamtest.Server, client dynamic.Interface, o setup, happens func(),
) streamtest.Recording {
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
	var running sync.WaitGroup
	running.Go(func() {
		happens()
		cancel(errTimeUp)
	})
	rec := streamtest.Record(s.Events(ctx), nil)
	running.Wait()
	rec.Statuses = statuses
	h := srv.History(widgets(), nil)
	check := &streamtest.CheckOptions{Complete: errors.Is(rec.Err, errTimeUp), Namespaces: o.Namespaces}
	if o.Objects == stream.Metadata {
		check.Transform = onlyMetadata
	}
	if err := errors.Join(
		streamtest.Check(h, rec.Events, check),
		oracle.CheckRequests(h.Requests),
		oracle.CheckStatuses(rec.Statuses),
	); err != nil {
		t.Error(err)
	}
	return rec
}

// TestDeadConnectionsAreNoticed: a Stream detects a dead connection within IdleTimeout, also by default, even if the
// server never sends bookmarks.
func TestDeadConnectionsAreNoticed(t *testing.T) {
	for _, idle := range []time.Duration{0, 5 * time.Second, time.Hour} {
		for _, what := range []string{"silence", "widgets silence"} {
			t.Run(fmt.Sprint(what, " ", idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := streamtest.NewServer(widgets())
					srv.Put(widgets(), "ns", "a")
					noError(t, srv.Apply("at 0s: bookmarks never"))
					o := setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: idle,
						WatchLifetime: 3 * time.Hour}}}
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
