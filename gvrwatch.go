// Package gvrwatch watches any resource of any Kubernetes API server by name, custom resources included, without
// generated types. [Watch] turns a name such as "deploy" into one sequence of events, which continues through closed
// connections, expired versions and restarts of the server. It reports every deletion and every loss of history, and
// keeps about 70 bytes per object instead of a cache.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"os"
//		"os/signal"
//
//		"github.com/gvrwatch/gvrwatch"
//	)
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
//		defer stop()
//		for ev, err := range gvrwatch.Watch(ctx, nil, "deploy", nil) {
//			if ctx.Err() != nil {
//				return // Ctrl-C
//			}
//			if err != nil {
//				log.Fatal(err)
//			}
//			fmt.Println(ev)
//		}
//	}
//
// It prints what exists in the cluster of your kubeconfig, then SYNCED, then each change:
//
//	ADDED default/web@1021
//	SYNCED @1040
//	MODIFIED default/web@1052
//	DELETED default/web@1077
//
// An event has the object: ev.Object.GetName(), ev.Object.GetLabels(), ev.Object.Object["spec"]. Only ADDED, MODIFIED
// and DELETED have one. [stream.Options] select namespaces, labels and fields, and say how much of each object is
// delivered.
//
// At SYNCED every existing object has been delivered, and every later change and deletion will be. GAP marks each loss
// of history; only the differences follow it, then SYNCED. Package stream has all promises, and what is not promised.
//
// # More
//
// Watch is enough for the events of one type, and a reconcile loop over them. [Connect] is for several types, statuses,
// checkpoints, stores and waiting: it returns a [Connection], from which come Streams and what "*.example.com" matches.
// [ConnectTo] connects to a context of the kubeconfig, for several clusters.
//
// The other packages:
//
//   - gvr: parse names. discovery: resolve them, and follow what the server serves.
//   - stream: watch one resource, with its status and position, through a client that many Streams share.
//   - mux: merge many Streams. mux/follow: watch all that "*.example.com" matches, as types come and go.
//   - checkpoint, checkpoint/file and checkpoint/configmap: continue after a restart.
//   - stream/store: objects in memory. stream/controller: a reconcile loop. stream/condition: wait for objects.
//   - stream/informer: client-go's interfaces. stream/informer/factory: its factory of dynamic informers.
//   - stream/streamtest: a server with scripted faults, for your tests.
package gvrwatch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Watch returns the sequence of events of the resource with this name, as [Connection.Watch] of [Connect] with cfg
// does. Nothing happens before the sequence is ranged over: each loop connects again, so loops may run at the same
// time. A program that watches several resources should Connect once.
func Watch(
	ctx context.Context, cfg *rest.Config, name string, opts *stream.Options,
) iter.Seq2[stream.Event, error] {
	o := clone(opts)
	return func(yield func(stream.Event, error) bool) {
		c, err := Connect(cfg)
		if err != nil {
			yield(stream.Event{}, err)
			return
		}
		c.Watch(ctx, name, &o)(yield)
	}
}

// Connection is a cluster, with a client and a resolver that all that comes from it share. Its methods may be called
// from any goroutine.
type Connection struct {
	config   *rest.Config
	client   dynamic.Interface
	resolver *discovery.Resolver
}

// Connect returns a Connection. It makes no request. cfg is copied; nil means the configuration that kubectl would use:
// the current context of the files in $KUBECONFIG, or of ~/.kube/config, else the service account of the Pod. An error
// is about the configuration.
func Connect(cfg *rest.Config) (*Connection, error) {
	if cfg == nil {
		var err error
		if cfg, err = defaultConfig(); err != nil {
			return nil, err
		}
	}
	cfg = rest.CopyConfig(cfg)
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	discoveryClient, err := discovery.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Connection{cfg, client, discovery.NewResolver(discoveryClient, 0)}, nil
}

// ConnectTo is Connect with a context of the kubeconfig, as kubectl --context is, for programs that watch several
// clusters. An empty name means Connect(nil). Any other never means the service account of the Pod: if the kubeconfig
// lacks it, the error is a [*stream.OptionsError].
func ConnectTo(kubeContext string) (*Connection, error) {
	if kubeContext == "" {
		return Connect(nil)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	raw, err := rules.Load()
	var cfg *rest.Config
	switch {
	case err != nil:
	case raw.Contexts[kubeContext] == nil:
		return nil, invalid.New("kubeContext", kubeContext, fmt.Sprintf(
			"must be one of the kubeconfig, which has %q", slices.Sorted(maps.Keys(raw.Contexts))))
	default:
		cfg, err = clientcmd.NewNonInteractiveClientConfig(*raw, kubeContext, nil, rules).ClientConfig()
		if clientcmd.IsEmptyConfig(err) { // which says that there is no kubeconfig
			err = fmt.Errorf("it has no server for the cluster %q of the context %q",
				raw.Contexts[kubeContext].Cluster, kubeContext)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("gvrwatch: the kubeconfig can't be used: %w", err)
	}
	return Connect(cfg)
}

// defaultConfig returns the configuration that kubectl would use.
func defaultConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("gvrwatch: no cluster configured: must have cfg, a kubeconfig or a Pod: %w", err)
	case err != nil:
		return nil, fmt.Errorf("gvrwatch: the kubeconfig can't be used: %w", err)
	}
	return cfg, nil
}

