package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// IsGateway reports whether err is a refusal (4xx) that is not the word of an API server: its body was no Status, as a
// transport of [Wrap] or [RefuseGateways] sees it, or without one, client-go. A gateway has answered, which is in
// trouble or knows no way to the server. The code and the reason that client-go makes of such an answer say nothing
// about the resource.
func IsGateway(err error) bool {
	if errors.As(err, new(*gatewayError)) {
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

// gatewayError is a refusal that is not the word of an API server.
type gatewayError struct {
	problem string
	status  error // for the predicates of apierrors; nil for none
}

func (e *gatewayError) Error() string {
	return "the server, or a gateway before it, answered " + e.problem
}

func (e *gatewayError) Unwrap() error { return e.status }

// RefuseGateways returns a transport for a client of client-go that makes errors of refusals. client-go's discovery
// client reads no Status, and takes any 404 for a server without a core group.
//
//   - A Status becomes an [*apierrors.StatusError]. So does a 404 with the text of http.NotFound, or with a list of
//     paths.
//   - A 404 for /api or /apis, where this transport has seen 200, becomes an error for which [IsGateway] is true,
//     whatever it says: an API server goes on having these.
//   - So does every other refusal.
//
// The transport passes on 401, for what is outside of it and renews credentials, and 429, which client-go repeats.
func RefuseGateways(next http.RoundTripper) http.RoundTripper { return &gateways{next: next} }

type gateways struct {
	next   http.RoundTripper
	served sync.Map // the paths /api and /apis, if they were answered with 200
}

func (t *gateways) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.Body == nil {
		return resp, err
	}
	path, code := strings.TrimSuffix(r.URL.Path, "/"), resp.StatusCode
	root := strings.HasSuffix(path, "/api") || strings.HasSuffix(path, "/apis")
	switch {
	case code == http.StatusOK && root:
		t.served.Store(path, true)
		return resp, nil
	case code >= http.StatusInternalServerError:
		settle(resp)
		return resp, nil
	case !isRefusal(code), code == http.StatusUnauthorized, code == http.StatusTooManyRequests:
		return resp, nil
	}
	body, err := readError(resp)
	if err != nil {
		return nil, fmt.Errorf("reading the answer %d: %w", code, err)
	}
	_, served := t.served.Load(path)
	generic := apierrors.NewGenericServerResponse(code, r.Method, schema.GroupResource{}, "", "", 0, false)
	refused := &gatewayError{status: generic}
	switch status, _ := statusOf(code, body); {
	case served && code == http.StatusNotFound:
		refused.problem = "404 for what it has served before"
	case status != nil:
		return nil, &apierrors.StatusError{ErrStatus: *status}
	case code == http.StatusNotFound && isNotServed(body):
		return nil, generic
	case string(body) == tooLong(code):
		refused.problem = fmt.Sprintf("%d with more than %d MiB", code, errorBytes>>20)
	default:
		refused.problem = fmt.Sprintf("%d with %d bytes that are no Status", code, len(body))
	}
	if code == http.StatusNotFound && (strings.HasSuffix(path, "/api") || strings.HasSuffix(path, "/api/v1")) {
		refused.status = nil // which client-go would tolerate
	}
	return nil, refused
}

// isNotServed reports whether the body of a 404 is what API servers answer where they have nothing: the text of
// http.NotFound, or, if it is not a kube-apiserver, the list of its paths (k8s.io/apiserver, routes.IndexLister).
func isNotServed(body []byte) bool {
	if strings.TrimSpace(string(body)) == notServed {
		return true
	}
	var index struct{ Paths []string }
	return json.Unmarshal(body, &index) == nil && len(index.Paths) > 0 && strings.HasPrefix(index.Paths[0], "/")
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
