package main

import (
	"errors"
	"fmt"
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

// states writes a line whenever it stands otherwise with something that is
// followed: what is wrong with it, and that it is over:
//
//	gvrwatch: widgets.v1.example.com: gone: waiting
type statusPrinter struct {
	w          io.Writer
	namespaces []string // that are wanted; none: all

	mu sync.Mutex
	// started are those that were served at the beginning: that they are watched goes
	// without saying.
	servedAtStart map[schema.GroupResource]bool
	last          map[string]printedStatus // by what is followed
}

// state is how it stands with something, as it was said.
type printedStatus struct {
	state follow.State
	text  string // without the cause, which may be worded otherwise each time
}

func newStatusPrinter(w io.Writer, served []gvr.Resource, namespaces []string) *statusPrinter {
	s := &statusPrinter{w: w, namespaces: namespaces, servedAtStart: map[schema.GroupResource]bool{}, last: map[string]printedStatus{}}
	for _, r := range served {
		s.servedAtStart[r.GroupResource()] = true
	}
	return s
}

// missing says why a name stands for nothing at the beginning.
func (s *statusPrinter) missing(ref gvr.Ref, err error) {
	s.changed(follow.ResourceStatus{Ref: ref, State: follow.Unserved, Cause: err})
}

// changed is for FollowOptions.StatusChanged.
func (s *statusPrinter) changed(f follow.ResourceStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A resource is the same in whatever version.
	key, name := "resource "+f.Resource.GroupResource().String(), f.Resource.String()
	if f.State == follow.Unserved {
		key, name = "name "+f.Ref.String(), f.Ref.String()
	}
	if f.State == follow.Starting {
		return // what comes of it is said soon
	}
	before, known := s.last[key]
	if known && f.State == follow.Unserved && f.Cause == nil {
		return // more was said of it at the beginning
	}
	said, cause := s.describe(f, before.state)
	now := printedStatus{f.State, said}
	if before == now {
		return
	}
	s.last[key] = now
	if said == "" {
		return
	}
	if cause != nil {
		said += ": " + cause.Error()
	}
	// One Write a line: Streams write there, too.
	fmt.Fprintf(s.w, "gvrwatch: %s: %s\n", name, strings.Join(strings.Fields(said), " "))
}

// text is what there is to say of f, whose state was another one before, or none.
func (s *statusPrinter) describe(f follow.ResourceStatus, before follow.State) (said string, cause error) {
	switch f.State {
	case follow.Unserved:
		return describeUnserved(f.Cause)
	case follow.Gone:
		return "gone: waiting", nil
	case follow.Failing:
		return "failing, to be tried again", serverError(f.Cause)
	case follow.Forbidden:
		return s.describeForbidden(f)
	case follow.Watching:
		switch {
		case before == follow.Gone:
			return "served again: watching", nil
		case before == follow.Forbidden:
			return "allowed: watching", nil
		case before == follow.Failing:
			return "failing no more: watching", nil
		case before == "" && !s.servedAtStart[f.Resource.GroupResource()]:
			return "served now: watching", nil
		}
	}
	return "", nil
}

func describeUnserved(cause error) (said string, because error) {
	var none *discovery.NotFoundError
	var several *discovery.AmbiguousError
	var down *discovery.UnavailableError
	switch {
	case cause == nil:
		return "not served yet: waiting", nil
	case errors.As(cause, &none) && len(none.Similar) > 0: // a slip, maybe
		names := make([]string, len(none.Similar))
		for i, r := range none.Similar {
			names[i] = r.String()
		}
		return "not served yet: waiting; did you mean " + strings.Join(names, ", ") + "?", nil
	case errors.As(cause, &none):
		return "not served yet: waiting", nil
	case errors.As(cause, &several):
		return "not clear what it is: waiting", cause
	case errors.As(cause, &down):
		cause = down.Err
	}
	return "not known whether it is served: waiting", cause
}

func (s *statusPrinter) describeForbidden(f follow.ResourceStatus) (said string, cause error) {
	where, wanted := "across the cluster", []string(nil)
	if f.Resource.Namespaced && len(s.namespaces) > 0 {
		where, wanted = "in the namespace "+strings.Join(s.namespaces, ", "), s.namespaces
	}
	if len(f.Namespaces) == 0 || slices.Equal(f.Namespaces, wanted) {
		return "forbidden " + where + ": waiting", serverError(f.Cause)
	}
	return "forbidden " + where + ": watching in " + strings.Join(f.Namespaces, ", "), nil
}

// reason is what the server said, where the rest is said already.
func serverError(err error) error {
	var refused *stream.RequestError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return err
}
