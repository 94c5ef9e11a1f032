package stream_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// A quiet watch is read in the goroutine of the loop. While a lot arrives, another goroutine reads ahead. It ends after
// the first Read that had to wait.
func TestQuietWatchHasNoGoroutine(t *testing.T) {
	send := make(chan int)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprint(w, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"1"},`+
				`"items":[]}`)
			return
		}
		w.(http.Flusher).Flush()
		for rv := 2; ; {
			select {
			case n := <-send:
				for range n {
					fmt.Fprintf(w, `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Widget",`+
						`"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"%d"},"spec":"%s"}}`+"\n",
						rv, strings.Repeat("x", 2000))
					rv++
				}
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer srv.Close()
	client, err := stream.NewClient(&rest.Config{Host: srv.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(t, client, &stream.Options{PagedLists: true})
	idle := func() bool { // reports whether the goroutine that reads ahead has ended
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
			var all bytes.Buffer
			if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(all.String(), "client.(*pipe).fill") {
				return true
			}
		}
		return false
	}
	bursts, rest, last := []int{1, 300, 1, 300, 1, 1}, 0, 0
	var got, want []string
	for rv := 2; rv < 606; rv++ {
		want = append(want, fmt.Sprint("MODIFIED n/a@", rv))
	}
	for ev, err := range s.Events(anHour(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.HasObject() {
			got = append(got, ev.String())
			rest--
		}
		if rest > 0 {
			continue
		}
		if len(bursts) == 0 {
			break
		}
		quiet := rest == 0 && last == 1
		n := bursts[0]
		rest, last, bursts = n, n, bursts[1:]
		go func() {
			if quiet && !idle() {
				t.Error("a goroutine reads a quiet watch")
			}
			time.Sleep(50 * time.Millisecond) // the next Read has to wait
			send <- n
		}()
	}
	want[0] = "ADDED n/a@2"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
