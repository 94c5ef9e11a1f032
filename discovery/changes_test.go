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

// Every test here runs in a bubble, which a goroutine left behind would hang.

func served(group, version, plural, kind string, verbs ...string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true, Verbs: verbs}
	r.Group, r.Version, r.Resource = group, version, plural
	return r
}

var (
	pods    = served("", "v1", "pods", "Pod")
	widgets = served("example.com", "v1", "widgets", "Widget")
	gadgets = served("other.example.com", "v1", "gadgets", "Gadget")
)

// clients are those that a Resolver may be given.
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

// ranger ranges over Changes in a goroutine.
type ranger struct {
	t      *testing.T
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu   sync.Mutex
	told []string
	at   []time.Time
	err  error
}

var errEnough = errors.New("enough")

func follow(t *testing.T, r *discovery.Resolver, poll time.Duration) *ranger {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &ranger{t: t, cancel: cancel, done: make(chan struct{})}
	opts := &discovery.ChangesOptions{Poll: func() time.Duration { return poll }}
	go func() {
		defer close(f.done)
		for c, err := range r.Changes(ctx, opts) {
			f.mu.Lock()
			if f.err != nil {
				t.Error("the error was not the last")
			}
			if f.err = err; err == nil {
				f.told, f.at = append(f.told, brief(c)), append(f.at, time.Now())
			}
			f.mu.Unlock()
		}
	}()
	return f
}

// brief leaves out the words of errors, which are those of the server.
func brief(c discovery.Change) string {
	c.Err = nil
	return c.String()
}

// expect takes what was told since the last call.
func (f *ranger) expect(why string, want ...string) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.told); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", why, diff)
	}
	f.told = nil
}

func (f *ranger) stop() {
	f.t.Helper()
	f.cancel(errEnough)
	<-f.done
	if !errors.Is(f.err, errEnough) {
		f.t.Errorf("the last error is %v, want the cause of the context", f.err)
	}
}

func do(t *testing.T, srv *streamtest.Server, what ...string) {
	t.Helper()
	for _, w := range what {
		if err := srv.Do(w); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChanges(t *testing.T) {
	for name, newClient := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(pods, widgets)
				f := follow(t, discovery.NewResolver(newClient(srv), nil), time.Second)
				defer f.stop()
				next := func() { time.Sleep(1200 * time.Millisecond) }
				f.expect("at first", "Added pods.v1", "Added widgets.v1.example.com", "Synced")
				next()
				f.expect("nothing has changed")
				srv.Serve(gadgets)
				next()
				f.expect("a CRD is there", "Added gadgets.v1.other.example.com")
				do(t, srv, "discovery down other.example.com")
				next()
				f.expect("its group is down", "Unknown API other.example.com/v1", "Unknown gadgets.v1.other.example.com")
				next()
				f.expect("it still is")
				do(t, srv, "discovery up other.example.com")
				next()
				f.expect("it is up", "Known API other.example.com/v1", "Known gadgets.v1.other.example.com")
				do(t, srv, "discovery down other.example.com")
				next()
				f.expect("down again", "Unknown API other.example.com/v1", "Unknown gadgets.v1.other.example.com")
				srv.Unserve(gadgets)
				next()
				f.expect("gone meanwhile", "Known API other.example.com/v1", "Removed gadgets.v1.other.example.com")
				v2 := widgets
				v2.Version = "v2"
				srv.Serve(v2)
				next()
				f.expect("a better version", "Changed widgets.v1.example.com to widgets.v2.example.com")
				srv.Unserve(widgets)
				next()
				f.expect("the old version is not served any more: nothing new")
				srv.Serve(widgets)
				srv.Unserve(v2)
				next()
				f.expect("back", "Changed widgets.v2.example.com to widgets.v1.example.com")
				cluster := widgets
				cluster.Namespaced = false
				srv.Serve(cluster)
				next()
				f.expect("another scope", "Changed widgets.v1.example.com")
				cluster.Verbs = []string{"get"}
				srv.Serve(cluster)
				next()
				f.expect("other verbs", "Changed widgets.v1.example.com")
				srv.Unserve(cluster)
				next()
				f.expect("gone", "Removed widgets.v1.example.com")
			})
		})
	}
}

