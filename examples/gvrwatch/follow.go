package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// follow returns a Mux that keeps to what is wanted. What is missing of it is said
// now.
func (s *session) follow(ctx context.Context, want wanted, missing map[gvr.Ref]error) (*mux.Mux, error) {
	served, err := s.srv.resolver.Watchables(ctx)
	var part *discovery.UnavailableError
	if err != nil && !(errors.As(err, &part) && len(part.GroupVersions) > 0) {
		return nil, s.srv.explain(err)
	}
	if part != nil {
		fmt.Fprintf(s.streams.ErrOut, "gvrwatch: what these APIs serve is not known yet: %v\n", part)
	}
	var namespaces []string
	if !s.allNamespaces {
		namespaces = []string{s.srv.namespace}
	}
	lines := newStatusPrinter(s.streams.ErrOut, served, namespaces)
	for _, ref := range want.names {
		if err := missing[ref]; err != nil {
			lines.missing(ref, err)
		}
	}
	s.reportUnmatched(want, served, namespaces)
	opts := s.streamOptions()
	opts.Logger = slog.New(logHandler{w: s.streams.ErrOut, follows: true})
	o := &follow.Options{
		Stream:        func(gvr.Resource) stream.Options { return opts },
		UntilSynced:   s.untilSynced,
		StatusChanged: lines.changed,
	}
	if m := s.muxOptions(); m != nil {
		o.Mux = *m
	}
	m, err := follow.New(s.srv.resolver, s.srv.client, s.selection(want, namespaces), o)
	if err != nil {
		return nil, err
	}
	return m.Mux, nil
}

// sayUnmatched says which patterns and categories select nothing, which may be as
// it should be.
func (s *session) reportUnmatched(want wanted, served []gvr.Resource, namespaces []string) {
	say := func(what string, one wanted) {
		matches := func(namespaces []string) bool {
			selection := s.selection(one, namespaces)
			return slices.ContainsFunc(served, func(r gvr.Resource) bool {
				selected, _ := selection.Selects(r) // it has been checked
				return selected
			})
		}
		switch {
		case matches(namespaces):
		case matches(nil):
			fmt.Fprintf(s.streams.ErrOut, "gvrwatch: %s: only types that live in no namespace match, which takes -A: waiting\n", what)
		default:
			fmt.Fprintf(s.streams.ErrOut, "gvrwatch: %s: nothing that is served matches: waiting\n", what)
		}
	}
	for _, p := range want.patterns {
		say(p, wanted{patterns: []string{p}})
	}
	for _, c := range want.categories {
		say("category "+c, wanted{categories: []string{c}})
	}
}
