package discovery_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// taggingServer serves what an apiServer does, with ETags as a kube-apiserver has
// them (k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go).
type taggingServer struct {
	docs   *apiServer
	config *rest.Config

	mu      sync.Mutex
	weak    bool
	gzip    bool
	header  http.Header // added to each answer
	pad     int         // bytes of white space behind each document
	cut     bool        // answers end in the middle
	missing string      // a path that is not served
	bare    string      // a path without ETag
	tagAll  bool        // legacy discovery has ETags, too
	broken  int         // a status for everything
	log     []string    // "/apis 304"
	sent    int         // bytes of bodies
}

func newTaggingServer(t testing.TB, groups ...group) *taggingServer {
	s := &taggingServer{docs: &apiServer{groups: groups, down: map[string]bool{}}, header: http.Header{}}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	s.config = &rest.Config{Host: hs.URL}
	return s
}

func (s *taggingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := httptest.NewRecorder()
	s.docs.ServeHTTP(answer, r)
	body := append(answer.Body.Bytes(), bytes.Repeat([]byte(" "), s.pad)...)
	code := answer.Code
	switch {
	case s.broken > 0:
		code, body = s.broken, nil
	case r.URL.Path == s.missing:
		code, body = http.StatusNotFound, nil
	}
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	aggregated := strings.Contains(w.Header().Get("Content-Type"), "as=APIGroupDiscoveryList")
	if (aggregated || s.tagAll) && r.URL.Path != s.bare && code == http.StatusOK {
		etag := fmt.Sprintf(`"%X"`, sha256.Sum256(body))
		if r.Header.Get("If-None-Match") == etag {
			code, body = http.StatusNotModified, nil
		}
		if s.weak {
			etag = "W/" + etag
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "public")
	}
	for name, values := range s.header {
		w.Header()[name] = values
	}
	s.log = append(s.log, fmt.Sprintf("%s %d", r.URL.Path, code))
	if s.gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && code == http.StatusOK {
		w.Header().Set("Content-Encoding", "gzip")
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		_, _ = zw.Write(body)
		_ = zw.Close()
		body = packed.Bytes()
	}
	if s.cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		body = body[:len(body)/2]
	}
	w.WriteHeader(code)
	_, _ = w.Write(body)
	s.sent += len(body)
}

// change runs f while no request is served, and returns what was asked since.
func (s *taggingServer) change(f func()) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	log := s.log
	s.log = nil
	return log
}

func (s *taggingServer) client(t testing.TB) clientdiscovery.DiscoveryInterface {
	c, err := discovery.NewClient(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	modified    = []string{"/api 200", "/apis 200"}
	notModified = []string{"/api 304", "/apis 304"}
)

func TestConditionalRequests(t *testing.T) {
	nothing := func(*taggingServer) {}
	tests := []struct {
		server func(*taggingServer)
		second []string // requests of the second look; of the first, if not set
		why    string
	}{
		{nothing, notModified, "unchanged: not sent"},
		{func(s *taggingServer) { s.gzip = true }, notModified, "the transport undoes gzip"},
		{func(s *taggingServer) { s.weak = true }, notModified, "a proxy has made the ETag a weak one"},
		{func(s *taggingServer) { s.missing = "/api" }, []string{"/api 404", "/apis 304"}, "an aggregated API server has no /api"},
		{func(s *taggingServer) { s.header.Set("Vary", "Cookie") }, notModified, "whatever it varies by, the server says whether it has changed"},
		{func(s *taggingServer) { s.header["Etag"] = nil }, modified, "no ETag"},
		{func(s *taggingServer) { s.bare = "/apis" }, []string{"/api 304", "/apis 200"}, "half an answer is none"},
		{func(s *taggingServer) { s.docs.legacy = true }, nil, "legacy discovery has no ETags"},
		{func(s *taggingServer) { s.docs.legacy, s.tagAll = true, true }, []string{
			"/api 304", "/api/v1 200", "/apis 304", "/apis/apps/v1 200", "/apis/events.k8s.io/v1 200", "/apis/example.com/trial 200", "/apis/example.com/v1beta1 200",
			"/apis/example.com/v2 200", "/apis/metrics.k8s.io/v1beta1 200", "/apis/other.example.com/v1 200",
		}, "where a proxy adds them, they say nothing of the documents of the versions"},
	}
	for _, tt := range tests {
		s := newTaggingServer(t, cluster()...)
		tt.server(s)
		r := discovery.NewResolver(s.client(t), &discovery.Options{CacheFor: -1})
		look := func() []gvr.Resource {
			t.Helper()
			all, err := r.Watchables(t.Context())
			if err != nil || len(all) < 5 {
				t.Fatalf("%s: %v, %v", tt.why, all, err)
			}
			return all
		}
		one := look()
		first := s.change(func() {})
		two := look()
		want := tt.second
		if want == nil {
			want = first
			slices.Sort(want) // legacy discovery reads many at once
		}
		got := s.change(func() {})
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the second look (-want +got):\n%s", tt.why, diff)
		}
		if diff := cmp.Diff(one, two); diff != "" {
			t.Errorf("%s: another answer (-want +got):\n%s", tt.why, diff)
		}
		// Now something changes, and then it does not.
		s.docs.add("late")
		if three := look(); len(three) != len(two)+1 {
			t.Errorf("%s: %d resources, want one more than %d", tt.why, len(three), len(two))
		}
		most := len(first)
		if s.missing != "" {
			most++ // what is not there has no ETag: it is asked for twice
		}
		if n := len(s.change(func() {})); n > most && tt.second != nil {
			t.Errorf("%s: %d requests for what has changed, want %d", tt.why, n, most)
		}
		_ = look()
		got = s.change(func() {})
		slices.Sort(got)
		if tt.second != nil && cmp.Diff(tt.second, got) != "" {
			t.Errorf("%s: after the change: %v", tt.why, got)
		}
	}
}

