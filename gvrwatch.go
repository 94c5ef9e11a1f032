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
// and DELETED have one. [stream.Objects] leaves out the other events. [stream.Options] select namespaces, labels and
// fields, say where to begin, and how much of each object is delivered.
//
// # Promises
//
//   - At SYNCED every existing object has been delivered. From there to the next GAP, every change is delivered once
//     and in order.
//   - Every removal is reported, by uid, even if it happened during a GAP. No failure of the server is reported as a
//     removal.
//   - GAP marks every loss of history. Only the differences from what was delivered before follow it, then SYNCED.
//   - A dead connection is detected within 90 seconds. Failed requests are retried after random waits that grow.
//   - No goroutine is left when the loop has ended.
//
// Not promised: every intermediate state across a GAP, exactly-once delivery, a maximum delay. Package stream has the
// exact wording, and docs/promises.md the tests.
//
// # More
//
// Watch is for one type in a program that needs no more than its events. The other packages are for the rest:
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
	"context"
	"fmt"
	"iter"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Watch returns the sequence of events of the resource with this name: a plural, singular, short name, kind or list
// kind, with or without group and version ([gvr.ParseRef] has the spellings). Without Namespaces in opts it watches the
// whole cluster, whatever the namespace of the kubeconfig.
//
// A nil cfg means the configuration that kubectl would use: the current context of the files in $KUBECONFIG, or of
// ~/.kube/config, else the service account of the Pod. A nil opts means the defaults. opts is copied.
//
// Nothing happens before the sequence is ranged over. Each loop reads the configuration, resolves the name, creates a
// client, and runs a Stream of its own. So loops may run at the same time, unless opts has a Checkpoint. A program that
// watches several resources should create one client for all with [stream.NewClient].
//
// An error is final and the last value of a loop:
//
//   - The cause of ctx, if ctx has ended.
//   - A [*gvr.ParseError], if the name is empty or misspelled.
//   - A [*discovery.NotFoundError], a [*discovery.AmbiguousError], or a [*discovery.UnavailableError] if the server
//     does not answer when the loop begins. After that, the loop waits for the server.
//   - A [*stream.NotWatchableError] or a [*stream.OptionsError].
//   - An error of [stream.Stream.Events], which lists them.
//   - An error about the configuration.
func Watch(
	ctx context.Context, cfg *rest.Config, name string, opts *stream.Options,
) iter.Seq2[stream.Event, error] {
	var o stream.Options
	if opts != nil {
		o = *opts
		o.Namespaces = slices.Clone(opts.Namespaces)
		if opts.InvolvedObject != nil {
			o.InvolvedObject = opts.InvolvedObject.DeepCopy()
		}
	}
	return func(yield func(stream.Event, error) bool) {
		if ctx == nil {
			yield(stream.Event{}, &stream.OptionsError{Field: "ctx", Problem: "must not be nil"})
			return
		}
		s, err := open(ctx, cfg, name, &o)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			yield(stream.Event{}, err)
			return
		}
		s.Events(ctx)(yield)
	}
}

// open resolves the name and returns a Stream.
func open(ctx context.Context, cfg *rest.Config, name string, opts *stream.Options) (*stream.Stream, error) {
	ref, err := gvr.ParseRef(name)
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		if cfg, err = defaultConfig(); err != nil {
			return nil, err
		}
	}
	discoveryClient, err := discovery.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	resource, err := discovery.NewResolver(discoveryClient, nil).Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	return stream.New(client, resource, opts)
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
