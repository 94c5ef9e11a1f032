package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// session is one run of watch.
type session struct {
	*watchOptions
	srv     *server
	streams genericiooptions.IOStreams
	tracker *checkpoint.Tracker // nil without --checkpoint
	follows *follow.Mux         // nil if no type is followed
}

func (o *watchOptions) session(
	ctx context.Context, streams genericiooptions.IOStreams, store checkpoint.Store,
) (*session, error) {
	srv, err := connect(o.flags, streams.ErrOut)
	if err != nil {
		return nil, err
	}
	s := &session{watchOptions: o, srv: srv, streams: streams}
	if store == nil {
		return s, nil
	}
	cluster, err := stream.ClusterOf(ctx, srv.config)
	if err != nil {
		return nil, srv.explain(err)
	}
	s.tracker, err = checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster: cluster, Logger: slog.New(logHandler{w: streams.ErrOut}),
	})
	return s, err
}

// open returns a Mux of the wanted resources. It resolves all names before any watch begins, so one misspelled name is
// reported at once.
func (s *session) open(ctx context.Context, want *wanted) (*mux.Mux, error) {
	var found []gvr.Resource
	var names []gvr.Ref
	missing := map[gvr.Ref]error{}
	for _, ref := range want.names {
		r, err := s.srv.resolver.Resolve(ctx, ref)
		switch {
		case err == nil:
			found = append(found, r)
		case !mayAppear(err):
			return nil, s.srv.explain(err)
		case s.isCategory(ctx, ref, err, want.follows):
			want.categories, want.follows = append(want.categories, ref.Name), true
			continue
		default:
			missing[ref] = err
		}
		names = append(names, ref)
	}
	want.names = names
	want.several = len(want.patterns)+len(want.categories) > 0 || len(want.names) > 1
	if want.follows {
		return s.follow(ctx, *want, missing)
	}
	for _, ref := range names {
		if err := missing[ref]; err != nil {
			return nil, s.srv.explain(err)
		}
	}
	return s.merge(found, want)
}

// mayAppear reports whether a name that failed to resolve with err may be served later: no type has it now, or some
// APIs do not answer. It is false for an invalid or ambiguous name, and if the server as a whole does not answer.
func mayAppear(err error) bool {
	var none *discovery.NotFoundError
	var down *discovery.UnavailableError
	return errors.As(err, &none) || errors.As(err, &down) && len(down.GroupVersions) > 0
}

// isCategory reports whether ref, which can't be resolved because of err, names a category: one with types that can be
// watched or, with follows, any.
func (s *session) isCategory(ctx context.Context, ref gvr.Ref, err error, follows bool) bool {
	if ref != (gvr.Ref{Name: ref.Name}) {
		return false
	}
	var none *discovery.NotFoundError
	if errors.As(err, &none) && follows {
		return len(none.Category) > 0
	}
	all, _ := s.srv.resolver.Watchables(ctx) // Resolve has just read this, as far as it is readable
	return slices.ContainsFunc(all, func(r gvr.Resource) bool {
		return slices.ContainsFunc(r.Categories, func(c string) bool { return strings.EqualFold(c, ref.Name) })
	})
}

// merge returns a Mux that watches exactly these resources.
func (s *session) merge(resources []gvr.Resource, want *wanted) (*mux.Mux, error) {
	var sources []mux.Source
	versions := map[schema.GroupResource]gvr.Resource{}
	opts := s.streamOptions()
	if s.untilSynced {
		opts.UntilSynced = true // with a checkpoint: print the differences, not the events in between
	}
	for i, r := range resources {
		if slices.ContainsFunc(resources[:i], func(other gvr.Resource) bool { return other.String() == r.String() }) {
			continue // named twice: po,pods
		}
		other, twice := versions[r.GroupResource()]
		if twice && s.tracker != nil {
			return nil, fmt.Errorf("%s and %s are the same objects, and a checkpoint keeps only one version: omit one",
				other, r)
		}
		versions[r.GroupResource()] = r
		// A cluster-scoped resource ignores the kubeconfig's namespace, which is a default. A namespace on the command
		// line makes stream.New fail for it.
		if !s.allNamespaces && (r.Namespaced || *s.flags.Namespace != "") {
			opts.Namespaces = []string{s.srv.namespace}
		} else {
			opts.Namespaces = nil
		}
		source, err := stream.New(s.srv.client, r, &opts)
		if err != nil {
			return nil, err
		}
		sources = append(sources, versioned{source, r.String()})
	}
	want.several = len(sources) > 1
	return mux.New(s.muxOptions(), sources...)
}

// versioned is a Stream whose key includes the version, so that two versions of a resource can be watched.
type versioned struct {
	*stream.Stream
	key string
}

func (v versioned) Key() string { return v.key }

// muxOptions returns options without a Logger: the error of a source ends the program, which prints it.
func (s *session) muxOptions() *mux.Options {
	if s.latest {
		return &mux.Options{Latest: true}
	}
	return nil
}

func (s *session) streamOptions() stream.Options {
	objects := stream.Metadata // all that tables and names show
	if s.output == "json" || s.output == "yaml" {
		objects = stream.Raw
	}
	return stream.Options{
		Objects:       objects,
		LabelSelector: s.labelSelector,
		FieldSelector: s.fieldSelector,
		Logger:        slog.New(logHandler{w: s.streams.ErrOut}),
		Checkpoint:    s.tracker,
	}
}
