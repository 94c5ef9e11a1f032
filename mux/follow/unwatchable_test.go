package follow_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A server may list any plural. What cannot be watched fails alone, with its cause.
func TestResourceThatCannotBeWatchedEndsNobodyElse(t *testing.T) {
	tests := []struct {
		plural            string
		fails, failsToAck bool // without and with a checkpoint
		why               string
	}{
		{"a%b", true, true, "a percent sign in a path"},
		{"..", true, true, "the path of another resource"},
		{".", true, true, "the path of the version"},
		{"a b", false, true, "a valid path, but no valid key of a checkpoint"},
		{strings.Repeat("a", 300), false, true, "too long for the key of a checkpoint"},
	}
	for _, tt := range tests {
		for _, withCheckpoint := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				bad := kindOf(tt.plural, "example.com", "v1", true)
				srv := streamtest.NewServer(bad, robots, rovers)
				srv.Put(robots, "one", "a")
				var run stream.Run
				if withCheckpoint {
					run.Checkpoint = scenario.NewTracker(t, &checkpoint.Memory{})
					defer run.Checkpoint.Close()
				}
				f := newFollower(t, srv, follow.Selection{Resources: []string{"*.example.com"}},
					&follow.Options{Source: watchedWith(stream.Options{}, run)})
				f.start(t.Context())
				time.Sleep(time.Minute)
				srv.Put(rovers, "one", "b")
				time.Sleep(10 * time.Minute)
				is := f.status(schema.GroupResource{Group: "example.com", Resource: tt.plural}.String())
				invalid := errors.As(is.Cause, new(*stream.OptionsError))
				want := follow.Watching
				if tt.fails || tt.failsToAck && withCheckpoint {
					want = follow.Failing
				}
				if is.State != want || invalid != (want == follow.Failing) {
					t.Errorf("%s: %.20s is %s: %v, want %s", tt.why, tt.plural, is.State, is.Cause, want)
				}
				got := map[string]bool{}
				for _, line := range f.take() {
					got[line] = true
				}
				for _, want := range []string{"robots.example.com ADDED one/a@2", "rovers.example.com ADDED one/b@3"} {
					if !got[want] {
						t.Errorf("%s: got %v, want %s", tt.why, got, want)
					}
				}
				if err := f.stop(); err != nil {
					t.Errorf("%s: the run ended with %v", tt.why, err)
				}
			})
		}
	}
}

// replaced is a transport that answers a path itself while a body is set.
type replaced struct {
	next http.RoundTripper
	path string
	body *atomic.Pointer[string]
}

func (r replaced) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if body := r.body.Load(); err == nil && body != nil && req.URL.Path == r.path {
		_ = resp.Body.Close()
		resp.Header.Del("ETag")
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(*body))
	}
	return resp, err
}

func TestNonsenseInDiscoveryIsNoAbsence(t *testing.T) {
	const list = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":` +
		`{"name":"example.com"},"versions":[{"version":"v1","resources":[`
	tests := []struct{ path, body, cause, why string }{
		{"/apis", `{}`, `invalid kind ""`, "an object without anything"},
		{"/apis", `null`, `invalid kind ""`, "null"},
		{"/apis", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, `invalid kind "Status"`, "a Status"},
		{"/api", `{}`, `invalid kind ""`, "the other path"},
		{"/apis", list + `{"resource":"","verbs":["list","watch"]}]}]}]}`, "resource without a name",
			"a resource without a name, which may be any"},
		{"/apis", list + `{"resource":"robots","responseKind":null,"verbs":["list","watch"]}]}]}]}`, "",
			"a resource without a kind: it is Unknown alone"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(robots)
			body := &atomic.Pointer[string]{}
			cfg := srv.Config()
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return replaced{next, tt.path, body} })
			dc, err := discovery.NewClient(cfg)
			if err != nil {
				t.Fatal(err)
			}
			f := &follower{T: t, srv: srv, began: time.Now(), ended: make(chan error, 1)}
			sel := follow.Selection{Resources: []string{"*.example.com"}}
			if f.m, err = follow.New(discovery.NewResolver(dc, 0), srv.Client(), sel, nil); err != nil {
				t.Fatal(err)
			}
			f.start(t.Context())
			f.after(time.Minute, "discovery is right", "robots.example.com SYNCED @1")
			body.Store(&tt.body)
			time.Sleep(10 * time.Minute)
			srv.Put(robots, "one", "a")
			f.after(time.Minute, tt.why, "robots.example.com ADDED one/a@2")
			st := f.m.Status()
			if got := st.Discovery; tt.cause != "" && (got == nil || !strings.Contains(got.Error(), tt.cause)) {
				t.Errorf("%s: the Status of discovery is %v, want %q", tt.why, got, tt.cause)
			}
			if is := f.status("robots.example.com"); is.State != follow.Watching || is.Incarnation != 1 {
				t.Errorf("%s: the state is %s, incarnation %d", tt.why, is.State, is.Incarnation)
			}
			body.Store(nil)
			f.after(time.Minute, "discovery is right again")
			if err := f.m.Status().Discovery; err != nil {
				t.Errorf("%s: discovery is right again, and its Status %v", tt.why, err)
			}
			if err := f.stop(); err != nil {
				t.Errorf("%s: the run ended with %v", tt.why, err)
			}
		})
	}
}

// refused is a transport that answers everything itself while it is down.
type refused struct {
	next http.RoundTripper
	code int
	body string
	down *atomic.Bool
}

func (r refused) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.down.Load() {
		return r.next.RoundTrip(req)
	}
	return &http.Response{StatusCode: r.code, Request: req, Body: io.NopCloser(strings.NewReader(r.body)),
		Header: http.Header{"Content-Type": {"application/json"}}}, nil
}

// What a gateway answers to everything is no word about types or rights, however long it is.
func TestPageOfAGatewayIsNoAbsence(t *testing.T) {
	page := strings.Repeat("<p>no</p>", 200_000)
	notFound := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	for _, tt := range []struct {
		code      int
		body, why string
	}{
		{403, page, "a page of 1.8 MB"},
		{404, page, "the same with 404"},
		{404, strings.Replace(notFound, "v1", "gateway.io/v1", 1), "a Status of the gateway's own API"},
		{403, notFound, "a Status with another code"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(robots)
			down := &atomic.Bool{}
			cfg := srv.Config()
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return refused{next, tt.code, tt.body, down} })
			dc, err := discovery.NewClient(cfg)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := stream.NewClient(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			f := &follower{T: t, srv: srv, began: time.Now(), ended: make(chan error, 1)}
			sel := follow.Selection{Resources: []string{"*.example.com"}}
			if f.m, err = follow.New(discovery.NewResolver(dc, 0), objects, sel, nil); err != nil {
				t.Fatal(err)
			}
			f.start(t.Context())
			f.after(time.Minute, "before", "robots.example.com SYNCED @1")
			down.Store(true)
			if err := srv.Do("robots close watches"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if is := f.status("robots.example.com"); is.State != follow.Watching || is.Incarnation != 1 {
				t.Errorf("%s: the state is %s (%v), incarnation %d", tt.why, is.State, is.Cause, is.Incarnation)
			}
			down.Store(false)
			srv.Put(robots, "one", "a")
			f.after(time.Minute, tt.why, "robots.example.com ADDED one/a@2")
			if err := f.stop(); err != nil {
				t.Errorf("%s: the run ended with %v", tt.why, err)
			}
		})
	}
}
