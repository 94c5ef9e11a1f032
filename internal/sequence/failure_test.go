package sequence

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// The errors may be wrapped.
func TestFailureClassifiesServerErrors(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	status := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason}}
	}
	for _, tt := range []struct {
		err   error
		class protocol.Class
		after time.Duration
		why   string
	}{
		{nil, protocol.Transient, 0, "no error"},
		{errors.New("connection refused"), protocol.Transient, 0, "no answer"},
		{apierrors.NewResourceExpired("too old"), protocol.Expired, 0, "410 Expired, as in ERROR events"},
		{status(410, metav1.StatusReasonGone), protocol.Expired, 0, "410 Gone, the other form"},
		{status(410, ""), protocol.Expired, 0, "the code alone"},
		{apierrors.NewBadRequest("no such token"), protocol.BadRequest, 0, "400"},
		{apierrors.NewUnauthorized("who are you"), protocol.Unauthorized, 0, "401"},
		{apierrors.NewForbidden(widgets, "", errors.New("no")), protocol.Forbidden, 0, "403"},
		{apierrors.NewNotFound(widgets, ""), protocol.NotFound, 0, "404"},
		{apierrors.NewMethodNotSupported(widgets, "watch"), protocol.NotAllowed, 0, "405"},
		{apierrors.NewInvalid(schema.GroupKind{}, "", nil), protocol.Invalid, 0, "422, a feature gate that is off"},
		{status(501, ""), protocol.NotImplemented, 0, "501"},
		{apierrors.NewInternalError(errors.New("boom")), protocol.ServerError, 0, "500"},
		{status(503, ""), protocol.ServerError, 0, "503"},
		{apierrors.NewTooManyRequests("later", 7), protocol.Transient, 7 * time.Second,
			"429 with the wait in the Status"},
		{apierrors.NewTooManyRequests("later", 1<<31-1), protocol.Transient, time.Hour, "68 years are cut to an hour"},
		{&client.RetryAfterError{Err: status(503, ""), After: 9 * time.Second}, protocol.ServerError, 9 * time.Second,
			"503 with the wait in a header"},
		{&client.RetryAfterError{Err: status(503, ""), After: time.Hour + 1}, protocol.ServerError, time.Hour,
			"a wait in a header is cut to an hour, too"},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Code: 504, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}, RetryAfterSeconds: 1,
		}}}, protocol.TooLarge, time.Second, "504 from a cache that has not reached the version"},
		{fmt.Errorf("%w: %w", errUnreadable, errNameless), protocol.Unreadable, 0,
			"an event without a name"},
		{errUnreadable, protocol.Unreadable, 0, "an event that can't be decoded"},
		{errNameless, protocol.Unusable, 0, "a list of objects without names"},
		{notFoundByGo("404 page not found"), protocol.NotFound, 0, "a path that no API of a kube-apiserver has"},
		{errNotList, protocol.Unusable, 0, "an object that is not a list"},
		{&url.Error{Op: "Get", Err: &guard.Error{}}, protocol.Unusable, 0, "a redirect to another server"},
	} {
		for _, err := range []error{tt.err, wrapped(tt.err)} {
			got := failure(err)
			if got.Err != err || got.Class != tt.class || got.RetryAfter != tt.after {
				t.Errorf("%s: got %+v for %v", tt.why, got, err)
			}
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot watch: %w", err)
}

func notFoundByGo(body string) error {
	return guard.Redact(apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{}, "", body, 0, true))
}

// TestRefusalThatIsNoStatusIsAGateways: client-go makes the same errors of a page in HTML as of a Status.
func TestRefusalThatIsNoStatusIsAGateways(t *testing.T) {
	for code, class := range map[int]protocol.Class{
		400: protocol.Transient, 403: protocol.Transient, 404: protocol.Transient, 409: protocol.Transient,
		// A server without streaming lists need not say so with a Status.
		405: protocol.NotAllowed, 422: protocol.Invalid,
		401: protocol.Unauthorized, // the credentials are renewed
		410: protocol.Expired,      // believed when it comes again and again
	} {
		for _, body := range []string{"<html>no</html>", "", `{"error":"no"}`} {
			err := guard.Redact(apierrors.NewGenericServerResponse(
				code, "GET", schema.GroupResource{Resource: "widgets"}, "", body, 0, true))
			if f := failure(wrapped(err)); !f.Gateway || f.Class != class || f.Refused() {
				t.Errorf("%d with %q: got %+v, want class %d of a gateway", code, body, f, class)
			}
		}
	}
	for _, code := range []int{500, 501, 503} {
		err := apierrors.NewGenericServerResponse(code, "GET", schema.GroupResource{}, "", "<html>", 0, true)
		if f := failure(err); f.Gateway {
			t.Errorf("%d: got %+v, want a failure of the server", code, f)
		}
	}
}
