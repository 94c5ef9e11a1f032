package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// A quiet watch is read in the goroutine of the loop. While a lot arrives, another goroutine reads ahead. It ends after
// the first Read that had to wait.
func TestQuietWatchHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{accept: make(chan net.Conn), down: make(chan struct{})}
		srv := serveOn(n, false, nil)
		send := make(chan int) // numbers of events
		srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(describe(r), "watch") {
				serveBookmarks(w, r, nil)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			for rv := 6; ; _ = http.NewResponseController(w).Flush() {
				select {
				case n := <-send:
					for ; n > 0; n, rv = n-1, rv+1 {
						fmt.Fprintf(w, `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Widget",`+
							`"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"%d"},"spec":"%s"}}`,
							rv, strings.Repeat("x", 2000))
						fmt.Fprintln(w)
					}
				case <-r.Context().Done():
					return
				}
			}
		})
		cfg := &rest.Config{Host: "https://server.test", Dial: n.dial}
		cfg.Insecure, cfg.NextProtos = true, []string{"http/1.1"}
		client, err := stream.NewClient(cfg, nil)
		noError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var received atomic.Int64
		s := newStream(t, client, &setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
		running.Go(func() {
			for ev, err := range s.Events(ctx) {
				if err == nil && ev.HasObject() {
					received.Add(1)
				}
			}
		})
		total := 0
		for i, tt := range []struct {
			events int
			ahead  bool
			why    string
		}{
			{0, false, "nothing has arrived"},
			{1, false, "one event is read by the loop"},
			{300, true, "a lot has arrived without a pause"},
			{1, false, "the goroutine had to wait for this event"},
			{1, false, "the loop has read this one"},
			{300, true, "the goroutine starts as often as it is needed"},
			{1, false, "and ends as often"},
		} {
			time.Sleep(time.Second)
			send <- tt.events
			synctest.Wait()
			if total += tt.events; received.Load() != int64(total) {
				t.Errorf("%d: %d events, want %d", i, received.Load(), total)
			}
			var all bytes.Buffer
			noError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
			if ahead := strings.Contains(all.String(), "client.(*pipe).fill"); ahead != tt.ahead {
				t.Errorf("%d: a goroutine reads ahead: %v, want %v: %s", i, ahead, tt.ahead, tt.why)
			}
		}
		cancel()
		running.Wait()
		n.breakOff()
		srv.Close()
	})
}
