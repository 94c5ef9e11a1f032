package guard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

const (
	statusOf403 = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
		`"message":"jane cannot get path /apis"}`
	jane = "jane cannot get path /apis"
)

// answers are refusals, and what the error says if it is the word of an API server.
var answers = []struct {
	code              int
	contentType, body string
	says              string // empty for a gateway's
	why               string
}{
	{403, "application/json", statusOf403, jane, "a Status"},
	{403, "text/plain", statusOf403, jane, "a Status as text"},
	{403, "", statusOf403, jane, "a Status without a content type"},
	{403, "application/vnd.kubernetes.protobuf", protobufStatus(403), jane, "a Status in protobuf"},
	{403, "application/json", without(`,"code":403`), jane, "a Status that has a reason but no code"},
	{403, "application/json", without(`"reason":"Forbidden",`), jane, "a Status that has a code but no reason"},
	{404, "text/plain; charset=utf-8", "404 page not found\n", "could not find the requested resource",
		"a path that a kube-apiserver doesn't have"},
	{404, "application/json", `{"paths":["/apis","/healthz"]}`, "could not find the requested resource",
		"a path that an API server doesn't have that is not a kube-apiserver"},
	{403, "text/plain; charset=utf-8", "404 page not found\n", "", "that text with another code"},
	{404, "text/html", "<html>404 page not found</html>", "", "a page that has that text"},
	{404, "application/json", `{"paths":[]}`, "", "no paths"},
	{404, "application/json", `{"paths":["no path"]}`, "", "paths that are none"},
	{404, "application/json", `{"paths":["/apis"],"message":"no Route`, "", "JSON that is cut off"},
	{403, "application/json", `{"paths":["/apis"]}`, "", "paths with another code"},
	{403, "text/html", "<html>no</html>", "", "a page"},
	{404, "text/html", strings.Repeat("<p>no</p>", 200_000), "", "a page of 1.8 MB"},
	{403, "application/json", statusOf403 + strings.Repeat(" ", 1<<20), "", "a Status that is too long"},
	{400, "application/json", `{"error":"bad request"}`, "", "JSON without a kind"},
	{403, "application/json", without(`"kind":"Status",`), "", "a Status without its kind"},
	{403, "application/json", without(`"apiVersion":"v1",`), jane, "a Status without its version: client-go takes it"},
	{403, "application/json", strings.ReplaceAll(statusOf403, `"v1"`, `"gateway.io/v1"`), "", "a gateway's Status"},
	{403, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, "", "a Status of a success"},
	{403, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no route"}`, "",
		"a Status that says nothing of what the code says"},
	{404, "application/json", statusOf403, "", "a Status with another code"},
	{404, "application/json", `{"kind":"ErrorResponse","apiVersion":"v1"}`, "", "another kind"},
	{422, "application/json", ``, "", "no body"},
	{404, "", ``, "", "no body and 404"},
	{410, "application/json", `null`, "", "null"},
	{403, "application/json", statusOf403[:40], "", "a Status that is cut off"},
	{403, "application/vnd.kubernetes.protobuf", protobufStatus(403)[:40], "", "the same in protobuf"},
}

func without(part string) string { return strings.ReplaceAll(statusOf403, part, "") }

func protobufStatus(code int32) string {
	raw, _ := (&metav1.Status{Status: "Failure", Reason: "Forbidden", Code: code, Message: jane}).Marshal()
	text, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}).Marshal()
	return "k8s\x00" + string(text)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestFailureIsNoRefusal: the code of a failed answer decides, whatever Status its body has.
func TestFailureIsNoRefusal(t *testing.T) {
	for _, code := range []int{500, 502, 503} {
		for _, status := range []int{403, 404, 410} {
			body := strings.ReplaceAll(statusOf403, "403", strconv.Itoa(status))
			next := roundTrip(func(r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
				resp := w.Result()
				resp.Request = r
				return resp, nil
			})
			for name, transport := range map[string]http.RoundTripper{
				"Wrap": guard.Wrap(next), "RefuseGateways": guard.RefuseGateways(next),
			} {
				c, err := dynamic.NewForConfigAndClient(&rest.Config{}, &http.Client{Transport: transport})
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).List(t.Context(),
					metav1.ListOptions{})
				var got apierrors.APIStatus
				if !errors.As(err, &got) || got.Status().Code != int32(code) || guard.IsGateway(err) {
					t.Errorf("%s: %d with a Status of %d: got %v", name, code, status, err)
				}
			}
		}
	}
}

// TestIsGateway: Streams, discovery and Connection.Cluster have one rule about what is the word of an API server.
func TestIsGateway(t *testing.T) {
	for _, tt := range answers {
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", tt.contentType)
			w.WriteHeader(tt.code)
			_, _ = io.WriteString(w, tt.body)
			resp := w.Result()
			resp.Request = r
			return resp, nil
		})
		c, err := dynamic.NewForConfigAndClient(&rest.Config{}, &http.Client{Transport: guard.Wrap(next)})
		if err != nil {
			t.Fatal(err)
		}
		pods := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		_, list := pods.List(t.Context(), metav1.ListOptions{})
		_, watch := pods.Watch(t.Context(), metav1.ListOptions{})
		r := httptest.NewRequest("GET", "/apis", nil)
		_, alone := guard.RefuseGateways(next).RoundTrip(r)
		_, discovery := guard.RefuseGateways(guard.WrapDiscovery(next)).RoundTrip(r)
		for of, err := range map[string]error{
			"list": list, "watch": watch, "RefuseGateways": alone, "discovery": discovery,
		} {
			var status apierrors.APIStatus
			for _, err := range []error{err, guard.Redact(err), fmt.Errorf("cannot: %w", guard.Redact(err))} {
				switch {
				case err == nil || guard.IsGateway(err) != (tt.says == "") || !strings.Contains(err.Error(), tt.says):
					t.Errorf("%s, %s: got %v, want %q", tt.why, of, err, cmp.Or(tt.says, "a gateway's refusal"))
				case !errors.As(err, &status) || status.Status().Code != int32(tt.code):
					t.Errorf("%s, %s: the code of %v is not %d", tt.why, of, err, tt.code)
				case len(err.Error()) > 500:
					t.Errorf("%s, %s: the error has %d bytes", tt.why, of, len(err.Error()))
				}
			}
		}
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

// TestRefuseGatewaysPasses: what passes is read by client-go as it was sent.
func TestRefuseGatewaysPasses(t *testing.T) {
	for code, why := range map[int]string{
		401: "a credential plugin is outside of the transport", 429: "client-go repeats the request",
		200: "no refusal", 304: "no refusal", 503: "no refusal",
	} {
		resp, err := guard.RefuseGateways(roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "a body")
			return w.Result(), nil
		})).RoundTrip(httptest.NewRequest("GET", "/apis", nil))
		if err != nil {
			t.Errorf("%d: %s: got %v", code, why, err)
			continue
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "a body" || resp.StatusCode != code {
			t.Errorf("%d: %s: the body is %q, %v", code, why, body, err)
		}
	}
}

// TestDocumentThatWasServed: a server that has had a document has it still. A gateway that is written in Go answers
// with the text of http.NotFound, too, and some in front of Kubernetes with a Status.
func TestDocumentThatWasServed(t *testing.T) {
	notFound := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	for _, body := range []string{"404 page not found", `{"paths":["/apis"]}`, notFound} {
		for _, path := range []string{"/api", "/apis", "/behind/api", "/behind/apis/"} {
			code := 404
			refuses := guard.RefuseGateways(roundTrip(func(*http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
				return w.Result(), nil
			}))
			for i, want := range []struct {
				code    int
				refused bool
			}{{404, false}, {200, false}, {404, true}, {200, false}, {404, true}} {
				code = want.code
				_, err := refuses.RoundTrip(httptest.NewRequest("GET", path, nil))
				if guard.IsGateway(err) != want.refused || (err == nil) != (code == 200) {
					t.Errorf("%s: answer %d (%d, %s) leads to %v", path, i+1, code, body, err)
				}
				if want.refused && path == "/api" && apierrors.IsNotFound(err) {
					t.Errorf("client-go takes %v for a server without a core group", err)
				}
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
