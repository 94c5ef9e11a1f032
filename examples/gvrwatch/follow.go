package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// follow returns a Mux that follows the wanted resources. It prints a line for each name in missing, and for each
// pattern and category that matches nothing.
func (s *session) follow(ctx context.Context, want wanted, missing map[gvr.Ref]error) (*mux.Mux, error) {
	served, err := s.srv.resolver.Watchables(ctx)
	var part *discovery.UnavailableError
	if err != nil && !(errors.As(err, &part) && len(part.GroupVersions) > 0) {
		return nil, s.srv.explain(err)
	}
	if part != nil {
		printMessage(s.streams.ErrOut, "these APIs do not answer yet: %v", part)
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

// reportUnmatched prints which patterns and categories match nothing. That may be intended, so it is not an error.
func (s *session) reportUnmatched(want wanted, served []gvr.Resource, namespaces []string) {
	report := func(what string, one wanted) {
		matches := func(namespaces []string) bool {
			selection := s.selection(one, namespaces)
			return slices.ContainsFunc(served, func(r gvr.Resource) bool {
				selected, _ := selection.Selects(r) // check has validated the selection
				return selected
			})
		}
		switch {
		case matches(namespaces):
		case matches(nil):
			printMessage(s.streams.ErrOut, "%s: matches only cluster-scoped types, which need -A: waiting", what)
		default:
			printMessage(s.streams.ErrOut, "%s: matches no served type: waiting", what)
		}
	}
	for _, p := range want.patterns {
		report(p, wanted{patterns: []string{p}})
	}
	for _, c := range want.categories {
		report("category "+c, wanted{categories: []string{c}})
	}
}
