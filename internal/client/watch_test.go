package client_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// receiveAll receives until the end.
func receiveAll(w apiwatch.Interface) (events []apiwatch.Event) {
	for ev := range w.ResultChan() {
		events = append(events, ev)
	}
	return events
}

// Stop ends the watch's goroutines (or the bubble would not end), and closes the body. After Stop hardly any event
// arrives. When its context ends, the watch delivers what client-go's delivers.
func TestStopEndsAWatchInAnyState(t *testing.T) {
	const never = -1
	flood := slices.Repeat([][]byte{[]byte(many(16, added+"\n"))}, 2000)
	for _, tt := range []struct {
		why    string
		chunks [][]byte
		come   int // chunks that the server sends
		take   int // events that are received before Stop or the end of the context
		cancel bool
		most   int // events after Stop
	}{
		{"silent", nil, 0, 0, false, 0},
		{"flooded", flood, never, 0, false, 20},
		{"flooded without line ends", slices.Repeat([][]byte{[]byte(many(16, added))}, 2000), never, 0, false, 20},
		{"in the middle of a flood", flood, never, 777, false, 20},
		{"after the end", chunksOf(added + "\n" + deleted), never, 2, false, 0},
		{"stopped within a frame", chunksOf(added+"\n"+deleted[:90], deleted[90:]), 1, 1, false, 0},
		{"canceled", chunksOf("", "more"), 1, 0, true, 0},
		{"canceled after a frame", chunksOf(added+"\n", "more"), 1, 0, true, 0},
		{"canceled within a frame", chunksOf(added+"\n"+deleted[:90], "more"), 1, 0, true, 0},
		{"canceled within garbage", chunksOf("nul", "more"), 1, 0, true, 0},
	} {
		var want []apiwatch.Event
		for _, v := range append([]variant{stock}, variants()...) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				s := &server{served: served{chunks: tt.chunks}}
				if tt.come != never {
					s.gate = make(chan struct{}, 1+tt.come)
					for range tt.come {
						s.gate <- struct{}{}
					}
				}
				w, err := v.client(t, s, nil).Resource(things).Watch(ctx, metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for range tt.take {
					if ev, ok := <-w.ResultChan(); !ok || ev.Type == apiwatch.Error {
						t.Errorf("%s (%s): %v, %v", tt.why, v.name, ev, ok)
					}
				}
				synctest.Wait()
				const ahead, read = 128 << 10, 64 << 10 // maxAhead and maxRead
				if n := s.bodies[0].read.Load(); v.opts != nil && tt.take == 0 && n > 2*(ahead+read) {
					t.Errorf("%s (%s): %d bytes were read, although no event was received", tt.why, v.name, n)
				}
				if tt.cancel {
					cancel(errors.New("canceled by the test"))
					if got := receiveAll(w); v.opts == nil {
						want = got
					} else if d := differentEvents(v, want, got); d != "" {
						t.Errorf("%s (%s): %s", tt.why, v.name, d)
					}
				}
				var stops sync.WaitGroup
				for range 3 {
					stops.Go(w.Stop)
				}
				stops.Wait()
				// client-go's own watch may still deliver an ERROR that the body was closed.
				if events := receiveAll(w); len(events) > tt.most && v.opts != nil {
					t.Errorf("%s (%s): %d events after Stop", tt.why, v.name, len(events))
				}
				w.Stop()
				synctest.Wait()
				select {
				case <-s.bodies[0].closed:
				default:
					t.Errorf("%s (%s): the body was not closed", tt.why, v.name)
				}
			})
		}
	}
}

// Lists and watches are the same over HTTP/1 and HTTP/2, also if a connection breaks.
func TestHTTPMatchesClientGo(t *testing.T) {
	var pods [2][]byte // a list and events
	for _, r := range decodetest.ReadRecorded(t, recordings) {
		switch r.Name {
		case "pods.list.json":
			pods[0] = r.Data
		case "pods.watch.ndjson":
			pods[1] = r.Data
		}
	}
	for _, tt := range []struct{ http2, breaks bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		var want []apiwatch.Event
		for _, v := range append([]variant{stock}, variants()...) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if !r.URL.Query().Has("watch") {
					_, _ = w.Write(pods[0])
					return
				}
				for _, frame := range (decodetest.Recorded{Data: pods[1]}).Frames() {
					_, _ = w.Write(frame)
					_ = http.NewResponseController(w).Flush()
				}
				if tt.breaks {
					panic(http.ErrAbortHandler)
				}
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.EnableHTTP2 = tt.http2
			s.StartTLS()
			cfg := &rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
			if !tt.http2 {
				cfg.NextProtos = []string{"http/1.1"}
			}
			c := v.clientFor(t, cfg).Resource(things)
			if l, err := c.List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) < 5 {
				t.Errorf("%s: a list of %v: %v", v.name, l, err)
			}
			w, err := c.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := receiveAll(w); v.opts == nil {
				want = got
			} else if d := differentEvents(v, want, got); d != "" || len(want) < 13 {
				t.Errorf("%+v (%s): %s", tt, v.name, d)
			}
			w.Stop()
			s.Close()
		}
	}
}
