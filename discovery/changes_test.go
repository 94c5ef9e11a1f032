package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Tests of Changes run in synctest bubbles, which fail if a goroutine is left.

func resource(group, version, plural, kind string, verbs ...string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true, Verbs: verbs}
	r.Group, r.Version, r.Resource = group, version, plural
	return r
}

var (
	pods    = resource("", "v1", "pods", "Pod")
	widgets = resource("example.com", "v1", "widgets", "Widget")
	gadgets = resource("other.example.com", "v1", "gadgets", "Gadget")
)

// clients are the kinds of clients that a Resolver accepts.
var clients = map[string]func(*streamtest.Server) clientdiscovery.DiscoveryInterface{
	"NewClient": func(srv *streamtest.Server) clientdiscovery.DiscoveryInterface {
		c, err := discovery.NewClient(srv.Config())
		if err != nil {
			panic(err)
		}
		return c
	},
	"legacy": func(srv *streamtest.Server) clientdiscovery.DiscoveryInterface {
		c := clientdiscovery.NewDiscoveryClientForConfigOrDie(srv.Config())
		c.UseLegacyDiscovery = true
		return c
	},
	"client-go": func(srv *streamtest.Server) clientdiscovery.DiscoveryInterface {
		return clientdiscovery.NewDiscoveryClientForConfigOrDie(srv.Config())
	},
	"cached": func(srv *streamtest.Server) clientdiscovery.DiscoveryInterface {
		return memory.NewMemCacheClient(clientdiscovery.NewDiscoveryClientForConfigOrDie(srv.Config()))
	},
	"NewClient, legacy": func(srv *streamtest.Server) clientdiscovery.DiscoveryInterface {
		c, err := discovery.NewClient(srv.Config())
		if err != nil {
			panic(err)
		}
		return c.WithLegacy()
	},
}

// changesRun runs over Changes in a goroutine.
type changesRun struct {
	t      *testing.T
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu  sync.Mutex
	got []string
	at  []time.Time
	err error
}

var errStopped = errors.New("stopped by the test")

func startRun(t *testing.T, r *discovery.Resolver, poll time.Duration) *changesRun {
	ctx, cancel := context.WithCancelCause(t.Context())
	run := &changesRun{t: t, cancel: cancel, done: make(chan struct{})}
	interval := func() time.Duration { return poll }
	go func() {
		defer close(run.done)
		for c, err := range r.Changes(ctx, interval) {
			run.mu.Lock()
			if run.err != nil {
				t.Error("a change came after the error")
			}
			if run.err = err; err == nil {
				run.got, run.at = append(run.got, withoutError(c)), append(run.at, time.Now())
			}
			run.mu.Unlock()
		}
	}()
	return run
}

// withoutError returns c's text without its error, which depends on the server.
func withoutError(c discovery.Change) string {
	c.Err = nil
	return c.String()
}

// expect compares and drops the changes since the last call.
func (run *changesRun) expect(why string, want ...string) {
	run.t.Helper()
	synctest.Wait()
	run.mu.Lock()
	defer run.mu.Unlock()
	if diff := cmp.Diff(want, run.got); diff != "" {
		run.t.Errorf("%s (-want +got):\n%s", why, diff)
	}
	run.got = nil
}

func (run *changesRun) stop() {
	run.t.Helper()
	run.cancel(errStopped)
	<-run.done
	if !errors.Is(run.err, errStopped) {
		run.t.Errorf("the last error is %v, want the cause of ctx", run.err)
	}
}

func do(t *testing.T, srv *streamtest.Server, actions ...string) {
	t.Helper()
	for _, action := range actions {
		if err := srv.Do(action); err != nil {
			t.Fatal(err)
		}
	}
}

func apply(t *testing.T, srv *streamtest.Server, script string) {
	t.Helper()
	if err := srv.Apply(script); err != nil {
		t.Fatal(err)
	}
}

func TestChangeConcernsAResourceAnAPIOrTheServer(t *testing.T) {
	group := gvr.Resource{}
	group.Group = "example.com"
	core := gvr.Resource{}
	core.Version = "v1"
	tests := []struct {
		change      discovery.Change
		api, server bool
		text        string
	}{
		{discovery.Change{Type: discovery.Added, Resource: pods}, false, false, "Added pods.v1"},
		{discovery.Change{Type: discovery.Changed, Resource: pods, Old: pods}, false, false, "Changed pods.v1"},
		{discovery.Change{Type: discovery.Known, Resource: group}, true, false, "Known API example.com"},
		{discovery.Change{Type: discovery.Known, Resource: core}, true, false, "Known API v1"},
		{discovery.Change{Type: discovery.Unknown, Err: errors.New("down")}, false, true, "Unknown server: down"},
		{discovery.Change{Type: discovery.Synced}, false, true, "Synced"},
	}
	for _, tt := range tests {
		c := tt.change
		if c.IsAPI() != tt.api || c.IsServer() != tt.server || c.String() != tt.text {
			t.Errorf("got %v, IsAPI %v, IsServer %v, want %+v", c, c.IsAPI(), c.IsServer(), tt)
		}
	}
}

