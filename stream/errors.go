package stream

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// ErrBusy is yielded by a loop over the Events of a Stream (or of a Mux) while another loop over them is running.
var ErrBusy = errors.New("already running: must have one loop over Events at a time")

// NotWatchableError reports a resource that does not have the verbs list and watch.
type NotWatchableError struct{ Resource gvr.Resource }

func (e *NotWatchableError) Error() string {
	return fmt.Sprintf("cannot watch %s: must have the verbs list and watch, has %q", e.Resource, e.Resource.Verbs)
}

// OptionsError reports an option or argument with an invalid value, or options that contradict each other. All packages
// of this module return it. It has three strings: the Field of the options (such as "Name" or "Start and Checkpoint")
// or the argument, its Value, which may be empty, and the Problem, which says what the value must be.
type OptionsError = invalid.Option

// RequestError reports a failed request. If a run yields it, the request is not retried. If [Status.Cause] has it
// while the run goes on, the request is retried. The predicates of k8s.io/apimachinery/pkg/api/errors, such as
// IsForbidden, work on it.
//
// Err and what it wraps quote no object, as client-go's errors about undecodable answers do. Texts, such as the message
// of a Status, are cut to 1 KiB, and the causes of a Status to 20.
type RequestError struct {
	Verb      string // "list" or "watch"
	Resource  gvr.Resource
	Namespace string // empty: the whole cluster
	Err       error
}

func (e *RequestError) Error() string {
	where := "across the cluster"
	if e.Namespace != "" {
		where = fmt.Sprintf("in namespace %q", e.Namespace)
	}
	return fmt.Sprintf("cannot %s %s %s: %v", e.Verb, e.Resource, where, e.Err)
}

func (e *RequestError) Unwrap() error { return e.Err }

// GapError ends a run with [Run].FailOnGap. If Reason is [GapExpired], the predicates IsResourceExpired or IsGone of
// k8s.io/apimachinery/pkg/api/errors may return true for it.
type GapError struct {
	Reason GapReason
	From   string // resourceVersion up to which everything was delivered; may be empty
	Err    error  // the server's error; may be nil
}

func (e *GapError) Error() string {
	since := "since resourceVersion " + invalid.Printable(e.From) // a server chooses how long it is
	if e.From == "" {
		since = "so far"
	}
	s := fmt.Sprintf("cannot know what happened %s (%s)", since, e.Reason)
	if e.Err != nil {
		s += fmt.Sprintf(": %v", e.Err)
	}
	return s
}

func (e *GapError) Unwrap() error { return e.Err }

var tooOld = regexp.MustCompile(`too old resource version: \d+ \((\d+)\)`)

// Oldest returns the oldest resourceVersion that the server can watch from, or "" if the error does not contain it. The
// watch cache of a kube-apiserver puts it into the message. The Stream does not use it.
func (e *GapError) Oldest() string {
	var status apierrors.APIStatus
	if !errors.As(e.Err, &status) {
		return ""
	}
	if m := tooOld.FindStringSubmatch(status.Status().Message); m != nil {
		return m[1]
	}
	return ""
}

// GaveUpError ends a run whose requests failed for longer than [Requests].GiveUpAfter.
type GaveUpError struct {
	After time.Duration // spent on failed requests and waits
	Err   error         // the last failure
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("gave up after %v of failures: %v", e.After.Round(time.Millisecond), e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }

// PanicError is the error of a function of the caller that panicked. In a Mux that is the error of a source, if a
// Select, a Transform or a Trace of its Stream panics; other functions of options end the run with it. A reconcile of
// package controller is retried.
type PanicError struct {
	Where string // the key of the source, the key of the reconcile, or the function; may be empty
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
