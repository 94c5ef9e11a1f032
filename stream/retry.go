package stream

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// left shortens the time for a request to what GiveUpAfter leaves.
func (l *lane) left(timeout time.Duration) time.Duration {
	if l.options.GiveUpAfter == 0 {
		return timeout
	}
	return max(min(timeout, l.options.GiveUpAfter-l.failing), time.Second)
}

const (
	// The first attempt comes soon: most failures are a server that restarts or a
	// connection that broke. A server that sends an event and closes, every time, is
	// asked two things after the second wait, over and over: 0.8 s on average.
	firstBackoff = 200 * time.Millisecond
	nextBackoff  = 1600 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// What was refused is asked for again more slowly, but so that rights that come
	// back are noticed within a quarter of a minute.
	slowBackoff    = 2 * time.Second
	maxSlowBackoff = 15 * time.Second
)

// backoff bounds the wait before attempt n, 1 being the first repetition: a
// random time up to a bound that doubles ("full jitter"), so that the clients of a
// server that comes back do not come back together.
func backoff(n int) (least, most time.Duration) {
	if n <= 1 {
		return 0, firstBackoff
	}
	return 0, min(nextBackoff<<min(n-2, 10), maxBackoff)
}

// refusedBackoff bounds the wait after attempt n was refused.
func refusedBackoff(n int) (least, most time.Duration) {
	most = min(slowBackoff<<min(max(n-1, 0), 10), maxSlowBackoff)
	return most / 2, most
}

// between is a random time.
func between(least, most time.Duration) time.Duration {
	return least + rand.N(most-least+1)
}

// What an error means to the protocol. No message is ever looked at.

// isExpired: both reasons occur (410 Gone, and 410 Expired in ERROR events).
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isRefusal: before the first SYNCED these will not go away by waiting. Later
// they may: a role binding replaced, a CRD recreated, a token renewed.
func isRefusal(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsInvalid(err) || isUnusable(err)
}

// isUnusable: the server answered, but with what can't be told and watched.
func isUnusable(err error) bool {
	return errors.Is(err, errNoVersion) || errors.Is(err, errNameless) || errors.Is(err, errNoList)
}

// isUnsupported: a server without streaming lists. 422 is what a kube-apiserver
// says whose feature gate is off; others may know the parameter even less.
func isUnsupported(err error) bool {
	code := statusCode(err)
	return code == 405 || code == 422 || code == 501
}

// mayNotList: the lists are refused, which does not say that watches are.
func mayNotList(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// isPoison: an event that could not be read, or that the server could not send.
// At the same version again and again it has to be gone around.
func isPoison(err error) bool {
	return errors.Is(err, errUnreadable) || statusCode(err) >= 500 && retryAfter(err) == 0
}

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return status.Status().Code
}

// retryAfter is how long the server asks to wait, in a header or in a Status.
func retryAfter(err error) time.Duration {
	if paced, ok := errors.AsType[*pacedError](err); ok {
		return paced.after
	}
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
