package stream

import (
	"errors"
	"fmt"

	"github.com/gvrwatch/gvrwatch/gvr"
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

// RequestError says which request failed for good. The predicates of
// k8s.io/apimachinery/pkg/api/errors, such as IsForbidden, look through it.
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
