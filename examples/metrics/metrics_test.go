package metrics_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/metrics"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt")

func resource(group, plural, kind string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = group, "v1", plural
	return r
}

var (
	pods    = resource("", "pods", "Pod")
	widgets = resource("example.com", "widgets", "Widget")
	gadgets = resource("example.com", "gadgets", "Gadget")
)

func apply(t *testing.T, srv *streamtest.Server, lines ...string) {
	t.Helper()
	if err := srv.Apply(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, srv *streamtest.Server, action string) {
	t.Helper()
	if err := srv.Do(action); err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, srv *streamtest.Server) dynamic.Interface {
	t.Helper()
	client, err := stream.NewClient(srv.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newStream returns a Stream that is counted and watched.
func newStream(t *testing.T, m *metrics.Metrics, srv *streamtest.Server, r gvr.Resource, o *stream.Options,
) *stream.Stream {
	t.Helper()
	s, err := stream.New(newClient(t, srv), r, m.Instrument(r, o))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// value returns a metric, by its text: gvrwatch_synced{resource="pods"}. It is "" if there is no such metric.
func value(t *testing.T, c prometheus.Collector, metric string) string {
	t.Helper()
	for line := range strings.Lines(text(t, c)) {
		if v, ok := strings.CutPrefix(line, metric+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// text returns all metrics as Prometheus scrapes them.
func text(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&all, f); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// random matches what depends on the random waits after failures.
var random = regexp.MustCompile(`(reflector_watch_duration_seconds_sum\{resource="pods"\}|gvrwatch_last_gap\S+}) \S+`)

// TestMetricsAfterFaults: all metrics of three Streams and a followed group, after faults of every kind.
func TestMetricsAfterFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods, widgets, gadgets).WithReviews()
		defer srv.Close()
		for i := range 5 {
			srv.Put(pods, "shop", fmt.Sprint("web-", i))
		}
		srv.Put(widgets, "shop", "door")
		apply(t, srv,
			"pods page 2: 500",
			"pods watch 1: 410",
			"pods watch 2: 429 retry-after 3s",
			"change 8: garbage", // web-5
			"pods watch 7: 429 retry-after 60s")
		do(t, srv, "bookmarks never") // they would come at random moments
		m := metrics.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		paged := newStream(t, m, srv, pods, &stream.Options{
			Requests: stream.Requests{PagedLists: true, PageSize: 2, WatchLifetime: time.Minute},
		})
		m.Watch(paged)
		go drain(m.Count(paged.Events(ctx)))

		tracker, err := checkpoint.NewTracker(&checkpoint.Memory{},
			&checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		tracked := newStream(t, m, srv, widgets, &stream.Options{
			Requests: stream.Requests{PagedLists: true, WatchLifetime: time.Minute},
		}).With(stream.Run{Checkpoint: tracker})
		m.Watch(tracked)
		go drain(m.Count(tracked.Events(ctx))) // acks nothing

		followed := newFollower(t, m, srv, &mux.Options{Overflow: mux.Latest},
			"gadgets.example.com", "robots.example.com")
		m.Watch(followed)
		first := true
		slow := make(chan struct{})
		go func() {
			for range m.Count(followed.Events(ctx)) {
				if first {
					first = false
					<-slow
				}
			}
		}()
		wait(30 * time.Second)
		srv.Put(pods, "shop", "web-5")
		wait(time.Minute)
		for i := range 3 {
			srv.Put(gadgets, "shop", "lamp", fmt.Sprint("n=", i))
		}
		srv.Put(gadgets, "shop", "brief")
		if _, err := srv.Delete(gadgets, "shop", "brief"); err != nil {
			t.Fatal(err)
		}
		wait(5 * time.Second)

		got := random.ReplaceAllString(text(t, m), "$1 RANDOM")
		close(slow)
		cancel()
		if err := srv.CheckScript(); err != nil {
			t.Error(err)
		}
		const golden = "testdata/metrics.txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("(-%s +got):\n%s", golden, diff)
		}
		problems, err := testutil.CollectAndLint(m)
		if err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
		synctest.Wait()
	})
}

// TestStateOfRefusedSources: a source that a Mux starts again is not Stopped, but in the state of its error.
func TestStateOfRefusedSources(t *testing.T) {
	for _, test := range []struct {
		before, after string // actions before the run, and after SYNCED
		follow, mux   stream.State
	}{
		{"pods any *: 403", "", stream.Forbidden, stream.Forbidden},
		{"pods any *: 401", "", stream.Unauthorized, stream.Unauthorized},
		{"pods any *: 404", "", stream.Gone, stream.Gone},
		{"pods any *: 400", "", stream.Backoff, stream.Backoff},
		{"", "pods forbid all", stream.Forbidden, stream.Forbidden},
		{"", "pods delete crd", stream.Gone, stream.Gone},
	} {
		for _, follows := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(pods).WithReviews()
				defer srv.Close()
				if test.before != "" {
					apply(t, srv, test.before)
				}
				m := metrics.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				want := test.mux
				if follows {
					want = test.follow
					x := newFollower(t, m, srv, nil, "pods")
					m.Watch(x)
					go drain(m.Count(x.Events(ctx)))
				} else {
					x, err := mux.New(&mux.Options{OnError: func(string, error) mux.Decision { return mux.Retry }},
						newStream(t, m, srv, pods,
							&stream.Options{Requests: stream.Requests{WatchLifetime: time.Minute}}))
					if err != nil {
						t.Fatal(err)
					}
					m.Watch(x)
					go drain(m.Count(x.Events(ctx)))
				}
				wait(10 * time.Second)
				if test.after != "" {
					do(t, srv, test.after)
					wait(3 * time.Minute)
				}
				for _, state := range []stream.State{stream.Stopped, want} {
					got := value(t, m, fmt.Sprintf(`gvrwatch_state{resource="pods",state=%q}`, state))
					if (got == "1") != (state == want) {
						t.Errorf("%+v, follow %v: %s is %q\n%s", test, follows, state, got, get(m.Readyz()))
					}
				}
				if got := get(m.Healthz(0)); got != "200 live\n" {
					t.Errorf("%+v, follow %v: a source that is tried again is alive: %s", test, follows, got)
				}
				cancel()
				synctest.Wait()
				if got := value(t, m, `gvrwatch_state{resource="pods",state="Stopped"}`); got != "1" {
					t.Errorf("%+v, follow %v: Stopped is %q after the end of the run", test, follows, got)
				}
			})
		}
	}
}

