package discovery_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The server sends each document once, and again once after it changed.
func TestPollsWithNewClientAreConditional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods, widgets)
		run := startRun(t, discovery.NewResolver(clients["NewClient"](srv), 0), 10*time.Second)
		defer run.stop()
		seen := 0
		codes := func(wait time.Duration) map[string]int { // of the requests since the last call
			time.Sleep(wait)
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
			t.Errorf("an hour without changes: %v", polls)
		}
		srv.Serve(gadgets)
		polls = codes(time.Minute)
		if polls["/apis 200"] != 1 || polls["/api 200"] != 0 || polls["/apis 304"]+1 != polls["/api 304"] {
			t.Errorf("after a change of one document: %v", polls)
		}
	})
}

func TestRefreshFindsAChangeSoon(t *testing.T) {
	const ms = time.Millisecond
	for _, lag := range []time.Duration{0, 20 * ms, 300 * ms, 1700 * ms, 5000 * ms} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets)
			r := discovery.NewResolver(clients["NewClient"](srv), 0)
			run := startRun(t, r, time.Hour)
			defer run.stop()
			time.Sleep(time.Minute)
			run.expect("at first", "Added widgets.v1.example.com", "Synced")
			refreshed := time.Now()
			r.Refresh()
			time.Sleep(lag)
			srv.Serve(gadgets)
			time.Sleep(7 * time.Second)
			run.expect("after the Refresh", "Added gadgets.v1.other.example.com")
			if took := run.at[len(run.at)-1].Sub(refreshed); took > max(100*ms, 2*lag+200*ms) {
				t.Errorf("discovery lags by %v, reported after %v", lag, took)
			}
			before := len(srv.Requests())
			time.Sleep(50 * time.Minute)
			if n := len(srv.Requests()) - before; n != 0 {
				t.Errorf("%d requests long after a Refresh", n)
			}
		})
	}
}

func TestRefreshEmptiesTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
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
			t.Errorf("before Refresh: %s, %v", v, err)
		}
		r.Refresh()
		if v, err := resolve(); v != "v2" || err != nil {
			t.Errorf("after Refresh: %s, %v", v, err)
		}
	})
}

// A new result of Poll holds from the next poll on, and from a Refresh on.
func TestPollIntervalMayChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
		var mu sync.Mutex
		poll := time.Duration(-1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for range r.Changes(ctx, func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return poll
			}) {
				continue
			}
		})
		polls := func(wait time.Duration) int {
			before := len(srv.Requests())
			time.Sleep(wait)
			synctest.Wait()
			return (len(srv.Requests()) - before) / 2
		}
		if n := polls(5 * time.Minute); n < 9 || n > 12 {
			t.Errorf("%d polls in five minutes, want one every 30 s, and perhaps a first one", n)
		}
		mu.Lock()
		poll = 2 * time.Second
		mu.Unlock()
		r.Refresh()
		polls(10 * time.Second)
		if n := polls(5 * time.Minute); n < 135 || n > 168 {
			t.Errorf("%d polls in five minutes, want one every 2 s", n)
		}
		cancel()
	})
}

// Concurrent runs share polls and report the same; each continues when the others end.
func TestConcurrentRunsSharePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
		var all []*changesRun
		for i := range 20 {
			all = append(all, startRun(t, r, time.Duration(10+i)*time.Second))
		}
		synctest.Wait()
		if n := len(srv.Requests()); n > 2*len(all) {
			t.Errorf("%d requests at the start, want at most one poll for each run", n)
		}
		before := len(srv.Requests())
		time.Sleep(10 * time.Minute)
		if polls := (len(srv.Requests()) - before) / 2; polls < 53 || polls > 68 {
			t.Errorf("%d polls in ten minutes, want those of the shortest interval", polls)
		}
		for _, run := range all {
			run.expect("at first", "Added widgets.v1.example.com", "Synced")
		}
		srv.Serve(gadgets)
		time.Sleep(12 * time.Second)
		for i, run := range all {
			run.expect("every run reports it", "Added gadgets.v1.other.example.com")
			if i < len(all)-1 {
				run.stop()
			}
		}
		srv.Unserve(widgets)
		time.Sleep(40 * time.Second)
		all[len(all)-1].expect("the last run continues alone", "Removed widgets.v1.example.com")
		late := startRun(t, r, time.Hour)
		late.expect("a late run reports everything", "Added gadgets.v1.other.example.com", "Synced")
		late.stop()
		all[len(all)-1].stop()
	})
}

// A poll canceled by one run is repeated by another.
func TestCanceledPollIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		r := discovery.NewResolver(clients["NewClient"](srv), 0)
		first, second := startRun(t, r, 2*time.Second), startRun(t, r, 10*time.Second)
		second.expect("at first", "Added widgets.v1.example.com", "Synced")
		apply(t, srv, "discovery 1: hang")
		time.Sleep(3 * time.Second)
		srv.Serve(gadgets)
		first.stop()
		time.Sleep(10 * time.Second)
		second.expect("polls itself", "Added gadgets.v1.other.example.com")
		second.stop()
	})
}
