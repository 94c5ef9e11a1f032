package client_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

func TestTimeoutAppliesToAllButWatches(t *testing.T) {
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			s := &server{served: served{chunks: chunksOf(thing), gate: make(chan struct{})}}
			c := variants()[0].clientFor(t, &rest.Config{Host: "http://server.test", Transport: s,
				Timeout: time.Second})
			began := time.Now()
			var o outcome
			call(t.Context(), c, &o)
			if took := time.Since(began); o.err == nil || took != time.Second && len(s.asked) > 0 {
				t.Errorf("%s: %v after %v", name, o.err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &server{served: served{chunks: chunksOf(added), gate: make(chan struct{})}}
		cfg := &rest.Config{Host: "http://server.test", Transport: s, Timeout: time.Second}
		c := variants()[0].clientFor(t, cfg)
		if cfg.Timeout != time.Second {
			t.Error("the caller's config was changed")
		}
		w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s.gate <- struct{}{}
		if ev := <-w.ResultChan(); ev.Type != apiwatch.Added {
			t.Errorf("got %v, want an event", ev)
		}
		w.Stop()
	})
}

// refusesWatches answers every other watch with 429. So client-go sends it again, and counts only the second request
// against the rate limit.
type refusesWatches struct {
	http.RoundTripper
	watches int
}

func (r *refusesWatches) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("watch") != "" {
		if r.watches++; r.watches%2 == 1 {
			resp, err := respond(http.StatusTooManyRequests, http.NoBody)
			resp.Header.Set("Retry-After", "1")
			return resp, err
		}
	}
	return r.RoundTripper.RoundTrip(req)
}

// Watches share the limit with all other requests. Without a limit in the config there is none, unlike client-go's.
func TestRequestsShareOneRateLimit(t *testing.T) {
	limiter := func() flowcontrol.RateLimiter { return flowcontrol.NewTokenBucketRateLimiter(0.1, 3) }
	for _, limit := range []rest.Config{
		{QPS: 0.1, Burst: 2}, {QPS: 0.1}, {QPS: -1}, {RateLimiter: limiter()}, {}, {Burst: 2},
	} {
		var took [2]time.Duration
		for i, v := range []variant{stock, variants()[0]} {
			synctest.Test(t, func(t *testing.T) {
				cfg := limit
				cfg.Host = "http://server.test"
				if cfg.RateLimiter != nil {
					cfg.RateLimiter = limiter() // in the bubble
				} else if v.opts == nil && cfg.QPS == 0 {
					cfg.QPS = -1
				}
				s := &server{served: served{chunks: chunksOf(listOf(0, thing))}}
				cfg.Transport = &refusesWatches{RoundTripper: s}
				c := v.clientFor(t, &cfg)
				began := time.Now()
				var o outcome
				for range 10 {
					for range 5 {
						lists(context.Background(), c, &o)
					}
					w, err := c.Resource(things).Namespace("ns").Watch(t.Context(), metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					w.Stop()
				}
				took[i] = time.Since(began)
			})
		}
		if d := took[1] - took[0]; d.Abs() > time.Millisecond {
			t.Errorf("QPS %v, Burst %d: seventy requests took %v, and %v with client-go's", limit.QPS, limit.Burst,
				took[1], took[0])
		}
	}
}

func TestServersAreAskedToDropManagedFields(t *testing.T) {
	const want = "application/json;drop=metadata.managedFields,application/json"
	for _, v := range variants() {
		var got []string
		c := v.client(t, transportFunc(func(r *http.Request) (*http.Response, error) {
			got = append(got, r.Header.Get("Accept"))
			return respond(http.StatusOK, http.NoBody)
		}), nil).Resource(things)
		_, _ = c.List(t.Context(), metav1.ListOptions{})
		if w, err := c.Watch(t.Context(), metav1.ListOptions{}); err == nil {
			w.Stop()
		}
		for _, accept := range got {
			if (accept == want) != v.opts.DropManagedFields || len(got) != 2 {
				t.Errorf("%s: %d requests accept %q", v.name, len(got), accept)
			}
		}
	}
}
