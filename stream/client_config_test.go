package stream_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestTimeout: that of the config is for everything but watches.
func TestTimeout(t *testing.T) {
	for name, call := range calls() {
		synctest.Test(t, func(t *testing.T) {
			s := &server{served: served{chunks: chunksOf(thing), gate: make(chan struct{})}}
			c, err := stream.NewClient(&rest.Config{Host: "http://server.test", Transport: s, Timeout: time.Second}, nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var o outcome
			call(t.Context(), c, &o)
			if took := time.Since(began); o.err == nil || took != time.Second && len(s.asked) > 0 {
				t.Errorf("%s: %v after %v", name, o.err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c, err := stream.NewClient(&rest.Config{Host: "http://server.test", Transport: &server{served: served{chunks: chunksOf(added), gate: gate}}, Timeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		gate <- struct{}{}
		if _, ok := <-w.ResultChan(); !ok {
			t.Error("the watch has ended")
		}
		w.Stop()
	})
}

// refusesWatches answers every other watch with 429, so that it is tried again, which
// client-go limits. (The first time it does not.)
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

// TestRateLimit: watches share the limit of everything else.
func TestRateLimit(t *testing.T) {
	took := func(newClient func(*rest.Config) (dynamic.Interface, error)) (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c, err := newClient(&rest.Config{Host: "http://server.test", Transport: &refusesWatches{RoundTripper: &server{served: served{chunks: chunksOf(listOf(0, thing))}}}, QPS: 0.1, Burst: 2})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var o outcome
			for range 3 {
				lists(context.Background(), c, &o)
				w, err := c.Resource(things).Namespace("ns").Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				w.Stop()
			}
			d = time.Since(began)
		})
		return d
	}
	want := took(func(c *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(c) })
	got := took(func(c *rest.Config) (dynamic.Interface, error) { return stream.NewClient(c, nil) })
	if d := got - want; d.Abs() > time.Millisecond {
		t.Errorf("nine requests took %v, and %v with client-go's", got, want)
	}
}