// What goes wrong with a conditional request is what the look says, and is over
// with it.
func TestConditionalTrouble(t *testing.T) {
	tests := []struct {
		trouble func(*taggingServer)
		is      func(error) bool
		why     string
	}{
		{func(s *taggingServer) { s.broken = http.StatusInternalServerError }, apierrors.IsInternalError, "500"},
		{func(s *taggingServer) { s.broken = http.StatusUnauthorized }, apierrors.IsUnauthorized, "401"},
		{func(s *taggingServer) { s.broken = http.StatusForbidden }, apierrors.IsForbidden, "403"},
		{func(s *taggingServer) { s.cut, s.pad = true, 10 }, func(err error) bool { return strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) }, "cut off"},
		{func(s *taggingServer) { s.missing = "/apis" }, apierrors.IsNotFound, "404 for all groups: what kind of server is that"},
	}
	for _, tt := range tests {
		s := newTaggingServer(t, cluster()...)
		r := discovery.NewResolver(s.client(t), &discovery.Options{CacheFor: -1})
		before, err := r.Watchables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.change(func() { tt.trouble(s) })
		if _, err := r.Watchables(t.Context()); err == nil || !tt.is(err) {
			t.Errorf("%s: got %v", tt.why, err)
		}
		s.change(func() { s.cut, s.broken, s.missing, s.pad = false, 0, "", 0 })
		after, err := r.Watchables(t.Context())
		if err != nil {
			t.Errorf("%s: afterwards: %v", tt.why, err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: afterwards (-want +got):\n%s", tt.why, diff)
		}
	}
}

// What others ask for on the same client is not touched.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	s := newTaggingServer(t, cluster()...)
	c := s.client(t)
	get := func(name, value string) (int, string) {
		t.Helper()
		r := c.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", clientdiscovery.AcceptV2)
		if name != "" {
			r.SetHeader(name, value)
		}
		code := 0
		body, _ := r.Do(t.Context()).StatusCode(&code).Raw()
		return code, string(body)
	}
	code, body := get("", "")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	etag := fmt.Sprintf(`"%X"`, sha256.Sum256([]byte(body)))
	tests := []struct {
		name, value string
		code        int
		log         string
		why         string
	}{
		{"", "", 200, "/apis 304", "this one is remembered"},
		{"If-None-Match", etag, 304, "/apis 304", "whoever asks for a 304 gets it"},
		{"Range", "bytes=0-1", 200, "/apis 200", "half of it is not it"},
		{"Accept", "application/json", 200, "/apis 200", "another form"},
		{"Accept-Encoding", "gzip", 200, "/apis 200", "compressed is not what is remembered"},
	}
	s.change(func() {})
	for _, tt := range tests {
		if code, _ := get(tt.name, tt.value); code != tt.code {
			t.Errorf("%s: status %d, want %d", tt.why, code, tt.code)
		}
		if diff := cmp.Diff([]string{tt.log}, s.change(func() {})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
	if _, ok := c.(clientdiscovery.AggregatedDiscoveryInterface); !ok {
		t.Error("aggregated discovery is lost")
	}
}

// Many at once, while the documents change: each answer is one that was served.
func TestConditionalRequestsAtOnce(t *testing.T) {
	s := newTaggingServer(t, cluster()...)
	c := s.client(t)
	var wg sync.WaitGroup
	count := func() int {
		_, lists, err := c.ServerGroupsAndResources()
		if err != nil {
			t.Error(err)
		}
		n := 0
		for _, l := range lists {
			n += len(l.APIResources)
		}
		return n
	}
	least := count()
	for i := range 8 {
		wg.Go(func() {
			last := least
			for j := range 20 {
				n := count()
				if n < last || n > least+8 {
					t.Errorf("%d resources after %d", n, last)
				}
				last = n
				if j == 10 {
					s.docs.add(fmt.Sprintf("late%d", i))
				}
			}
		})
	}
	wg.Wait()
	if n := count(); n != least+8 {
		t.Errorf("%d resources at the end, want %d", n, least+8)
	}
}

// The configuration is copied, and its rate limit is not the client's.
func TestNewClientConfig(t *testing.T) {
	s := newTaggingServer(t, cluster()...)
	s.config.QPS, s.config.Burst = 0.001, 1
	before := rest.CopyConfig(s.config)
	c := s.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := discovery.NewResolver(c, &discovery.Options{CacheFor: -1})
	for range 5 {
		if _, err := r.Watchables(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if s.config.String() != before.String() || s.config.WrapTransport != nil || s.config.UserAgent != "" {
		t.Errorf("the configuration was changed: %v", s.config)
	}
	if _, err := discovery.NewClient(&rest.Config{Host: "http://x", BearerToken: "a", Username: "b", Password: "c"}); err == nil {
		t.Error("a configuration that contradicts itself")
	}
}
