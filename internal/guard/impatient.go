package guard

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Impatient returns a transport that turns an answer whose Retry-After ends after the request's deadline into an error.
// client-go's rest.Request would wait until the deadline, and then return context.DeadlineExceeded, without naming the
// reason.
func Impatient(next http.RoundTripper) http.RoundTripper { return &impatient{next} }

type impatient struct{ next http.RoundTripper }

func (t *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	seconds, ok := retryAfter(response)
	deadline, bounded := r.Context().Deadline()
	if !ok || !bounded || float64(seconds) < time.Until(deadline).Seconds() {
		return response, nil
	}
	_ = response.Body.Close()
	refused := apierrors.NewGenericServerResponse(response.StatusCode, r.Method, schema.GroupResource{}, "", "",
		min(seconds, math.MaxInt32), false)
	refused.ErrStatus.Message = fmt.Sprintf("the server asks for a wait of %d s (%d %s): must be less than the "+
		"timeout of the request", seconds, response.StatusCode, http.StatusText(response.StatusCode))
	return nil, refused
}

func (t *impatient) WrappedRoundTripper() http.RoundTripper { return t.next }

// retryAfter returns for how many seconds client-go would wait before it repeats the request.
func retryAfter(response *http.Response) (seconds int, ok bool) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode < http.StatusInternalServerError {
		return 0, false
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	return seconds, err == nil
}
