package stream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/stream"
)

// refusals are answers that no Kubernetes API server gives. Each redirects to another server, or hangs.
var refusals = []struct {
	name   string
	answer func(w http.ResponseWriter, other, withoutTLS string)
}{
	{"101", func(w http.ResponseWriter, _, _ string) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
	}},
	{"redirect to another host", func(w http.ResponseWriter, other, _ string) {
		w.Header().Set("Location", other)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}},
	{"redirect without TLS", func(w http.ResponseWriter, _, withoutTLS string) {
		w.Header().Set("Location", withoutTLS)
		w.WriteHeader(http.StatusMovedPermanently)
	}},
}

// TestForeignAnswersAreRefusedAtOnce: client-go reads the body of a 101 until the server closes it, and sends its token
// wherever a redirect leads.
func TestForeignAnswersAreRefusedAtOnce(t *testing.T) {
	for _, refusal := range refusals {
		for _, refused := range []string{"list", "watch initial", "watch 5", "probe", "get"} {
			var redirected atomic.Int32
			count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) })
			other, withoutTLS := httptest.NewTLSServer(count), httptest.NewServer(count)
			srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch got := describe(r); {
				case got == refused, refused == "get":
					refusal.answer(w, other.URL, withoutTLS.URL)
				case strings.HasPrefix(got, "watch"): // is closed at once, so a probe follows
				default:
					resp, _ := list("5", "")(r)
					_, _ = io.Copy(w, resp.Body)
				}
			}))
			cfg := &rest.Config{Host: srv.URL, BearerToken: "hunter2"}
			cfg.Insecure = true
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errTimeUp)
			var err error
			if refused == "get" {
				var c *gvrwatch.Connection
				if c, err = gvrwatch.Connect(cfg); err == nil {
					_, err = c.Cluster(ctx)
				}
			} else {
				err = errorOfRun(ctx, t, cfg, refused)
			}
			if !errors.As(err, new(*guard.Error)) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s to %s: %v", refusal.name, refused, err)
			}
			if n := redirected.Load(); n > 0 {
				t.Errorf("%s to %s: %d requests followed the redirect", refusal.name, refused, n)
			}
			cancel()
			srv.Close()
			other.Close()
			withoutTLS.Close()
		}
	}
}

// errorOfRun returns the error of a run, or of its first failed probe.
func errorOfRun(ctx context.Context, t *testing.T, cfg *rest.Config, refused string) error {
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := streamOf(t, client, widgets(),
		&setup{Options: stream.Options{Trace: &stream.Trace{RequestDone: func(r stream.Request) {
			if r.Verb == "probe" && r.Err != nil {
				cancel(r.Err)
			}
		}}, Requests: stream.Requests{PagedLists: refused != "watch initial"}}})
	for _, err = range s.Events(ctx) {
	}
	if !errors.As(err, new(*stream.RequestError)) {
		t.Errorf("%s: the run ends with %v", refused, err)
	}
	return err
}
