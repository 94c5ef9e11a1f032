package sequence

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

var (
	errNameless = errors.New("the server sent an object that lacks its name or namespace")
	errNotList  = errors.New("the server answered a list request with something else")
	// errUnreadable is wrapped by the error about an unreadable event.
	errUnreadable = errors.New("the server sent an unreadable event")
)

// failure classifies an error for the protocol, by types and codes. (Only errorOf has to look at a message.)
func failure(err error) protocol.Failure {
	f := protocol.Failure{Err: err}
	if err == nil {
		return f
	}
	f.Class, f.RetryAfter = classOf(err), retryAfter(err)
	if f.Gateway = guard.IsGateway(err); f.Gateway {
		switch f.Class {
		// A server, or a gateway, that lacks streaming lists may say so without a Status. After a 401 the credentials
		// are to be renewed, whoever it is from. And whoever says 410 again and again has to be believed.
		case protocol.NotAllowed, protocol.Invalid, protocol.Unauthorized, protocol.Expired:
		default:
			f.Class = protocol.Transient
		}
	}
	return f
}

func classOf(err error) protocol.Class {
	if errors.As(err, new(*guard.Error)) {
		return protocol.Unusable
	}
	switch {
	case errors.Is(err, errUnreadable):
		return protocol.Unreadable
	case errors.Is(err, errNameless), errors.Is(err, errNotList):
		return protocol.Unusable
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err): // 410 Gone, and 410 Expired in ERROR events
		return protocol.Expired
	case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return protocol.TooLarge
	case apierrors.IsBadRequest(err):
		return protocol.BadRequest
	case apierrors.IsUnauthorized(err):
		return protocol.Unauthorized
	case apierrors.IsForbidden(err):
		return protocol.Forbidden
	case apierrors.IsNotFound(err):
		return protocol.NotFound
	case apierrors.IsMethodNotSupported(err):
		return protocol.NotAllowed
	case apierrors.IsInvalid(err):
		return protocol.Invalid
	}
	switch code := statusCode(err); {
	case code == http.StatusNotImplemented:
		return protocol.NotImplemented
	case code >= http.StatusInternalServerError:
		return protocol.ServerError
	}
	return protocol.Transient
}

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return status.Status().Code
}

// retryAfter returns how long the server asks to wait, in a header or in a Status.
func retryAfter(err error) time.Duration {
	if paced := (*client.RetryAfterError)(nil); errors.As(err, &paced) {
		return min(paced.After, protocol.MaxRetryAfter)
	}
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, protocol.MaxRetryAfter)
}
