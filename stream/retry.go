package stream

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// timeout returns the timeout of a request: first, doubled with each failure, but no longer than the time that
// GiveUpAfter leaves, and at least 1 s.
func (w *worker) timeout(first time.Duration, failures int) time.Duration {
	timeout := wait.Doubled(failures+1, first, first<<maxDoublings)
	if w.options.GiveUpAfter == 0 {
		return timeout
	}
	return max(min(timeout, w.options.GiveUpAfter-w.failedFor), time.Second)
}

const (
	// The first retry comes soon, because most failures are a restarting server or a broken connection. A server that
	// closes every watch after one event receives a probe and a watch after each wait of up to nextBackoff, 0.8 s on
	// average.
	firstBackoff = 200 * time.Millisecond
	nextBackoff  = 1600 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// Refused requests are retried more slowly, but often enough to notice restored permissions within 15 seconds.
	slowBackoff    = 2 * time.Second
	maxSlowBackoff = 15 * time.Second
)

// backoff returns the bounds of the random wait before retry n, from 1. The upper bound doubles ("full jitter"), so
// that the clients of a restarted server do not return all at once.
func backoff(n int) (least, most time.Duration) {
	if n <= 1 {
		return 0, firstBackoff
	}
	return 0, wait.Doubled(n-1, nextBackoff, maxBackoff)
}

// refusedBackoff returns the bounds of the random wait after attempt n was refused.
func refusedBackoff(n int) (least, most time.Duration) {
	most = wait.Doubled(n, slowBackoff, maxSlowBackoff)
	return most / 2, most
}

// failure classifies an error for the protocol, by types and codes, never by messages.
func failure(err error) protocol.Failure {
	f := protocol.Failure{Err: err}
	if err == nil {
		return f
	}
	f.Class, f.RetryAfter = classOf(err), retryAfter(err)
	return f
}

func classOf(err error) protocol.Class {
	switch {
	case errors.Is(err, errUnreadable):
		return protocol.Unreadable
	case errors.Is(err, errNoVersion), errors.Is(err, errNameless), errors.Is(err, errNotList):
		return protocol.Unusable
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err): // 410 Gone, and 410 Expired in ERROR events
		return protocol.Expired
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
	if paced, ok := errors.AsType[*client.RetryAfterError](err); ok {
		return min(paced.After, protocol.MaxRetryAfter)
	}
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, protocol.MaxRetryAfter)
}
