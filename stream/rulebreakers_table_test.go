package stream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// observed is what a Stream did on a server with a personality.
type observed struct {
	streamtest.Recording
	history streamtest.History
	states  []string        // each new state, with the time since the beginning, its cause, and whether it was synced
	status  []stream.Status // the same
	began   time.Time
}

// observe runs a Stream on a server with a personality while something happens to the server. It checks what the
// Stream delivers.
func observe(t *testing.T, p servers.Personality, srv *streamtest.Server, o setup, happens func()) observed {
	t.Helper()
	var mu sync.Mutex
	got := observed{began: time.Now()}
	o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
		mu.Lock()
		defer mu.Unlock()
		got.status = append(got.status, s)
		line := fmt.Sprintf("%v %s", time.Since(got.began).Round(time.Second), s.State)
		if s.Cause != nil {
			line += ": " + s.Cause.Error()
		}
		got.states = append(got.states, line)
	}}
	s := streamOf(t, brokenClient(t, p, srv, "NewClient"), widgets(), &o)
	ctx, cancel := context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		happens()
		cancel(errTimeUp)
	})
	got.Recording = streamtest.Record(s.Events(ctx), nil)
	running.Wait()
	if got.Err != errTimeUp {
		t.Errorf("the run ended with %v", got.Err)
	}
	got.Statuses = got.status
	got.history = shown(srv.History(widgets(), nil), p)
	if err := oracle.CheckTruth(got.history, got.Recording, &streamtest.CheckOptions{Complete: true}); err != nil {
		t.Error(err)
	}
	if err := oracle.CheckStatuses(got.Statuses); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("delivered:\n%s\nstates:\n%s", timed(got.Recording), strings.Join(got.states, "\n"))
	}
	return got
}

// lists returns when snapshots were requested, and sent.
func (o observed) lists() (at []time.Duration) {
	for _, r := range o.history.Requests {
		if r.Verb == "list" && r.Limit > 1 && r.Continue == "" && r.ResourceVersion == "" && r.Code == 200 {
			at = append(at, r.At.Sub(o.began).Round(time.Second))
		}
	}
	return at
}

// gaps returns how many GAPs there were for each reason.
func (o observed) gaps() map[string]int {
	reasons := map[string]int{}
	for _, ev := range o.Events {
		if ev.Type == stream.Gap {
			reasons[string(ev.Gap.Reason)]++
		}
	}
	return reasons
}

// repeats returns how many events came again, although nothing had changed: in the comparison after the first GAP, when
// any object may be another one, and later.
func (o observed) repeats() (first, later int) {
	seen, gaps, comparing := map[string]bool{}, 0, false
	for _, ev := range o.Events {
		switch {
		case ev.Type == stream.Gap:
			gaps++
			comparing = true
		case ev.Type == stream.Synced:
			comparing = false
		case ev.HasObject():
			key := fmt.Sprint(ev.Type == stream.Deleted, ev.Meta().GetUID(), ev.ResourceVersion)
			switch {
			case !seen[key]:
			case gaps == 1 && comparing:
				first++
			default:
				later++
			}
			seen[key] = true
		}
	}
	return first, later
}

// TestServersThatBreakRules: for an hour a server changes an object every 40 seconds, and now and then while nobody
// watches. Whatever rule it breaks, nothing is missing at a SYNCED and at the end, and the number of lists is bounded.
func TestServersThatBreakRules(t *testing.T) {
	tests := []struct {
		why    string
		server servers.Personality
		most   int    // lists: one at once, then 30 s later, 1, 2 and 4 minutes, then every 5; some are tried again
		gap    string // the reason of GAPs; empty: there is none
	}{
		{"no rule is broken", servers.Personality{}, 1, ""},
		{"kubernetes/kubernetes#49745, kube-rs/kube#117: a new object is older than an event before it",
			servers.Unordered(), 25, "unordered"},
		{"and its lists have the greatest version of their objects", servers.UnorderedLists(), 25, "unordered"},
		{"antrea-io/antrea#4672: a watch begins with what exists", servers.RestartsWatches(0), 25, "unordered"},
		{"the version of a list is that of its newest object, and sinks with it", servers.GreatestItem(), 25,
			"unordered"},
		{"a list is newer than its version", servers.StaleLists(5), 25, "unordered"},
		{"argoproj/gitops-engine#704: a list has no version", servers.NoListVersion(), 25, "unversioned"},
		{"kcp-dev/kcp-glbc#54: two objects have one name", servers.Namesakes("two", "one"), 25, "unordered"},
		{"empty pages are allowed", servers.EmptyPages(20), 1, ""},
		{"a gateway answers in the place of the server", servers.Gateway(), 3, ""},
	}
	for _, tt := range tests {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.why, " paged:", paged), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := streamtest.NewServer(widgets())
					for range 2 * servers.MaxLowered {
						srv.Put(widgets(), "one", "always", fmt.Sprint("spec.n=", srv.ResourceVersion()))
					}
					var o setup
					o.Requests.PagedLists = paged
					got := observe(t, tt.server, srv, o, func() { changeForAnHour(t, srv) })
					if lists := got.lists(); len(lists) > tt.most {
						t.Errorf("%d lists, want at most %d: %v", len(lists), tt.most, lists)
					}
					// The first time that a version sinks, it may be that of an etcd that was restored.
					gaps := got.gaps()
					if gaps["rewound"] > 1 || tt.gap == "" && len(gaps) > 0 || tt.gap != "" && gaps[tt.gap] == 0 {
						t.Errorf("GAPs %v, want reason %q, and at most one rewound", gaps, tt.gap)
					}
					// Later it is the object that is created and deleted six times while nobody watches.
					if first, later := got.repeats(); first > names || later > 2*6 {
						t.Errorf("%d events came again after the first GAP, and %d later, want at most %d and 12",
							first, later, names)
					}
				})
			})
		}
	}
}

