package stream

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/pace"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// timeout returns the timeout of a request: first, doubled with each failure, but no longer than the time that
// GiveUpAfter leaves, and at least 1 s.
func (w *worker) timeout(first time.Duration, failures int) time.Duration {
	timeout := wait.Doubled(failures+1, first, first<<maxDoublings)
	if w.options.Requests.GiveUpAfter == 0 {
		return timeout
	}
	return max(min(timeout, w.options.Requests.GiveUpAfter-w.failedFor), time.Second)
}

const (
	// The first retry comes soon, because most failures are a restarting server or a broken connection. The pace that
	// all Streams of a client share keeps many of them from being a burden.
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// Refused requests are retried often enough to notice restored permissions within 15 seconds.
	maxRefusedBackoff = 15 * time.Second
	// minIgnored is how long a wait ignores that requests of other Streams succeed, after a retry because of that has
	// failed.
	minIgnored = time.Second
)

// request sends a request when the pace of the client permits it.
func (w *worker) request(ctx context.Context, m protocol.Memory, send func() protocol.Input) protocol.Input {
	paced, began := ctx, time.Now()
	if w.options.Requests.GiveUpAfter > 0 && m.Failures() > 0 {
		var cancel context.CancelFunc
		paced, cancel = context.WithTimeout(ctx, w.options.Requests.GiveUpAfter-w.failedFor)
		defer cancel()
	}
	var delay pace.Delay
	r := w.pace.Wait(paced, m.Synced(), func(d pace.Delay) {
		delay = d
		w.report.paced(w.options.Trace, m, d)
	})
	if m.Failures() > 0 {
		w.failedFor += time.Since(began)
	}
	answer, err := pace.None, error(nil)
	defer func() { w.recovered = w.pace.Done(r, answer, err) }()
	if paced.Err() != nil && ctx.Err() == nil { // GiveUpAfter is over: the wait that follows ends the run
		return protocol.Failed{Failure: failure(cmp.Or(delay.Cause, w.report.get().Cause))}
	}
	in := send()
	if ctx.Err() == nil {
		answer, err = answerOf(in)
	}
	if answer == pace.Bad && w.woken {
		w.inVain++
		w.ignoreUntil = time.Now().Add(wait.Doubled(w.inVain, minIgnored, maxBackoff))
	}
	w.woken = false
	return in
}

// answerOf returns what the result of a request says about the server.
func answerOf(in protocol.Input) (pace.Answer, error) {
	failed, ok := in.(protocol.Failed)
	if !ok {
		return pace.Good, nil
	}
	switch failed.Class {
	case protocol.Transient, protocol.ServerError, protocol.Unusable:
		return pace.Bad, failed.Err
	case protocol.Unauthorized:
		return pace.Unauthorized, failed.Err
	}
	return pace.Good, nil // it refuses this request, but answers
}

// wait waits before a retry. The wait is shorter if a request of another Stream succeeds meanwhile, unless the server
// has refused this one, or has said how long to wait.
func (w *worker) wait(ctx context.Context, s protocol.Waiting) protocol.Input {
	d, limit := max(w.jitter(backoff(s)), s.Cause.RetryAfter), w.options.Requests.GiveUpAfter
	if limit > 0 {
		d = min(d, max(limit-w.failedFor, 0))
	}
	began := time.Now()
	w.report.waiting(w.options.Trace, s, began.Add(d))
	w.warned = true
	w.options.Logger.WarnContext(ctx, "trying again after a failure",
		"resource", w.resource.String(), "namespace", w.namespace, "after", d, "error", s.Cause.Err)
	recovered := w.recovered // nil if the server has refused the request
	if s.Cause.RetryAfter > 0 {
		recovered = nil
	}
	ignored := min(max(time.Until(w.ignoreUntil), 0), d)
	wait.Sleep(ctx, ignored, nil)
	wait.Sleep(ctx, d-ignored, recovered)
	w.woken = time.Since(began) < d
	if w.failedFor += time.Since(began); limit > 0 && w.failedFor >= limit {
		return protocol.GaveUp{After: w.failedFor}
	}
	return protocol.Elapsed{}
}

// backoff returns the bounds of the random wait before a retry.
func backoff(s protocol.Waiting) (least, most time.Duration) {
	most = maxBackoff
	if s.Cause.Refused() {
		most = maxRefusedBackoff
	}
	most = wait.Raised(s.Attempt, firstBackoff, most)
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
	if _, refused := errors.AsType[*guard.Error](err); refused {
		return protocol.Unusable
	}
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