// With NewClient, nothing is sent while nothing changes, and no more than once if
// something does.
func TestPollsAreConditional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods, widgets)
		f := follow(t, discovery.NewResolver(clients["NewClient"](srv), nil), 10*time.Second)
		defer f.stop()
		seen := 0
		codes := func(in time.Duration) map[string]int { // of the requests since the last call
			time.Sleep(in)
			synctest.Wait()
			got := map[string]int{}
			for _, r := range srv.Requests()[seen:] {
				seen++
				got[fmt.Sprint(r.Path, " ", r.Code)]++
			}
			return got
		}
		if diff := cmp.Diff(map[string]int{"/api 200": 1, "/apis 200": 1}, codes(time.Second)); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		polls := codes(time.Hour)
		if n := polls["/apis 304"]; len(polls) != 2 || n < 330 || n > 400 || polls["/api 304"] != n {
			t.Errorf("an hour in which nothing changes: %v", polls)
		}
		srv.Serve(gadgets)
		polls = codes(time.Minute)
		if polls["/apis 200"] != 1 || polls["/api 200"] != 0 || polls["/apis 304"]+1 != polls["/api 304"] {
			t.Errorf("one of the two has changed: %v", polls)
		}
	})
}

func TestServerDownAndBack(t *testing.T) {
	// client-go's cache tells these of errors: one logs, and one sleeps by a clock
	// outside of the bubble.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for name, newClient := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets)
				if err := srv.Apply("discovery *: refuse"); err != nil {
					t.Fatal(err)
				}
				f := follow(t, discovery.NewResolver(newClient(srv), nil), time.Second)
				defer f.stop()
				time.Sleep(10 * time.Minute)
				f.expect("down at the start, told once", "Unknown server")
				// Full jitter: 15 s on average, so 40 looks, of one request or of two.
				if n := len(srv.Requests()); n < 20 || n > 200 {
					t.Errorf("%d requests in ten minutes of trouble", n)
				}
				do(t, srv, "heal")
				time.Sleep(30 * time.Second)
				f.expect("back within half a minute", "Known server", "Added widgets.v1.example.com", "Synced")
				if err := srv.Apply("discovery *: 503"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				f.expect("down later", "Unknown server")
				srv.Serve(gadgets)
				srv.Unserve(widgets)
				do(t, srv, "heal")
				time.Sleep(30 * time.Second)
				f.expect("back, and something has changed", "Known server", "Added gadgets.v1.other.example.com", "Removed widgets.v1.example.com")
			})
		})
	}
}

func TestKick(t *testing.T) {
	for _, lag := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond, 1700 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets)
			r := discovery.NewResolver(clients["NewClient"](srv), nil)
			f := follow(t, r, time.Hour)
			defer f.stop()
			time.Sleep(time.Minute)
			f.expect("at first", "Added widgets.v1.example.com", "Synced")
			kicked := time.Now()
			r.Refresh()
			time.Sleep(lag)
			srv.Serve(gadgets)
			time.Sleep(7 * time.Second)
			f.expect("kicked", "Added gadgets.v1.other.example.com")
			if took := f.at[len(f.at)-1].Sub(kicked); took > max(100*time.Millisecond, 2*lag+200*time.Millisecond) {
				t.Errorf("discovery lags by %v, told after %v", lag, took)
			}
			before := len(srv.Requests())
			time.Sleep(50 * time.Minute)
			if n := len(srv.Requests()) - before; n != 0 {
				t.Errorf("%d requests long after a kick", n)
			}
		})
	}
}

func TestKickForgetsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		resolve := func() (string, error) {
			res, err := r.Resolve(t.Context(), ref(t, "widgets"))
			return res.Version, err
		}
		for range 2 {
			if _, err := resolve(); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(srv.Requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		v2 := widgets
		v2.Version = "v2"
		srv.Serve(v2)
		if v, err := resolve(); v != "v1" || err != nil {
			t.Errorf("not kicked: %s, %v", v, err)
		}
		r.Refresh()
		if v, err := resolve(); v != "v2" || err != nil {
			t.Errorf("kicked: %s, %v", v, err)
		}
	})
}

// Poll may change from one look to the next, and a Kick makes it heard.
func TestPollChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		var mu sync.Mutex
		poll := time.Duration(-1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for range r.Changes(ctx, &discovery.ChangesOptions{Poll: func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return poll
			}}) {
				continue
			}
		})
		looks := func(in time.Duration) int {
			before := len(srv.Requests())
			time.Sleep(in)
			synctest.Wait()
			return (len(srv.Requests()) - before) / 2
		}
		if n := looks(5 * time.Minute); n < 9 || n > 12 {
			t.Errorf("%d looks in five minutes, want one every 30 s, and a first one maybe", n)
		}
		mu.Lock()
		poll = 2 * time.Second
		mu.Unlock()
		r.Refresh()
		looks(10 * time.Second)
		if n := looks(5 * time.Minute); n < 135 || n > 168 {
			t.Errorf("%d looks in five minutes, want one every 2 s", n)
		}
		cancel()
	})
}

