package gvrwatch_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// clusterOf returns the identity that a Connection asks for.
func clusterOf(ctx context.Context, cfg *rest.Config) (checkpoint.Cluster, error) {
	c, err := gvrwatch.Connect(cfg)
	if err != nil {
		return checkpoint.Cluster{}, err
	}
	return c.Cluster(ctx)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCluster(t *testing.T) {
	kubeSystem := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"1-2-3"}}`
	failure := `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":%q,"code":%d}`
	tests := []struct {
		code  int
		body  string
		uid   string
		fails func(error) bool
		why   string
	}{
		{200, kubeSystem, "1-2-3", nil, "the uid of kube-system identifies the cluster"},
		{403, fmt.Sprintf(failure, "Forbidden", 403), "", nil, "without the right to read it, the address is used"},
		{404, fmt.Sprintf(failure, "NotFound", 404), "", nil, "a server without namespaces has an address, too"},
		{401, fmt.Sprintf(failure, "Unauthorized", 401), "", apierrors.IsUnauthorized,
			"wrong credentials would fail every later request"},
		{404, "404 page not found", "", nil, "a server without the core group has an address, too"},
		{403, "<html>no</html>", "", apierrors.IsForbidden, "a gateway's page says nothing of the cluster"},
		{404, `{"error":"no backend"}`, "", apierrors.IsNotFound, "neither does JSON that is no Status"},
		{403, strings.Repeat("<p>no</p>", 200_000), "", apierrors.IsForbidden, "nor a page of 1.8 MB"},
		{404, strings.Repeat(" ", 2<<20), "", apierrors.IsNotFound, "nor two megabytes of nothing"},
		{404, "", "", apierrors.IsNotFound, "nor an answer without a body"},
		{403, strings.Replace(fmt.Sprintf(failure, "Forbidden", 403), "v1", "gateway.io/v1", 1), "",
			apierrors.IsForbidden, "nor a Status of a gateway's own API"},
		{404, fmt.Sprintf(failure, "Forbidden", 403), "", apierrors.IsNotFound, "nor a Status with another code"},
		{500, fmt.Sprintf(failure, "InternalError", 500), "", apierrors.IsInternalError,
			"a failing server must not be taken for another cluster"},
	}
	for _, tt := range tests {
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/behind/api/v1/namespaces/kube-system" {
				t.Errorf("unexpected request for %s", r.URL)
			}
			if w.Header().Set("Content-Type", "application/json"); !strings.HasPrefix(tt.body, "{") {
				w.Header().Set("Content-Type", "text/plain")
			}
			w.WriteHeader(tt.code)
			fmt.Fprint(w, tt.body)
		}))
		cfg := &rest.Config{Host: srv.URL + "/behind/"}
		cfg.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
		c, err := clusterOf(t.Context(), cfg)
		srv.Close()
		switch {
		case tt.fails != nil && (err == nil || !tt.fails(err)):
			t.Errorf("%s: got %v, %v", tt.why, c, err)
		case tt.fails == nil && (err != nil || c.UID != tt.uid ||
			!strings.HasPrefix(c.Address, srv.URL+"/behind") || !strings.Contains(c.Address, " sha256:")):
			t.Errorf("%s: got %+v, %v", tt.why, c, err)
		}
	}
	for why, cfg := range map[string]*rest.Config{
		"the host is not a URL":       {Host: "://"},
		"the password has a space":    {Host: "https://user:hunter2 @localhost"},
		"the password has a slash":    {Host: "https://user:hunter2/@localhost"},
		"the URL has a good password": {Host: "http://user:hunter2@127.0.0.1:1"},
		"the CA file is missing": {
			Host:            "https://localhost",
			TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"},
		},
		"connections are refused": {Host: "http://127.0.0.1:1"},
	} {
		_, err := clusterOf(t.Context(), cfg)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error without credentials", why, err)
		}
		if _, err := stream.NewClient(cfg, nil); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error of NewClient has credentials: %v", why, err)
		}
	}
}

func TestClusterBoundsItsRequest(t *testing.T) {
	tests := []struct {
		retryAfter string // empty: no answer
		timeout    time.Duration
		text       string
		took       time.Duration
		why        string
	}{
		{"3600", 0, "the server asks for a wait of 3600 s (429 Too Many Requests)", 0, "a wait beyond 32 s"},
		{"20", 0, "wait of 20 s", 20 * time.Second, "the second wait would end after 32 s"},
		{"3", 3 * time.Second, "wait of 3 s", 0, "a wait beyond cfg.Timeout"},
		{"", 0, "deadline exceeded", 32 * time.Second, "no answer"},
		{"", time.Minute, "deadline exceeded", time.Minute, "no answer in cfg.Timeout"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			cfg := &rest.Config{Host: "http://test", Timeout: tt.timeout}
			cfg.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
				if tt.retryAfter == "" {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return &http.Response{
					StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {tt.retryAfter}},
					Body: http.NoBody, Request: r,
				}, nil
			})
			began := time.Now()
			_, err := clusterOf(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: got %v, want %q", tt.why, err, tt.text)
			}
			if took := time.Since(began); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.why, took, tt.took)
			}
		})
	}
}
