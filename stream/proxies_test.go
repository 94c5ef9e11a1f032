package stream_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// cutsWatches is a proxy that breaks the connection of each watch after a time.
func cutsWatches(after time.Duration) servers.Personality {
	return servers.Personality{Answer: func(w http.ResponseWriter, r *http.Request, behind http.Handler) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		ctx, cancel := context.WithTimeout(r.Context(), after)
		defer cancel()
		behind.ServeHTTP(w, r.WithContext(ctx))
		panic(http.ErrAbortHandler)
	}}
}

// ignoresWatch is a cache that answers each watch with the list.
func ignoresWatch() servers.Personality {
	return servers.Personality{Ask: func(q url.Values) {
		for _, name := range []string{"watch", "resourceVersion", "resourceVersionMatch", "sendInitialEvents"} {
			q.Del(name)
		}
	}}
}

// TestProxies: for ten minutes an object is created, changed or deleted every 20 s, behind a proxy that breaks watches.
func TestProxies(t *testing.T) {
	tests := []struct {
		why      string
		proxy    servers.Personality
		gap      string // the reason of GAPs; empty: there is none
		requests int    // at most, in 22 minutes
	}{
		{"kubernetes-sigs/kubespray#655: watches are cut after 3 s, each after a probe",
			cutsWatches(3 * time.Second), "",
			900},
		{"after 1 s: watches that may have begun at an expired version", cutsWatches(time.Second), "expired", 900},
		{"a cache answers a watch with the list: the waits grow to 30 s", ignoresWatch(), "poison", 200},
	}
	for _, tt := range tests {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.why, " paged:", paged), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := streamtest.NewServer(widgets())
					srv.Put(widgets(), "one", "always")
					var o setup
					o.Requests.PagedLists = paged
					got := observe(t, tt.proxy, srv, o, func() {
						for i := range 30 {
							time.Sleep(20 * time.Second)
							if _, err := srv.Delete(widgets(), "one", fmt.Sprint("w", i%4)); err != nil {
								srv.Put(widgets(), "one", fmt.Sprint("w", i%4))
							}
						}
						time.Sleep(quietAfter)
					})
					gaps := got.gaps()
					n := gaps[tt.gap]
					delete(gaps, tt.gap)
					if len(gaps) > 0 || n == 0 && tt.gap != "" {
						t.Errorf("%d GAPs %q, and others: %v", n, tt.gap, gaps)
					}
					if first, later := got.repeats(); first+later > 0 {
						t.Errorf("%d events came again", first+later)
					}
					if n := len(got.history.Requests); n > tt.requests {
						t.Errorf("%d requests, want at most %d", n, tt.requests)
					}
				})
			})
		}
	}
}

// serveObject answers a list with one object at version 10. A watch sends its next version each second, and ends after
// ten. Each answer of HTTP/2 brings GOAWAY, so that the next request needs a new connection.
func serveObject(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/json")
	from, a := 10, list("10", "", "a@10")
	if _, err := fmt.Sscanf(describe(r), "watch %d", &from); err == nil {
		var frames []string
		for i := range 10 {
			frames = append(frames, "wait 1s", fmt.Sprint("MODIFIED a@", from+1+i))
		}
		a = watch(frames...)
	} else if describe(r) == "probe" {
		a = list("1000000", "", "a@10")
	}
	resp, err := a(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for b := make([]byte, 1<<10); ; _ = flush.Flush() {
		n, err := resp.Body.Read(b)
		if _, failed := w.Write(b[:n]); err != nil || failed != nil {
			return
		}
	}
}

// TestGoawayLosesNothing: googlecloudrobotics/core#64, kubernetes/kubernetes#73277. A kube-apiserver with
// --goaway-chance makes a client use another connection while its watches go on.
func TestGoawayLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{accept: make(chan net.Conn), down: make(chan struct{})}
		srv := serve(n, true, http.HandlerFunc(serveObject))
		cfg := &rest.Config{Host: "https://server.test", Dial: n.dial}
		cfg.Insecure = true
		client, err := stream.NewClient(cfg, nil)
		noError(t, err)
		const last = 100
		want := []string{"ADDED a@10", "SYNCED 10"}
		for v := 11; v <= last; v++ {
			want = append(want, fmt.Sprint("MODIFIED a@", v))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errTimeUp)
		defer cancel()
		var running sync.WaitGroup
		for range 3 {
			s := newStream(t, client, nil)
			running.Go(func() {
				var got []string
				for ev, err := range s.Events(ctx) {
					if err != nil {
						t.Error(err)
						break
					}
					got = append(got, text(ev))
					if ev.ResourceVersion == fmt.Sprint(last) {
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
		running.Wait()
		if dialed := n.dialed(); dialed < 10 {
			t.Errorf("%d connections, want a new one after each GOAWAY", dialed)
		}
		synctest.Wait()
		if open := n.open(); open > 3 {
			t.Errorf("%d of %d connections are open at the end, want at most one for each Stream", open, n.dialed())
		}
		n.breakOff()
		srv.Close()
	})
}
