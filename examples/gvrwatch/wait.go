package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// wait prints events until --for is met.
func (s *session) wait(ctx context.Context, events printedEvents, want wanted) error {
	c, err := condition.Parse(s.opts.end.condition) // has been checked
	if err != nil {
		return err
	}
	err = condition.Wait(ctx, events, c, s.targets()...)
	if errors.Is(err, condition.ErrNoObjects) {
		return errors.New("--for: there are no objects to wait for")
	}
	if err != nil {
		return err
	}
	printMessage(s.streams.ErrOut, "condition met: %s", s.opts.end.condition)
	return nil
}

// unmet returns which objects do not meet the condition, after a colon, as far as err says.
func unmet(err error) string {
	var e *condition.UnmetError
	if !errors.As(err, &e) || len(e.Unmet) == 0 {
		return ""
	}
	var objects []string
	for target, reason := range e.Unmet {
		objects = append(objects, target.String()+" "+reason)
	}
	slices.Sort(objects)
	if e.More > 0 {
		objects = append(objects, fmt.Sprintf("and %d more", e.More))
	}
	return ": " + strings.Join(objects, "; ")
}

// targets returns the objects that must meet the condition. None means every object that is watched: without names,
// with names in all namespaces, and of followed types.
func (s *session) targets() []condition.Target {
	var targets []condition.Target
	for _, f := range s.objects {
		switch {
		case s.follows != nil, f.name == "", f.Namespaced && s.opts.what.allNamespaces:
			return nil
		case !f.Namespaced:
			targets = append(targets, condition.Target{Resource: f.GroupResource(), Name: f.name})
			continue
		}
		for _, ns := range s.namespaces() {
			targets = append(targets, condition.Target{Resource: f.GroupResource(), Namespace: ns, Name: f.name})
		}
	}
	return targets
}
