package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// notServed is the body of http.NotFound. A kube-apiserver answers with it where no API has the path
// (k8s.io/apiserver, notfoundhandler), such as that of a group whose last CRD was deleted.
const notServed = "404 page not found"

// IsGateway reports whether err is a refusal (4xx) that is not the word of an API server: its body was no Status. A
// gateway has answered, which is in trouble or knows no way to the server. The code and the reason that client-go makes
// of such an answer say nothing about the resource.
func IsGateway(err error) bool {
	if _, ok := errors.AsType[*gatewayError](err); ok {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	if s.Details == nil || !isRefusal(int(s.Code)) {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == metav1.CauseTypeUnexpectedServerResponse { // rest.Request gives it to every body but a Status
			return s.Code != http.StatusNotFound || c.Message != notServed
		}
	}
	return false
}

func isRefusal(code int) bool {
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// gatewayError is a refusal that is no Status.
type gatewayError struct {
	code, bytes int
	status      error // for the predicates of apierrors; nil for none
}

func (e *gatewayError) Error() string {
	return fmt.Sprintf("the server, or a gateway before it, answered %d with %d bytes that are no Status",
		e.code, e.bytes)
}

func (e *gatewayError) Unwrap() error { return e.status }

// RefuseGateways returns a transport for a discovery client that turns a refusal that is no Status into an error for
// which [IsGateway] is true: client-go's discovery client takes any 404 for a server without a core group. The
// transport passes on 401, for whatever renews the credentials, 429, which client-go repeats, and a 404 of a server
// that has never had the document, if it has no body or that of http.NotFound.
func RefuseGateways(next http.RoundTripper) http.RoundTripper { return &gateways{next: next} }

type gateways struct {
	next   http.RoundTripper
	served sync.Map // the paths /api and /apis, if they were answered with 200
}

// maxStatus is how many bytes a Status may have.
const maxStatus = 1 << 20

func (t *gateways) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.Body == nil {
		return resp, err
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	root := strings.HasSuffix(path, "/api") || strings.HasSuffix(path, "/apis")
	switch {
	case resp.StatusCode == http.StatusOK && root:
		t.served.Store(path, true)
		return resp, nil
	case !isRefusal(resp.StatusCode), resp.StatusCode == http.StatusUnauthorized,
		resp.StatusCode == http.StatusTooManyRequests:
		return resp, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	_ = resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the answer %d: %w", resp.StatusCode, err)
	}
	_, served := t.served.Load(path)
	text := strings.TrimSpace(string(body))
	notThere := resp.StatusCode == http.StatusNotFound && !served && (text == notServed || text == "")
	switch {
	case resp.StatusCode == http.StatusNotFound && !served && isIndex(body):
		return notFound(resp, r.Method), nil
	case isStatus(body) || notThere:
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	}
	refused := &gatewayError{code: resp.StatusCode, bytes: len(body)}
	tolerated := strings.HasSuffix(path, "/api") || strings.HasSuffix(path, "/api/v1") // by client-go, if it is a 404
	if refused.code != http.StatusNotFound || !tolerated {
		refused.status = apierrors.NewGenericServerResponse(refused.code, r.Method, schema.GroupResource{}, "",
			refused.Error(), 0, false)
	}
	return nil, refused
}

// isIndex reports whether a body is the list of paths with which an API server that is not a kube-apiserver answers
// where it has nothing (k8s.io/apiserver, routes.IndexLister).
func isIndex(body []byte) bool {
	var index struct{ Paths []string }
	return json.Unmarshal(body, &index) == nil && len(index.Paths) > 0 && strings.HasPrefix(index.Paths[0], "/")
}

// notFound returns a response with a Status instead.
func notFound(resp *http.Response, verb string) *http.Response {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, verb, schema.GroupResource{}, "", "", 0, false)
	s := err.Status()
	s.APIVersion, s.Kind = "v1", "Status"
	body, _ := json.Marshal(s) // it has only strings and numbers
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Type", "application/json")
	return resp
}

// isStatus reports whether the body of a refusal is the Status of an API server.
func isStatus(body []byte) bool {
	var s metav1.Status
	return json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.Status == metav1.StatusFailure
}

func (t *gateways) WrappedRoundTripper() http.RoundTripper { return t.next }

const (
	// maxTries is how often Insist tries.
	maxTries = 3
	// firstWait is the longest wait before its second try. The next one is twice as long.
	firstWait = 200 * time.Millisecond
)

// Insist calls try, and up to two more times if the credentials are not accepted (401) or a gateway has answered
// ([IsGateway]), after random waits of 0.1 to 0.2 s and twice that. client-go runs a credential plugin again, and reads
// a file with a token again, only after a 401.
func Insist(ctx context.Context, try func() error) error {
	for tried := 1; ; tried++ {
		err := try()
		if !apierrors.IsUnauthorized(err) && !IsGateway(err) || tried == maxTries {
			return err
		}
		most := wait.Doubled(tried, firstWait, time.Second)
		if !wait.Sleep(ctx, wait.Between(most/2, most), nil) {
			return err
		}
	}
}
