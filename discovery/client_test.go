package discovery_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
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
	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// etagServer serves the documents of an apiServer with ETags, as a kube-apiserver
// does (k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go), through a
// proxy.
type etagServer struct {
	documents *apiServer
	config    *rest.Config

	mu    sync.Mutex
	proxy proxy
	log   []string // "/apis 304"
}

// proxy is what stands between the client and the API server.
type proxy struct {
	weakETags bool
	allETags  bool        // on legacy documents, too
	noETag    string      // a path
	header    http.Header // added to each response
	gzip      bool
	truncate  bool   // send half of each body, padded so that it has changed
	status    int    // of every response, if not 0
	notFound  string // a path
}

func newETagServer(t *testing.T, p proxy, groups ...group) *etagServer {
	s := &etagServer{documents: &apiServer{groups: groups, down: map[string]bool{}}, proxy: p}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	s.config = &rest.Config{Host: hs.URL}
	return s
}

func (s *etagServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	document := httptest.NewRecorder()
	s.documents.ServeHTTP(document, r)
	code, body := document.Code, document.Body.Bytes()
	switch {
	case s.proxy.status > 0:
		code, body = s.proxy.status, nil
	case r.URL.Path == s.proxy.notFound:
		code, body = http.StatusNotFound, []byte("404 page not found\n")
	case s.proxy.truncate:
		body = append(body, "          "...)
	}
	contentType := document.Header().Get("Content-Type")
	w.Header().Set("Content-Type", contentType)
	hasETag := s.proxy.allETags || strings.Contains(contentType, "as=APIGroupDiscoveryList")
	if hasETag && r.URL.Path != s.proxy.noETag && code == http.StatusOK {
		etag := fmt.Sprintf(`"%X"`, sha256.Sum256(body))
		if r.Header.Get("If-None-Match") == etag {
			code, body = http.StatusNotModified, nil
		}
		if s.proxy.weakETags {
			etag = "W/" + etag
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "public")
	}
	maps.Copy(w.Header(), s.proxy.header)
	s.log = append(s.log, fmt.Sprintf("%s %d", r.URL.Path, code))
	if s.proxy.gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && code == http.StatusOK {
		w.Header().Set("Content-Encoding", "gzip")
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		_, _ = zw.Write(body)
		_ = zw.Close()
		body = packed.Bytes()
	}
	if s.proxy.truncate {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		body = body[:len(body)/2]
	}
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// setProxy changes the proxy between two requests.
func (s *etagServer) setProxy(p proxy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxy = p
}

// requests returns the sorted log of the requests since the last call. Legacy
// discovery sends many at once.
func (s *etagServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	slices.Sort(log)
	return log
}

func newClient(t *testing.T, cfg *rest.Config) clientdiscovery.DiscoveryInterface {
	t.Helper()
	c, err := discovery.NewClient(cfg)
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
	tests := []struct {
		proxy  proxy
		legacy bool
		second []string // requests of a poll without a change; nil: those of the first poll
		why    string
	}{
		{proxy{}, false, notModified, "an unchanged document is not sent"},
		{proxy{gzip: true}, false, notModified, "the transport undoes gzip"},
		{proxy{weakETags: true}, false, notModified, "a proxy has weakened the ETag"},
		{proxy{notFound: "/api"}, false, []string{"/api 404", "/apis 304"}, "an aggregated API server has no /api"},
		{
			proxy{header: http.Header{"Vary": {"Cookie"}}}, false, notModified,
			"whatever the response varies by, the server compares the ETag",
		},
		{proxy{header: http.Header{"Etag": nil}}, false, modified, "no ETag"},
		{proxy{noETag: "/apis"}, false, []string{"/api 304", "/apis 200"}, "an ETag on one document only"},
		{proxy{}, true, nil, "legacy discovery has no ETags"},
		{proxy{allETags: true}, true, []string{
			"/api 304", "/api/v1 200", "/apis 304", "/apis/apps/v1 200", "/apis/events.k8s.io/v1 200",
			"/apis/example.com/trial 200", "/apis/example.com/v1beta1 200", "/apis/example.com/v2 200",
			"/apis/metrics.k8s.io/v1beta1 200", "/apis/other.example.com/v1 200",
		}, "a proxy adds ETags to legacy discovery: those of lists say nothing about versions"},
	}
	for _, tt := range tests {
		s := newETagServer(t, tt.proxy, cluster()...)
		s.documents.legacy = tt.legacy
		r := discovery.NewResolver(newClient(t, s.config), -1)
		poll := func() ([]gvr.Resource, []string) {
			t.Helper()
			resources, err := r.Watchables(t.Context())
			if err != nil || len(resources) < 5 {
				t.Fatalf("%s: %v, %v", tt.why, resources, err)
			}
			return resources, s.requests()
		}
		first, firstRequests := poll()
		second, requests := poll()
		want := tt.second
		if want == nil {
			want = firstRequests
		}
		if diff := cmp.Diff(want, requests); diff != "" {
			t.Errorf("%s: requests of the second poll (-want +got):\n%s", tt.why, diff)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: the second poll (-first +second):\n%s", tt.why, diff)
		}

		s.documents.add("late")
		changed, requests := poll()
		if len(changed) != len(second)+1 {
			t.Errorf("%s: %d resources, want one more than %d", tt.why, len(changed), len(second))
		}
		if tt.second != nil && len(requests) > len(firstRequests) {
			t.Errorf("%s: requests after a change: %v, want at most as many as in the first poll", tt.why, requests)
		}
		if _, requests := poll(); tt.second != nil && cmp.Diff(tt.second, requests) != "" {
			t.Errorf("%s: requests of the poll after a change: %v", tt.why, requests)
		}
	}
}

// A failed conditional request fails its poll, and does not affect the next one.
func TestConditionalRequestFails(t *testing.T) {
	truncated := func(err error) bool { return strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) }
	tests := []struct {
		proxy proxy
		is    func(error) bool
		why   string
	}{
		{proxy{status: http.StatusInternalServerError}, apierrors.IsInternalError, "500"},
		{proxy{status: http.StatusUnauthorized}, apierrors.IsUnauthorized, "401"},
		{proxy{status: http.StatusForbidden}, apierrors.IsForbidden, "403"},
		{proxy{truncate: true}, truncated, "a truncated document"},
		{proxy{notFound: "/apis"}, apierrors.IsNotFound, "404 for all groups"},
	}
	for _, tt := range tests {
		s := newETagServer(t, proxy{}, cluster()...)
		r := discovery.NewResolver(newClient(t, s.config), -1)
		before, err := r.Watchables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.setProxy(tt.proxy)
		if _, err := r.Watchables(t.Context()); err == nil || !tt.is(err) {
			t.Errorf("%s: got %v", tt.why, err)
		}
		s.setProxy(proxy{})
		after, err := r.Watchables(t.Context())
		if err != nil {
			t.Errorf("%s: afterwards: %v", tt.why, err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: afterwards (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestOtherRequestsAreNotConditional(t *testing.T) {
	s := newETagServer(t, proxy{}, cluster()...)
	c := newClient(t, s.config)
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
		{"", "", 200, "/apis 304", "a stored document"},
		{"If-None-Match", etag, 304, "/apis 304", "a condition of the caller's own"},
		{"Range", "bytes=0-1", 200, "/apis 200", "a part of the document"},
		{"Accept", "application/json", 200, "/apis 200", "another form of the document"},
		{"Accept-Encoding", "gzip", 200, "/apis 200", "the compressed document"},
	}
	s.requests()
	for _, tt := range tests {
		if code, _ := get(tt.name, tt.value); code != tt.code {
			t.Errorf("%s: status %d, want %d", tt.why, code, tt.code)
		}
		if diff := cmp.Diff([]string{tt.log}, s.requests()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
	if _, ok := c.(clientdiscovery.AggregatedDiscoveryInterface); !ok {
		t.Error("the client does not support aggregated discovery")
	}
}

// Concurrent requests while the documents change never go back in time.
func TestConcurrentConditionalRequests(t *testing.T) {
	s := newETagServer(t, proxy{}, cluster()...)
	c := newClient(t, s.config)
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
					s.documents.add(fmt.Sprintf("late%d", i))
				}
			}
		})
	}
	wg.Wait()
	if n := count(); n != least+8 {
		t.Errorf("%d resources at the end, want %d", n, least+8)
	}
}

func TestNewClientCopiesConfig(t *testing.T) {
	s := newETagServer(t, proxy{}, cluster()...)
	before := rest.CopyConfig(s.config)
	c := newClient(t, s.config)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := discovery.NewResolver(c, -1)
	for range 500 { // client-go's own limit would be reached
		if _, err := r.Watchables(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if s.config.String() != before.String() || s.config.WrapTransport != nil || s.config.UserAgent != "" {
		t.Errorf("the configuration was changed: %v", s.config)
	}
	s.config.QPS, s.config.Burst = 0.001, 1
	limited := discovery.NewResolver(newClient(t, s.config), 0)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := limited.Watchables(short); err == nil {
		t.Error("a rate limit in the configuration was ignored")
	}
	_, err := discovery.NewClient(&rest.Config{Host: "https://user:secret @localhost"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the password", err)
	}
	contradictory := &rest.Config{Host: "http://x", BearerToken: "a", Username: "b", Password: "c"}
	if _, err := discovery.NewClient(contradictory); err == nil {
		t.Error("no error about a token beside a password")
	}
}

// client-go would read the body of a 101 until the server closes it, and send its token wherever a redirect leads.
func TestForeignAnswersAreRefusedAtOnce(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request followed the redirect: %v", r.Header)
	}))
	defer other.Close()
	for _, code := range []int{http.StatusSwitchingProtocols, http.StatusFound, http.StatusPermanentRedirect} {
		hs := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(conn, "HTTP/1.1 %d \r\nConnection: Upgrade\r\nLocation: %s\r\n\r\n", code, other.URL)
		}))
		cfg := &rest.Config{Host: hs.URL, BearerToken: "secret"}
		cfg.Insecure = true
		c, err := discovery.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = discovery.NewResolver(c, 0).Watchables(t.Context())
		if !errors.As(err, new(*guard.Error)) {
			t.Errorf("%d: %v", code, err)
		}
		hs.Close()
	}
}
