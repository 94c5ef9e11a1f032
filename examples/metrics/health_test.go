package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/metrics"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// get returns the answer of a handler, as "200 text".
func get(h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return fmt.Sprint(w.Code, " ", w.Body.String())
}

func TestHealthOfAStream(t *testing.T) {
	paged := stream.Requests{PagedLists: true}
	for _, test := range []struct {
		why, script string
		requests    stream.Requests
		until       stream.End
		ready, live string
	}{
		{"synced", "", stream.Requests{}, "", "200 ready\n", "200 live\n"},
		{
			"before SYNCED", "list *: hang", paged, "",
			"503 not ready\npods: Listing for 1m0s\n", "200 live\n",
		},
		{
			"failures that are retried: a restart would not help", "list *: 429 retry-after 600s",
			paged, "",
			"503 not ready\npods: Backoff for 1m0s, failures: 1, throttled\n", "200 live\n",
		},
		{
			"an error that ends the run", "list *: 403", paged, "",
			"503 not ready\npods: Stopped for 1m0s, forbidden\n", "503 not live\npods: Stopped for 1m0s, forbidden\n",
		},
		{"a run that is over", "", stream.Requests{}, stream.UntilSynced, "200 ready\n", "200 live\n"},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(pods)
				defer srv.Close()
				apply(t, srv, test.script)
				m := metrics.New()
				ctx, cancel := context.WithCancel(t.Context())
				s := newStream(t, m, srv, pods, &stream.Options{Requests: test.requests}).
					With(stream.Run{Until: test.until})
				remove := m.Watch(s)
				go drain(s.Events(ctx))
				wait(time.Minute)
				got := []string{get(m.Readyz()), get(m.Healthz(time.Minute))}
				if diff := cmp.Diff([]string{test.ready, test.live}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				cancel()
				synctest.Wait()
				if got := get(m.Healthz(time.Minute)); test.live == "200 live\n" && got != test.live {
					t.Errorf("after the end of the context: %s", got)
				}
				remove()
				if got, want := get(m.Readyz()), "503 not ready\nno source\n"; got != want {
					t.Errorf("without a source: want %q, got %q", want, got)
				}
			})
		})
	}
}

// failing is a mux.Source that fails as soon as it starts.
type failing string

func (f failing) Key() string { return string(f) }

func (f failing) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) { yield(stream.Event{}, errors.New("secret")) }
}

func TestHealthOfAMux(t *testing.T) {
	for _, test := range []struct {
		why      string
		decision mux.Decision
		live     string
	}{
		{"a failed source ends the run", mux.Fail, "503 not live\n\\x1b[31m\\u202e: Stopped, failed\n"},
		{"a source that is retried is alive", mux.Retry, "200 live\n"},
		{"a source that was dropped is gone", mux.Drop, "200 live\n"},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := metrics.New()
				x, err := mux.New(&mux.Options{OnError: func(string, error) mux.Decision { return test.decision }},
					failing("\x1b[31m\u202e"))
				if err != nil {
					t.Fatal(err)
				}
				m.Watch(x)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go drain(x.Events(ctx))
				synctest.Wait()
				if diff := cmp.Diff(test.live, get(m.Healthz(time.Minute))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				got := get(m.Readyz())
				if !strings.HasPrefix(got, "503 not ready\n") || strings.Contains(got, "secret") {
					t.Error(got)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestStuckLoopIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods)
		defer srv.Close()
		m := metrics.New()
		s := newStream(t, m, srv, pods, nil)
		m.Watch(s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stuck := make(chan struct{})
		go func() {
			for range m.Count(s.Events(ctx)) {
				<-stuck
			}
		}()
		wait(2 * time.Minute)
		want := "503 not live\nthe loop body: 2m0s for one event\n"
		if diff := cmp.Diff(want, get(m.Healthz(time.Minute))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := get(m.Healthz(0)); got != "200 live\n" {
			t.Errorf("without a limit: %s", got)
		}
		if got := value(t, m, "gvrwatch_loop_busy_seconds"); got != "120" {
			t.Errorf("busy for %s s, want 120", got)
		}
		close(stuck)
		synctest.Wait()
		if got := get(m.Healthz(time.Minute)); got != "200 live\n" {
			t.Errorf("after the event: %s", got)
		}
		cancel()
		synctest.Wait()
		if got := value(t, m, "gvrwatch_loop_busy_seconds"); got != "" {
			t.Errorf("busy for %q s after the loop has ended, want none", got)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	m := metrics.New()
	x, err := mux.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := x.Add(failing(fmt.Sprintf("%03d%s", i, strings.Repeat("x", 1000))), nil); err != nil {
			t.Fatal(err)
		}
	}
	m.Watch(x)
	got := get(m.Readyz())
	lines, end := strings.Count(got, "\n"), got[max(0, len(got)-50):]
	if lines != 102 || !strings.HasSuffix(end, "\nand 400 more\n") || len(got) > 40_000 {
		t.Errorf("%d lines, %d bytes, want 102 and at most 40,000: %s", lines, len(got), end)
	}
}
