package stream

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// What kind of trouble an error that Events yielded is, for errors.Is.
var (
	// ErrUnauthorized: the server does not know who asks (401).
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: who asks may not (403).
	ErrForbidden = errors.New("forbidden")
	// ErrGone: the server does not serve the resource (404).
	ErrGone = errors.New("gone")
	// ErrExpired: the server no longer knows what happened since a version (410).
	ErrExpired = errors.New("expired")
)

// ErrBusy is yielded by a second range over Events while one is running: one
// Stream tells one sequence. Make another Stream for another one.
var ErrBusy = errors.New("this Stream is already being ranged over; make another one for a second sequence")

// NotWatchableError says that the server does not let the resource be listed
// and watched.
type NotWatchableError struct{ Resource gvr.Resource }

func (e *NotWatchableError) Error() string {
	return fmt.Sprintf("%s can't be watched: that takes the verbs list and watch, the server serves %q", e.Resource, e.Resource.Verbs)
}

// NotNamespacedError says that a namespace was given for a resource whose
// objects live in none.
type NotNamespacedError struct {
	Resource  gvr.Resource
	Namespace string
}

func (e *NotNamespacedError) Error() string {
	return fmt.Sprintf("%s is cluster-scoped, so it can't be watched in the namespace %q: leave the namespace out", e.Resource, e.Namespace)
}

// NamespaceError says that a namespace's name is none.
type NamespaceError struct {
	Namespace string
	Err       error
}

func (e *NamespaceError) Error() string {
	return fmt.Sprintf("%q is not the name of a namespace: %v", e.Namespace, e.Err)
}

func (e *NamespaceError) Unwrap() error { return e.Err }

// SelectorError says that a selector can't be parsed.
type SelectorError struct {
	Kind     string // "label" or "field"
	Selector string
	Err      error
}

func (e *SelectorError) Error() string {
	return fmt.Sprintf("%q is not a %s selector: %v", e.Selector, e.Kind, e.Err)
}

func (e *SelectorError) Unwrap() error { return e.Err }

// OptionsError says that an option has a value it can't have, or that options
// contradict each other.
type OptionsError struct {
	Option string // the field of Options, "A and B", or "ClientOptions.A"
	Reason string // what is wrong, and what would be right
}

func (e *OptionsError) Error() string {
	return fmt.Sprintf("stream: invalid %s: %s", e.Option, e.Reason)
}

// RequestError says which request failed for good. The predicates of
// k8s.io/apimachinery/pkg/api/errors, such as IsForbidden, look through it, and
// so do errors.Is(err, ErrForbidden) and its like.
type RequestError struct {
	Verb      string // "list" or "watch"
	Resource  gvr.Resource
	Namespace string // empty: the whole cluster
	Err       error
}

func (e *RequestError) Error() string {
	where := "across the cluster"
	if e.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", e.Namespace)
	}
	return fmt.Sprintf("can't %s %s %s: %v", e.Verb, e.Resource, where, e.Err)
}

func (e *RequestError) Unwrap() error { return e.Err }

// Is sorts the error into ErrUnauthorized, ErrForbidden, ErrGone and ErrExpired.
func (e *RequestError) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return apierrors.IsUnauthorized(e.Err)
	case ErrForbidden:
		return apierrors.IsForbidden(e.Err)
	case ErrGone:
		return apierrors.IsNotFound(e.Err)
	case ErrExpired:
		return isExpired(e.Err)
	}
	return false
}

// GapError ends a sequence that was asked to Fail rather than to heal a gap.
type GapError struct {
	Reason GapReason
	From   string // the resourceVersion up to which everything has been told
	Err    error  // what the server said, if anything
}

func (e *GapError) Error() string {
	s := fmt.Sprintf("what happened since resourceVersion %s can't be told (%s)", e.From, e.Reason)
	if e.Err != nil {
		s += fmt.Sprintf(": %v", e.Err)
	}
	return s
}

func (e *GapError) Unwrap() error { return e.Err }

// Is says that the gap is ErrExpired if that is its Reason.
func (e *GapError) Is(target error) bool {
	return target == ErrExpired && e.Reason == GapExpired
}

var tooOld = regexp.MustCompile(`too old resource version: \d+ \((\d+)\)`)

// Oldest is the oldest resourceVersion that the server can still be watched
// from, or "" if it did not say so. (A kube-apiserver's watch cache does, in a
// message; nothing in this package acts on it.)
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

// GaveUpError ends a sequence whose requests have failed for longer than
// Options.GiveUpAfter.
type GaveUpError struct {
	After time.Duration
	Err   error // the last failure
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("gave up after %v of failures, of which the last was: %v", e.After.Round(time.Millisecond), e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }
