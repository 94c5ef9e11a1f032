package stream

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
	if errors.Is(err, errUnreadable) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && retryAfter(err) == 0 && status.Status().Code >= 500
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
	var paced *pacedError
	if errors.As(err, &paced) {
		return paced.after
	}
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
