package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// statusPrinter writes a line each time a followed resource fails or recovers:
//
//	gvrwatch: widgets.v1.example.com: gone: waiting
type statusPrinter struct {
	w          io.Writer
	namespaces []string              // the requested ones; empty means all
	waiting    string                // ": waiting", or empty if the run does not wait
	before     func(resource string) // is called before a line about it; may be nil

	mu sync.Mutex
	// servedAtStart has the resources that were served when the program started. No line is written when their watch
	// begins.
	servedAtStart map[schema.GroupResource]bool
	last          map[string]printedStatus // by followed resource or name
}

// printedStatus is the last status of a followed resource or name.
type printedStatus struct {
	state follow.State
	text  string // without the cause, whose wording may vary
}

func newStatusPrinter(w io.Writer, served []gvr.Resource, namespaces []string, waiting string) *statusPrinter {
	s := &statusPrinter{
		w: w, namespaces: namespaces, waiting: waiting,
		servedAtStart: map[schema.GroupResource]bool{}, last: map[string]printedStatus{},
	}
	for _, r := range served {
		s.servedAtStart[r.GroupResource()] = true
	}
	return s
}

// missing reports why a name can't be resolved when the program starts.
func (s *statusPrinter) missing(ref gvr.Ref, err error) {
	s.changed(follow.ResourceStatus{Ref: ref, State: follow.Unserved, Cause: err})
}

// changed is called by Options.StatusChanged of package follow.
func (s *statusPrinter) changed(f follow.ResourceStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// All versions of a resource share one status.
	key, name := "resource "+f.Resource.GroupResource().String(), f.Resource.String()
	if f.State == follow.Unserved {
		key, name = "name "+f.Ref.String(), f.Ref.String()
	}
	if f.State == follow.Starting {
		return // Watching or a failure follows soon
	}
	before, known := s.last[key]
	if known && f.State == follow.Unserved && f.Cause == nil {
		return // missing has reported it, with the cause
	}
	text, cause := s.describe(f, before.state)
	now := printedStatus{f.State, text}
	if before == now {
		return
	}
	s.last[key] = now
	if text == "" {
		return
	}
	if cause != nil {
		text += ": " + cause.Error()
	}
	if s.before != nil {
		s.before(f.Resource.String())
	}
	printMessage(s.w, "%s: %s", name, text)
}

// describe returns the text for f and the cause to append, if any. The text is empty if there is nothing to print. The
// state before may be empty.
func (s *statusPrinter) describe(f follow.ResourceStatus, before follow.State) (text string, cause error) {
	switch f.State {
	case follow.Unserved:
		return s.describeUnserved(f.Cause)
	case follow.Gone:
		return "gone" + s.waiting, nil
	case follow.Failing:
		return "failing, trying again", serverError(f.Cause)
	case follow.Forbidden:
		return s.describeForbidden(f)
	case follow.Watching:
		switch {
		case before == follow.Gone:
			return "served again: watching", nil
		case before == follow.Forbidden:
			return "allowed: watching", nil
		case before == follow.Failing:
			return "no longer failing: watching", nil
		case before == "" && !s.servedAtStart[f.Resource.GroupResource()]:
			return "served now: watching", nil
		}
	}
	return "", nil
}

func (s *statusPrinter) describeUnserved(cause error) (text string, _ error) {
	var none *discovery.NotFoundError
	var several *discovery.AmbiguousError
	var down *discovery.UnavailableError
	switch {
	case cause == nil:
		return "not served yet" + s.waiting, nil
	case errors.As(cause, &none) && len(none.Similar) > 0: // perhaps a typo
		names := make([]string, len(none.Similar))
		for i, r := range none.Similar {
			names[i] = r.String()
		}
		return "not served yet" + s.waiting + "; did you mean " + joinNames(names) + "?", nil
	case errors.As(cause, &none):
		return "not served yet" + s.waiting, nil
	case errors.As(cause, &several):
		return "several types match" + s.waiting, cause
	case errors.As(cause, &down):
		cause = down.Err
	}
	return "unknown whether it is served" + s.waiting, cause
}

func (s *statusPrinter) describeForbidden(f follow.ResourceStatus) (text string, cause error) {
	where, wanted := "across the cluster", []string(nil)
	if f.Resource.Namespaced && len(s.namespaces) > 0 {
		where, wanted = "in the namespace "+strings.Join(s.namespaces, ", "), s.namespaces
	}
	if len(f.Namespaces) == 0 || slices.Equal(f.Namespaces, wanted) {
		return "forbidden " + where + s.waiting, serverError(f.Cause)
	}
	return "forbidden " + where + ": watching in " + strings.Join(f.Namespaces, ", "), nil
}

// serverError returns the server's error without its RequestError: the line already names the resource.
func serverError(err error) error {
	var refused *stream.RequestError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return err
}
