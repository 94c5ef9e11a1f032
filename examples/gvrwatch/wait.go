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
	c, err := parseCondition(s.opts.end.condition) // has been checked
	if err != nil {
		return err
	}
	err = condition.Wait(ctx, events, s.targets(c)...)
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

// targets returns the objects that must meet the condition: every object that is watched, without names, with names in
// all namespaces, and of followed types.
func (s *session) targets(c condition.Condition) (targets []condition.Target) {
	every := []condition.Target{{For: c}}
	if s.follows != nil {
		return every
	}
	for _, f := range s.objects {
		t := condition.Target{For: c, Resource: f.GroupResource().String(), Name: f.name}
		switch {
		case f.name == "", f.Namespaced && s.opts.what.allNamespaces:
			return every
		case !f.Namespaced:
			targets = append(targets, t)
			continue
		}
		for _, t.Namespace = range s.namespaces() {
			targets = append(targets, t)
		}
	}
	return targets
}