func TestChangesReportsEachDifference(t *testing.T) {
	for name, newClient := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(pods, widgets)
				run := startRun(t, discovery.NewResolver(newClient(srv), 0), time.Second)
				defer run.stop()
				next := func() { time.Sleep(1200 * time.Millisecond) }
				run.expect("at first", "Added pods.v1", "Added widgets.v1.example.com", "Synced")
				next()
				run.expect("nothing changed")
				srv.Serve(gadgets)
				next()
				run.expect("a CRD was created", "Added gadgets.v1.other.example.com")
				do(t, srv, "discovery down other.example.com")
				next()
				run.expect("its group is down",
					"Unknown API other.example.com/v1", "Unknown gadgets.v1.other.example.com")
				next()
				run.expect("the group is still down")
				do(t, srv, "discovery up other.example.com")
				next()
				run.expect("the group is up", "Known gadgets.v1.other.example.com", "Known API other.example.com/v1")
				do(t, srv, "discovery down other.example.com")
				next()
				run.expect("down again", "Unknown API other.example.com/v1", "Unknown gadgets.v1.other.example.com")
				srv.Unserve(gadgets)
				next()
				run.expect("the CRD was deleted while the group was down",
					"Removed gadgets.v1.other.example.com", "Known API other.example.com/v1")
				v2 := widgets
				v2.Version = "v2"
				srv.Serve(v2)
				next()
				run.expect("a new preferred version", "Changed widgets.v1.example.com to widgets.v2.example.com")
				srv.Unserve(widgets)
				next()
				run.expect("the old version is gone, which changes nothing")
				srv.Serve(widgets)
				srv.Unserve(v2)
				next()
				run.expect("the old version is back alone", "Changed widgets.v2.example.com to widgets.v1.example.com")
				cluster := widgets
				cluster.Namespaced = false
				srv.Serve(cluster)
				next()
				run.expect("a new scope", "Changed widgets.v1.example.com")
				cluster.Verbs = []string{"get"}
				srv.Serve(cluster)
				next()
				run.expect("new verbs", "Changed widgets.v1.example.com")
				srv.Unserve(cluster)
				next()
				run.expect("the CRD was deleted", "Removed widgets.v1.example.com")
			})
		})
	}
}

func TestServerDownIsOneUnknown(t *testing.T) {
	// client-go's cache reports errors to these handlers: one logs, and one sleeps by a
	// clock outside of the bubble.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for name, newClient := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets)
				apply(t, srv, "discovery *: refuse")
				run := startRun(t, discovery.NewResolver(newClient(srv), 0), time.Second)
				defer run.stop()
				time.Sleep(10 * time.Minute)
				run.expect("down at the start", "Unknown server")
				// Full jitter: 15 s on average, so 40 polls of one or two requests.
				if n := len(srv.Requests()); n < 20 || n > 200 {
					t.Errorf("%d requests in ten minutes of failures", n)
				}
				do(t, srv, "heal")
				time.Sleep(30 * time.Second)
				run.expect("back within half a minute", "Known server", "Added widgets.v1.example.com", "Synced")
				apply(t, srv, "discovery *: 503")
				time.Sleep(time.Minute)
				run.expect("down later", "Unknown server")
				srv.Serve(gadgets)
				srv.Unserve(widgets)
				do(t, srv, "heal")
				time.Sleep(30 * time.Second)
				run.expect("back with changes",
					"Known server", "Added gadgets.v1.other.example.com", "Removed widgets.v1.example.com")
			})
		})
	}
}

// A run never starts from a cached answer.
func TestRunStartsWithAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
		if _, err := r.Resolve(t.Context(), ref(t, "widgets")); err != nil {
			t.Fatal(err)
		}
		srv.Serve(gadgets)
		run := startRun(t, r, time.Hour)
		run.expect("at first", "Added widgets.v1.example.com", "Added gadgets.v1.other.example.com", "Synced")
		run.stop()
	})
}

// While the loop body ran, a poll found a change and the next poll failed: both are reported.
func TestSlowLoopReportsChangesBeforeAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
		next, stop := iter.Pull2(r.Changes(t.Context(), nil))
		defer stop()
		expect := func(want ...string) {
			t.Helper()
			for _, w := range want {
				if c, err, _ := next(); err != nil || withoutError(c) != w {
					t.Errorf("got %v, %v, want %s", c, err, w)
				}
			}
		}
		expect("Added widgets.v1.example.com")
		run := startRun(t, r, time.Second)
		defer run.stop()
		time.Sleep(time.Second)
		srv.Serve(gadgets)
		time.Sleep(2 * time.Second)
		do(t, srv, "unauthorized")
		time.Sleep(2 * time.Second)
		expect("Synced", "Added gadgets.v1.other.example.com", "Unknown server")
	})
}

func TestChangesEndsWithTheCauseOfItsContext(t *testing.T) {
	tests := []struct {
		script string
		after  time.Duration
		why    string
	}{
		{"", 0, "before the run"},
		{"", time.Second, "waiting for the next poll"},
		{"discovery *: hang", time.Second, "during a poll"},
		{"discovery *: refuse", time.Minute, "waiting to retry"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets)
			apply(t, srv, tt.script)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			began := time.Now()
			if tt.after == 0 {
				cancel(errStopped)
			} else {
				time.AfterFunc(tt.after, func() { cancel(errStopped) })
			}
			var last error
			for c, err := range discovery.NewResolver(clients["NewClient"](srv), 0).Changes(ctx, nil) {
				if last != nil {
					t.Errorf("%s: %v after the end", tt.why, c)
				}
				last = err
			}
			if !errors.Is(last, errStopped) || time.Since(began) != tt.after {
				t.Errorf("%s: ended after %v with %v", tt.why, time.Since(began), last)
			}
		})
	}
}

// The loop body may break or cancel ctx between two changes of one poll.
func TestChangesEndsInsideTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods, widgets, gadgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var got []string
		for c, err := range r.Changes(ctx, nil) {
			got = append(got, fmt.Sprint(c.Type, err))
			cancel(errStopped)
		}
		if diff := cmp.Diff([]string{"Added<nil>", errStopped.Error()}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		seq := r.Changes(t.Context(), nil)
		for range 2 {
			n := 0
			for range seq {
				if n++; n == 2 {
					break
				}
			}
			if n != 2 {
				t.Errorf("got %d changes, want 2 in each run", n)
			}
		}
	})
}
