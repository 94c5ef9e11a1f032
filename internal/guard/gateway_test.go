package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

const statusOf403 = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`

// answers are refusals, and whether each is a gateway's.
var answers = []struct {
	code              int
	contentType, body string
	gateway           bool
	why               string
}{
	{403, "application/json", statusOf403, false, "a Status"},
	{404, "text/plain; charset=utf-8", "404 page not found\n", false, "a path that a kube-apiserver doesn't have"},
	{403, "text/plain; charset=utf-8", "404 page not found\n", true, "that text with another code"},
	{404, "text/html", "<html>404 page not found</html>", true, "a page that has that text"},
	{403, "text/html", "<html>no</html>", true, "a page"},
	{400, "application/json", `{"error":"bad request"}`, true, "JSON without a kind"},
	{403, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, true, "a Status of a success"},
	{404, "application/json", `{"kind":"ErrorResponse","apiVersion":"v1"}`, true, "another kind"},
	{422, "application/json", ``, true, "no body"},
	{410, "application/json", `null`, true, "null"},
	{400, "application/json", statusOf403[:40], true, "a Status that is cut off"},
}

// TestIsGateway: client-go makes the same kind of error of a Status as of what a gateway answers.
func TestIsGateway(t *testing.T) {
	for _, tt := range answers {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", tt.contentType)
			w.WriteHeader(tt.code)
			_, _ = io.WriteString(w, tt.body)
		}))
		c := dynamic.NewForConfigOrDie(&rest.Config{Host: srv.URL}).Resource(schema.GroupVersionResource{
			Version: "v1", Resource: "pods"})
		_, list := c.List(t.Context(), metav1.ListOptions{})
		_, watch := c.Watch(t.Context(), metav1.ListOptions{})
		for verb, err := range map[string]error{"list": list, "watch": watch} {
			for _, err := range []error{err, guard.Redact(err), fmt.Errorf("cannot: %w", guard.Redact(err))} {
				if err == nil || guard.IsGateway(err) != tt.gateway {
					t.Errorf("%s, %s: of a gateway: %v, want %v: %v", tt.why, verb, !tt.gateway, tt.gateway, err)
				}
			}
		}
		srv.Close()
	}
	for why, err := range map[string]error{
		"no error": nil, "no answer": errors.New("connection refused"),
		"a page with 503": apierrors.NewGenericServerResponse(
			503, "GET", schema.GroupResource{}, "", "<html>", 0, true),
		"an error frame": apierrors.NewResourceExpired("too old"),
	} {
		if guard.IsGateway(err) {
			t.Errorf("%s: %v counts as a gateway's refusal", why, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRefuseGateways: what passes is read by client-go as it was sent.
func TestRefuseGateways(t *testing.T) {
	for _, tt := range answers {
		next := roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.WriteHeader(tt.code)
			_, _ = w.WriteString(tt.body)
			return w.Result(), nil
		})
		resp, err := guard.RefuseGateways(next).RoundTrip(httptest.NewRequest("GET", "/apis", nil))
		if tt.gateway != guard.IsGateway(err) || (err == nil) != (resp != nil) {
			t.Errorf("%s: got %v, want a gateway's refusal: %v", tt.why, err, tt.gateway)
		}
		if resp == nil {
			continue
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != tt.body {
			t.Errorf("%s: the body is %q, %v", tt.why, body, err)
		}
	}
}

// TestIndexIsNotFound: an API server that is not a kube-apiserver answers with the paths that it has.
func TestIndexIsNotFound(t *testing.T) {
	for body, want := range map[string]bool{
		`{"paths":["/apis","/healthz"]}`:         true,
		`{"paths":[]}`:                           false,
		`{"paths":["no path"]}`:                  false,
		`{"message":"no Route matched"}`:         false,
		`{"paths":["/apis"],"message":"no Route`: false,
	} {
		next := roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.WriteHeader(404)
			_, _ = w.WriteString(body)
			return w.Result(), nil
		})
		r := httptest.NewRequest("GET", "/api/v1/namespaces/kube-system", nil)
		resp, err := guard.RefuseGateways(next).RoundTrip(r)
		if (err == nil) != want || guard.IsGateway(err) == want {
			t.Errorf("%s: got %v, want an answer of an API server: %v", body, err, want)
		}
		if err != nil {
			continue
		}
		var s metav1.Status
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil || s.Kind != "Status" || s.Code != 404 {
			t.Errorf("%s: got %+v, %v; want a Status", body, s, err)
		}
	}
}

// TestDocumentThatWasServed: a server that has had a document has it still. A gateway that is written in Go answers
// with the text of http.NotFound, too.
func TestDocumentThatWasServed(t *testing.T) {
	for _, path := range []string{"/api", "/apis", "/behind/api", "/behind/apis/"} {
		code := 404
		refuses := guard.RefuseGateways(roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if http.Error(w, "404 page not found", code); code == 200 {
				w.Header().Set("Content-Type", "application/json")
			}
			return w.Result(), nil
		}))
		for i, want := range []struct {
			code    int
			refused bool
		}{{404, false}, {200, false}, {404, true}, {200, false}} {
			code = want.code
			_, err := refuses.RoundTrip(httptest.NewRequest("GET", path, nil))
			if guard.IsGateway(err) != want.refused {
				t.Errorf("%s: answer %d (%d) leads to %v", path, i+1, code, err)
			}
			if err != nil && path == "/api" && apierrors.IsNotFound(err) {
				t.Errorf("client-go takes %v for a server without a core group", err)
			}
		}
	}
}

// TestInsist: what may change soon is tried three times, within 0.6 s.
func TestInsist(t *testing.T) {
	gateway := apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{}, "", "<html>", 0, true)
	unauthorized := apierrors.NewUnauthorized("who are you")
	for _, tt := range []struct {
		errs  []error // of the tries, the last one of all that follow
		tries int
		why   string
	}{
		{[]error{nil}, 1, "a success"},
		{[]error{unauthorized, nil}, 2, "the credentials are renewed"},
		{[]error{unauthorized, unauthorized, nil}, 3, "later"},
		{[]error{unauthorized}, 3, "never"},
		{[]error{gateway, unauthorized, gateway, nil}, 3, "both, too often"},
		{[]error{apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))}, 1, "the server's own word"},
		{[]error{apierrors.NewServiceUnavailable("down")}, 1, "a server that is down"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, tries := time.Now(), 0
			err := guard.Insist(t.Context(), func() error {
				tries++
				return tt.errs[min(tries, len(tt.errs))-1]
			})
			if want := tt.errs[min(tries, len(tt.errs))-1]; tries != tt.tries || err != want {
				t.Errorf("%s: %d tries, %v, want %d and %v", tt.why, tries, err, tt.tries, want)
			}
			if took := time.Since(began); took > 600*time.Millisecond {
				t.Errorf("%s: it took %v", tt.why, took)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := guard.Insist(ctx, func() error { cancel(); return unauthorized })
	if err != unauthorized {
		t.Errorf("after the end of ctx: %v, want the last error", err)
	}
}