// names is how many objects changeForAnHour has at most: a to g in two namespaces, always and newest.
const names = 2*7 + 2

// changeForAnHour ends with a rest.
func changeForAnHour(t *testing.T, srv *streamtest.Server) {
	for i := range 90 {
		time.Sleep(40 * time.Second)
		ns, name := []string{"one", "two"}[i%2], string(rune('a'+i%7))
		if i%15 == 10 { // the newest object is deleted, and more happens, while nobody watches
			srv.Put(widgets(), "one", "newest")
			time.Sleep(10 * time.Second)
			noError(t, srv.Apply("any 1-3: 503"))
			noError(t, srv.Do("widgets close watches"))
			time.Sleep(50 * time.Millisecond)
			_, err := srv.Delete(widgets(), "one", "newest")
			noError(t, err)
		}
		if _, err := srv.Delete(widgets(), ns, name); err == nil && i%3 > 0 {
			continue
		}
		if i%15 != 10 {
			srv.Put(widgets(), ns, name, fmt.Sprint("spec.n=", i))
		}
	}
	time.Sleep(quietAfter)
}

// TestOneObjectThatCannotBeConvertedIsNoticed: open-telemetry/opentelemetry-operator#4288. While the object exists,
// watches are accepted and silent. A list of one object proves nothing then, unless it is that object.
func TestOneObjectThatCannotBeConvertedIsNoticed(t *testing.T) {
	const idle = 30 * time.Second
	for _, bad := range []string{"a", "g"} { // the first by name, and one of the others
		t.Run(bad, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "one", "b")
				noError(t, srv.Do("bookmarks every 10s"))
				var o setup
				o.Requests.IdleTimeout = idle
				var created, deleted time.Time
				got := observe(t, servers.WebhookDown(bad), srv, o, func() {
					time.Sleep(2 * time.Minute)
					created = time.Now()
					srv.Put(widgets(), "one", bad)
					srv.Put(widgets(), "one", "later")
					time.Sleep(30 * time.Minute)
					deleted = time.Now()
					_, err := srv.Delete(widgets(), "one", bad)
					noError(t, err)
					time.Sleep(quietAfter)
				})
				noticed, streaming := time.Duration(0), time.Duration(-1)
				for _, s := range got.status {
					at := s.Since
					switch {
					case at.Before(created):
					case !at.Before(deleted):
						if streaming < 0 && s.State == stream.Streaming {
							streaming = at.Sub(deleted)
						}
					case noticed == 0 && s.State == stream.Stalled && strings.Contains(s.Cause.Error(), "webhook"):
						noticed = at.Sub(created)
					case noticed > 0 && s.State == stream.Streaming:
						t.Errorf("%s after it was noticed the Status was Streaming again", at.Sub(created)-noticed)
					}
				}
				if noticed == 0 || noticed > 3*idle {
					t.Errorf("Stalled after %v, want at most %v", noticed, 3*idle)
				}
				if streaming < 0 || streaming > 6*time.Minute {
					t.Errorf("Streaming again %v after the object was deleted", streaming)
				}
				if lists := got.lists(); len(lists) > 10 {
					t.Errorf("%d lists, want at most one in five minutes: %v", len(lists), lists)
				}
				if t.Failed() {
					t.Logf("states:\n%s", strings.Join(got.states, "\n"))
				}
			})
		})
	}
}

// TestWatchThatOutlivesItsLifetimeIsReplaced: kubernetes/kubernetes#102464. The server ignores timeoutSeconds, and
// after a while a watch receives bookmarks only.
func TestWatchThatOutlivesItsLifetimeIsReplaced(t *testing.T) {
	const lifetime = 2 * time.Minute
	for _, bookmarks := range []string{"bookmarks every 5s", "bookmarks every 60s"} {
		t.Run(bookmarks, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				noError(t, srv.Do(bookmarks))
				var o setup
				o.Requests.WatchLifetime, o.Requests.IdleTimeout = lifetime, 90*time.Second
				got := observe(t, servers.IgnoresTimeout(30*time.Second), srv, o, func() {
					for range 10 {
						time.Sleep(7 * time.Minute)
						srv.Put(widgets(), "one", "a", "spec.n="+srv.ResourceVersion())
					}
					time.Sleep(quietAfter)
				})
				if err := oracle.CheckTimely(got.history, got.Recording, lifetime+time.Minute, nil); err != nil {
					t.Error(err)
				}
				if lists := got.lists(); len(lists) > 0 {
					t.Errorf("lists at %v: the watch resumes where it was", lists)
				}
			})
		})
	}
}