// TestFinalErrorOfAFollower: an error that ends the run of a follow.Mux is not alive.
func TestFinalErrorOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods).WithReviews()
		defer srv.Close()
		apply(t, srv, "pods any *: 503")
		m := metrics.New()
		x := newFollower(t, m, srv, nil, "pods")
		m.Watch(x)
		done := make(chan struct{})
		go func() {
			drain(m.Count(x.Events(t.Context())))
			close(done)
		}()
		<-done
		if got := value(t, m, `gvrwatch_state{resource="pods",state="Stopped"}`); got != "1" {
			t.Errorf("Stopped is %q", got)
		}
		if got := get(m.Healthz(0)); !strings.HasPrefix(got, "503 ") {
			t.Error(got)
		}
	})
}

// newFollower returns a Mux that follows pods, and is counted.
func newFollower(
	t *testing.T, m *metrics.Metrics, srv *streamtest.Server, o *mux.Options, names ...string,
) *follow.Mux {
	t.Helper()
	discoveryClient, err := discovery.NewClient(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	requests := stream.Requests{WatchLifetime: time.Minute, GiveUpAfter: 20 * time.Minute}
	options := &follow.Options{Source: func(r gvr.Resource) (stream.Options, stream.Run) {
		return *m.Instrument(r, &stream.Options{Requests: requests}), stream.Run{}
	}}
	if o != nil {
		options.Mux = *o
	}
	resolver := discovery.NewResolver(discoveryClient, 0)
	x, err := follow.New(resolver, newClient(t, srv), follow.Selection{Resources: names}, options)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func drain(seq func(func(stream.Event, error) bool)) {
	for range seq {
	}
}

// wait lets time pass in the bubble, where it takes none.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