// Many range: they share looks, are told the same, and each of them alone looks on.
func TestManyRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		var all []*ranger
		for i := range 20 {
			all = append(all, follow(t, r, time.Duration(10+i)*time.Second))
		}
		synctest.Wait()
		if n := len(srv.Requests()); n > 2*len(all) {
			t.Errorf("%d requests to begin with, want at most a look for each", n)
		}
		before := len(srv.Requests())
		time.Sleep(10 * time.Minute)
		if looks := (len(srv.Requests()) - before) / 2; looks < 53 || looks > 68 {
			t.Errorf("%d looks in ten minutes, want those of the one who polls most", looks)
		}
		for _, f := range all {
			f.expect("at first", "Added widgets.v1.example.com", "Synced")
		}
		srv.Serve(gadgets)
		time.Sleep(12 * time.Second)
		for i, f := range all {
			f.expect("told to all", "Added gadgets.v1.other.example.com")
			if i < len(all)-1 {
				f.stop()
			}
		}
		srv.Unserve(widgets)
		time.Sleep(40 * time.Second)
		all[len(all)-1].expect("the last one goes on alone", "Removed widgets.v1.example.com")
		late := follow(t, r, time.Hour)
		late.expect("a late one is told everything", "Added gadgets.v1.other.example.com", "Synced")
		late.stop()
		all[len(all)-1].stop()
	})
}

// The others are not told of a look that was given up.
func TestGivenUpIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		f, g := follow(t, r, 2*time.Second), follow(t, r, 10*time.Second)
		g.expect("at first", "Added widgets.v1.example.com", "Synced")
		if err := srv.Apply("discovery 1: hang"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		srv.Serve(gadgets)
		f.stop()
		time.Sleep(10 * time.Second)
		g.expect("looks itself", "Added gadgets.v1.other.example.com")
		g.stop()
	})
}

// What was known before a range began is not what it tells.
func TestRangeBeginsWithALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		if _, err := r.Resolve(t.Context(), ref(t, "widgets")); err != nil {
			t.Fatal(err)
		}
		srv.Serve(gadgets)
		f := follow(t, r, time.Hour)
		f.expect("at first", "Added widgets.v1.example.com", "Added gadgets.v1.other.example.com", "Synced")
		f.stop()
	})
}

// While the loop body ran, a look found something and the next one failed.
func TestSlowLoopThenTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		next, stop := iter.Pull2(r.Changes(t.Context(), nil))
		defer stop()
		expect := func(want ...string) {
			t.Helper()
			for _, w := range want {
				if c, err, _ := next(); err != nil || brief(c) != w {
					t.Errorf("told %v, %v, want %s", c, err, w)
				}
			}
		}
		expect("Added widgets.v1.example.com")
		f := follow(t, r, time.Second)
		defer f.stop()
		time.Sleep(time.Second)
		srv.Serve(gadgets)
		time.Sleep(2 * time.Second)
		do(t, srv, "unauthorized")
		time.Sleep(2 * time.Second)
		expect("Synced", "Added gadgets.v1.other.example.com", "Unknown server")
	})
}

func TestEnd(t *testing.T) {
	tests := []struct {
		prepare func(*streamtest.Server) error
		after   time.Duration
		why     string
	}{
		{func(*streamtest.Server) error { return nil }, 0, "before it begins"},
		{func(*streamtest.Server) error { return nil }, time.Second, "waiting for the next poll"},
		{func(s *streamtest.Server) error { return s.Apply("discovery *: hang") }, time.Second, "in a look"},
		{func(s *streamtest.Server) error { return s.Apply("discovery *: refuse") }, time.Minute, "waiting to try again"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets)
			if err := tt.prepare(srv); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			began := time.Now()
			if tt.after == 0 {
				cancel(errEnough)
			} else {
				time.AfterFunc(tt.after, func() { cancel(errEnough) })
			}
			var last error
			for c, err := range discovery.NewResolver(clients["NewClient"](srv), nil).Changes(ctx, nil) {
				if last != nil {
					t.Errorf("%s: told %v after the end", tt.why, c)
				}
				last = err
			}
			if !errors.Is(last, errEnough) || time.Since(began) != tt.after {
				t.Errorf("%s: ended after %v with %v", tt.why, time.Since(began), last)
			}
		})
	}
}

// The loop body ends it, or ends ctx, in the middle of what a look found.
func TestEndInTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods, widgets, gadgets)
		r := discovery.NewResolver(clients["NewClient"](srv), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var told []string
		for c, err := range r.Changes(ctx, nil) {
			told = append(told, fmt.Sprint(c.Type, err))
			cancel(errEnough)
		}
		if diff := cmp.Diff([]string{"Added<nil>", errEnough.Error()}, told); diff != "" {
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
				t.Errorf("told %d, want as many as were asked for, each time", n)
			}
		}
	})
}