var errNotMade = invalid.New("Connection", "", "must be made with Connect")

func (c *Connection) check(ctx context.Context) error {
	switch {
	case c == nil || c.client == nil:
		return errNotMade
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	}
	return context.Cause(ctx)
}

// Config returns a copy of the configuration, for other clients of the cluster.
func (c *Connection) Config() *rest.Config {
	if c == nil || c.config == nil {
		return nil
	}
	return rest.CopyConfig(c.config)
}

// Client returns the client, which [stream.NewClient] has made.
func (c *Connection) Client() dynamic.Interface {
	if c == nil {
		return nil
	}
	return c.client
}

// Resolver returns the resolver of names.
func (c *Connection) Resolver() *discovery.Resolver {
	if c == nil {
		return nil
	}
	return c.resolver
}

// Watch returns the sequence of events of the resource with this name: a plural, singular, short name, kind or list
// kind, with or without group and version ([gvr.ParseRef] has the spellings). Without Namespaces in opts it watches the
// whole cluster, whatever the namespace of the kubeconfig. A nil opts means the defaults. opts is copied.
//
// Nothing happens before the sequence is ranged over. Each loop resolves the name and runs a Stream of its own, so
// loops may run at the same time.
//
// An error is final and the last value of a loop: one that [Connection.Stream] returns, or [stream.Stream.Events]
// yields. So a server that does not answer at the start ends the loop, and one that fails later does not.
func (c *Connection) Watch(
	ctx context.Context, name string, opts *stream.Options,
) iter.Seq2[stream.Event, error] {
	o := clone(opts)
	return func(yield func(stream.Event, error) bool) {
		s, err := c.Stream(ctx, name, &o)
		if err != nil {
			yield(stream.Event{}, err)
			return
		}
		s.Events(ctx)(yield)
	}
}

// Stream resolves a name, as Watch does, and returns a Stream of the resource: it has a status, and loops that begin at
// a version or a checkpoint ([stream.Stream.With]). An error is
//
//   - the cause of ctx, if ctx has ended,
//   - a [*gvr.ParseError], if the name is empty or misspelled,
//   - a [*discovery.NotFoundError], a [*discovery.AmbiguousError], or a [*discovery.UnavailableError] if the server
//     cannot be read: neither Stream nor Watch waits for that, while a Mux of Follow does,
//   - a [*stream.NotWatchableError] or a [*stream.OptionsError].
func (c *Connection) Stream(ctx context.Context, name string, opts *stream.Options) (*stream.Stream, error) {
	resource, err := c.resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	return stream.New(c.client, resource, opts)
}

// resolve returns the resource of a name, or an error of those that Stream returns.
func (c *Connection) resolve(ctx context.Context, name string) (r gvr.Resource, err error) {
	if err := c.check(ctx); err != nil {
		return r, err
	}
	ref, err := gvr.ParseRef(name)
	if err != nil {
		return r, err
	}
	r, err = c.resolver.Resolve(ctx, ref)
	if err != nil && ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	return r, err
}

// Follow returns a Mux that watches everything that a selection matches, as types come and go: see [follow.New], whose
// errors it returns. It makes no request. opts may be nil. What may not be watched causes neither an event nor an
// error: [follow.Options].StatusChanged receives it.
func (c *Connection) Follow(sel follow.Selection, opts *follow.Options) (*follow.Mux, error) {
	if err := c.check(context.Background()); err != nil {
		return nil, err
	}
	return follow.New(c.resolver, c.client, sel, opts)
}

// Tracker returns a Tracker that keeps its checkpoints in store ([checkpoint.NewTracker]). Unless opts has a Cluster,
// it asks the server for the identity of the cluster ([Connection.Cluster]). opts is copied and may be nil.
func (c *Connection) Tracker(
	ctx context.Context, store checkpoint.Store, opts *checkpoint.Options,
) (*checkpoint.Tracker, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	o := *cmp.Or(opts, &checkpoint.Options{})
	if o.Cluster == (checkpoint.Cluster{}) {
		var err error
		if o.Cluster, err = c.Cluster(ctx); err != nil {
			return nil, err
		}
	}
	return checkpoint.NewTracker(store, &o)
}

// clone returns a copy of opts that later changes do not reach.
func clone(opts *stream.Options) stream.Options {
	o := *cmp.Or(opts, &stream.Options{})
	o.Namespaces = slices.Clone(o.Namespaces)
	return o
}
