package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// session is one run of watch.
type session struct {
	opts    *watchOptions
	srv     *server
	client  dynamic.Interface
	columns *tables.Tables // nil unless the output or the recording has the server's columns
	streams genericiooptions.IOStreams
	tracker *checkpoint.Tracker // nil without --checkpoint
	follows *follow.Mux         // nil if no type is followed
	objects []found             // what is watched if no type is followed
	sources []func() error      // add the sources that the Mux does not have yet
	resumes bool                // the file of --checkpoint had checkpoints
	retries *retries
	leftOut int // events on which the template can't be used
}

// found is a type that is served or, with a name, one object of it.
type found struct {
	gvr.Resource // what was found
	name         string
}

func (o *watchOptions) session(
	ctx context.Context, streams genericiooptions.IOStreams, store *file.Store,
) (*session, error) {
	srv, err := o.conn.connect(streams.ErrOut)
	if err != nil {
		return nil, err
	}
	s := &session{opts: o, srv: srv, streams: streams, retries: &retries{w: streams.ErrOut}}
	cfg := srv.config
	if o.serverColumns() {
		whole := o.end.condition != "" || o.filter.needsContent() || o.record.file != "" || o.live
		cfg, s.columns = tables.Wrap(cfg, whole)
	}
	drop := !o.print.needsManagedFields() && o.record.file == ""
	s.client, err = stream.NewClient(cfg, &stream.ClientOptions{DropManagedFields: drop})
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	if store == nil {
		return s, nil
	}
	s.resumes = len(store.Keys()) > 0
	s.tracker, err = srv.conn.Tracker(ctx, store, &checkpoint.Options{Logger: slog.New(logHandler{w: streams.ErrOut})})
	return s, srv.explain(err)
}

// open returns a Mux of the wanted resources. It resolves all names before any watch begins, so one misspelled name is
// reported at once.
func (s *session) open(ctx context.Context, want *wanted) (*mux.Mux, error) {
	var targets []target
	missing := map[gvr.Ref]error{}
	for _, t := range want.targets {
		r, err := s.srv.conn.Resolver().Resolve(ctx, t.ref)
		switch {
		case err == nil:
			s.objects = append(s.objects, found{r, t.name})
		case !mayAppear(err):
			return nil, s.srv.explain(err)
		case t.name == "" && s.isCategory(ctx, t.ref, err, want.follows):
			want.categories, want.follows = append(want.categories, t.ref.Name), true
			continue
		default:
			missing[t.ref] = err
		}
		targets = append(targets, t)
	}
	want.targets = targets
	want.several = len(want.patterns)+len(want.categories) > 0 || len(targets) > 1
	if want.follows {
		return s.follow(ctx, *want, missing)
	}
	for _, t := range targets {
		if err := missing[t.ref]; err != nil {
			return nil, s.srv.explain(err)
		}
	}
	return s.merge(want)
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
	all, _ := s.srv.conn.Resolver().Watchables(ctx) // Resolve has just read this, as far as it is readable
	return slices.ContainsFunc(all, func(r gvr.Resource) bool {
		return slices.ContainsFunc(r.Categories, func(c string) bool { return strings.EqualFold(c, ref.Name) })
	})
}

// merge returns a Mux that watches exactly the objects found.
func (s *session) merge(want *wanted) (*mux.Mux, error) {
	m, err := mux.New(s.opts.muxOptions())
	if err != nil {
		return nil, err
	}
	types := map[string]bool{}
	versions := map[schema.GroupResource]gvr.Resource{}
	opts, run := s.streamOptions(), s.streamRun()
	if s.opts.end.untilSynced {
		run.Until = stream.UntilSynced // with a checkpoint: print the differences, not the events in between
	}
	for i, f := range s.objects {
		if slices.ContainsFunc(s.objects[:i], func(other found) bool { return other.key() == f.key() }) {
			continue // named twice: po,pods
		}
		other, twice := versions[f.GroupResource()]
		if twice && s.tracker != nil && other.Version != f.Version {
			return nil, fmt.Errorf("%s and %s are the same objects, and a checkpoint keeps only one version: omit one",
				other, f.Resource)
		}
		versions[f.GroupResource()] = f.Resource
		types[f.String()] = true
		opts.Name, run.Key = f.name, ""
		if s.tracker != nil && f.name != "" {
			run.Key = f.checkpointKey()
		}
		opts.Namespaces = nil // as in kubectl, -n does not concern a cluster-scoped type
		if f.Namespaced {
			opts.Namespaces = s.namespaces()
		}
		source, err := stream.New(s.client, s.readable(f.Resource), &opts)
		if err != nil {
			return nil, err
		}
		sequence, key := source.With(run), &mux.SourceOptions{Key: f.key()}
		s.sources = append(s.sources, func() error { return m.Add(sequence, key) })
	}
	want.several = len(types) > 1
	first := len(s.sources)
	if s.opts.get { // as kubectl get does, one after the other, in the order of the command line
		first = min(1, first)
	}
	return m, s.start(first)
}

// start adds the next sources to the Mux.
func (s *session) start(n int) error {
	for _, add := range s.sources[:n] {
		if err := add(); err != nil {
			return err
		}
	}
	s.sources = s.sources[n:]
	return nil
}

// readable returns r, of which a run that ends with SYNCED needs only the list: without verbs, both are assumed.
func (s *session) readable(r gvr.Resource) gvr.Resource {
	if s.opts.end.untilSynced && slices.Contains(r.Verbs, "list") {
		r.Verbs = nil
	}
	return r
}

// key returns the key of the source in the Mux, which has the version, so that two versions of a type can be watched.
func (f found) key() string { return strings.TrimSuffix(f.String()+"/"+f.name, "/") }

// checkpointKey returns the key of an object with a name: TYPE.GROUP_NAME, or a hash in place of a name that has
// characters that keys may not have, or is too long.
func (f found) checkpointKey() string {
	if key := f.GroupResource().String() + "_" + f.name; checkpointKey.MatchString(key) {
		return key
	}
	sum := sha256.Sum256([]byte(f.name))
	return f.GroupResource().String() + "_" + hex.EncodeToString(sum[:8])
}

var checkpointKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,200}$`)

// muxOptions returns options without a Logger: the error of a source ends the program, which prints it.
func (o *watchOptions) muxOptions() *mux.Options {
	if o.begin.latest {
		return &mux.Options{Overflow: mux.Latest}
	}
	return nil
}

func (s *session) streamOptions() stream.Options {
	return stream.Options{
		Objects:       s.opts.objectsMode(),
		LabelSelector: s.opts.what.labelSelector,
		FieldSelector: s.opts.what.fieldSelector,
		Logger:        slog.New(s.logHandler()),
	}
}

// logHandler returns the handler of the Streams.
func (s *session) logHandler() logHandler {
	h := logHandler{w: s.streams.ErrOut, debug: s.opts.conn.verbosity >= requestVerbosity}
	if len(s.objects) != 1 {
		h.retries = s.retries
	}
	return h
}

func (s *session) streamRun() stream.Run {
	return stream.Run{Start: s.opts.begin.start(), Checkpoint: s.tracker}
}
