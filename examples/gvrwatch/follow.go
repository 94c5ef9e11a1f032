package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// follow returns a Mux that follows the wanted resources. It prints a line for each name in missing, and for each
// pattern and category that matches nothing.
func (s *session) follow(ctx context.Context, want wanted, missing map[gvr.Ref]error) (*mux.Mux, error) {
	served, err := s.srv.conn.Resolver().Watchables(ctx)
	var part *discovery.UnavailableError
	if err != nil && !(errors.As(err, &part) && len(part.GroupVersions) > 0) {
		return nil, s.srv.explain(err)
	}
	if part != nil {
		printMessage(s.streams.ErrOut, "these APIs do not answer yet: %v", part)
	}
	namespaces := s.namespaces()
	waiting := ": waiting"
	if s.opts.end.untilSynced {
		waiting = ""
	}
	lines := newStatusPrinter(s.streams.ErrOut, served, namespaces, waiting)
	if s.retries != nil {
		lines.before = s.retries.settle
	}
	for _, t := range want.targets {
		if err := missing[t.ref]; err != nil {
			lines.missing(t.ref, err)
		}
	}
	anywhere := s.unmatched(want, served, nil)
	for _, what := range s.unmatched(want, served, namespaces) {
		problem := "matches only cluster-scoped types, which need -A"
		if slices.Contains(anywhere, what) {
			problem = s.whyUnmatched(ctx, what)
		}
		printMessage(s.streams.ErrOut, "%s: %s%s", what, problem, waiting)
	}
	opts := s.streamOptions()
	opts.Name = want.name()
	log := s.logHandler()
	log.follows = true
	opts.Logger = slog.New(log)
	o := &follow.Options{
		Source:        func(gvr.Resource) (stream.Options, stream.Run) { return opts, s.streamRun() },
		UntilSynced:   s.opts.end.untilSynced,
		StatusChanged: lines.changed,
	}
	if m := s.opts.muxOptions(); m != nil {
		o.Mux = *m
	}
	if s.follows, err = follow.New(s.srv.conn.Resolver(), s.client, s.opts.selection(want, namespaces), o); err != nil {
		return nil, err
	}
	return s.follows.Mux, nil
}

// namespaces returns those that are requested; none means all.
func (s *session) namespaces() []string {
	if s.opts.what.allNamespaces {
		return nil
	}
	if len(s.opts.conn.namespaces) > 0 {
		return s.opts.conn.namespaces
	}
	return []string{s.srv.namespace}
}

const categoryPrefix = "category "

// whyUnmatched returns why a pattern or a category, as unmatched returns it, matches no type in any namespace.
func (s *session) whyUnmatched(ctx context.Context, what string) string {
	name, isCategory := strings.CutPrefix(what, categoryPrefix)
	if isCategory {
		_, err := s.srv.conn.Resolver().Resolve(ctx, gvr.Ref{Name: name})
		var none *discovery.NotFoundError
		if errors.As(err, &none) && len(none.Category) > 0 {
			return "no type of it can be watched"
		}
	}
	return "matches no served type"
}

// unmatched returns the patterns and categories that match none of these resources in these namespaces.
func (s *session) unmatched(want wanted, resources []gvr.Resource, namespaces []string) []string {
	var unmatched []string
	check := func(what string, one wanted) {
		selection := s.opts.selection(one, namespaces)
		if !slices.ContainsFunc(resources, func(r gvr.Resource) bool {
			selected, _ := selection.Selects(r) // check has validated the selection
			return selected
		}) {
			unmatched = append(unmatched, what)
		}
	}
	for _, p := range want.patterns {
		check(p, wanted{patterns: []string{p}})
	}
	for _, c := range want.categories {
		check(categoryPrefix+c, wanted{categories: []string{c}})
	}
	return unmatched
}

// checkSeen returns an error if a run that has ended did not see everything that is wanted: scripts must not take a
// part for the whole.
func (s *session) checkSeen(want wanted, status mux.Status) error {
	var unseen []string
	if s.follows == nil { // types that can't be watched are errors
		for _, source := range status.Sources {
			named := slices.ContainsFunc(s.objects, func(f found) bool { return f.name != "" && f.key() == source.Key })
			if named && source.Stream != nil && source.Stream.Objects == 0 {
				unseen = append(unseen, source.Key)
			}
		}
		return s.opts.notSeen(unseen)
	}
	return s.checkFollowed(want)
}

// checkFollowed is checkSeen for followed types.
func (s *session) checkFollowed(want wanted) error {
	var unseen []string
	var followed []gvr.Resource
	status := s.follows.Status()
	for _, r := range status.Resources {
		switch r.State {
		case follow.Unserved:
			unseen = append(unseen, r.Ref.String())
			continue
		case follow.Watching:
		default:
			unseen = append(unseen, r.Resource.String())
		}
		followed = append(followed, r.Resource)
	}
	unseen = append(unseen, s.unmatched(want, followed, s.namespaces())...)
	unseen = append(unseen, s.unavailable(want, status.Discovery)...)
	return s.opts.notSeen(unseen)
}

func (o *watchOptions) notSeen(unseen []string) error {
	if len(unseen) == 0 {
		return nil
	}
	flag := "--until-synced: "
	if o.get {
		flag = ""
	}
	return fmt.Errorf("%snot seen: %s (--allow-missing permits that)", flag, joinNames(unseen))
}

// unavailable returns the APIs that did not answer, by Status.Discovery, and may have types that a pattern or a
// category selects.
func (s *session) unavailable(want wanted, err error) []string {
	if err == nil || len(want.patterns)+len(want.categories) == 0 {
		return nil
	}
	var part *discovery.UnavailableError
	if !errors.As(err, &part) || len(part.GroupVersions) == 0 {
		return []string{"what the server serves"}
	}
	anyName := wanted{categories: want.categories}
	for _, p := range want.patterns {
		_, group, ok := strings.Cut(p, ".")
		if ok {
			group = "." + group
		}
		anyName.patterns = append(anyName.patterns, "*"+group)
	}
	selection := s.opts.selection(anyName, nil)
	var down []string
	for _, gv := range part.GroupVersions {
		r := gvr.Resource{Categories: want.categories, Verbs: []string{"list", "watch"}}
		r.GroupVersionResource = gv.WithResource("\x00") // an --exclude that matches it matches all names
		if selected, _ := selection.Selects(r); selected {
			down = append(down, strings.TrimSuffix(gv.String(), "/"))
		}
	}
	return down
}
