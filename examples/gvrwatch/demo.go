package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

func newDemo(streams genericiooptions.IOStreams) *cobra.Command {
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show real events of custom resources, from a real API server",
		Long: "Start a real API server in this process, define two custom resources (Robot is namespaced, Planet is\n" +
			"cluster-scoped), create, change and delete some objects, and show the events that gvrwatch reports.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if length <= 0 {
				return fmt.Errorf("--for=%v: must be more than zero", length)
			}
			return asRunError(runDemo(cmd.Context(), streams, length))
		},
	}
	cmd.Flags().DurationVar(&length, "for", 20*time.Second, "How long the demo lasts.")
	return cmd
}

func runDemo(ctx context.Context, streams genericiooptions.IOStreams, length time.Duration) (err error) {
	fmt.Fprintln(streams.Out, "Starting a real API server (etcd and apiextensions-apiserver) in this process ...")
	began := time.Now()
	srv, err := startDevserver(ctx, nil)
	if err != nil || srv == nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	fmt.Fprintf(streams.Out, "%s is ready after %v.\n", srv.URL(), time.Since(began).Round(10*time.Millisecond))

	ctx, cancel := context.WithTimeoutCause(ctx, length, errTimeout)
	defer cancel()
	err = showDemo(ctx, streams, srv)
	if ctx.Err() != nil {
		err = nil // the end of ctx is a normal end, and causes other errors
	}
	return err
}

func showDemo(ctx context.Context, streams genericiooptions.IOStreams, srv *devserver.Server) error {
	client, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		return err
	}
	if err := devserver.CreateCRDs(ctx, client, robots, planets); err != nil {
		return err
	}
	dc, err := clientdiscovery.NewDiscoveryClientForConfig(srv.Config())
	if err != nil {
		return err
	}
	resolver := discovery.NewResolver(dc, nil)
	var sources []mux.Source
	for _, name := range []string{"robots", "planet"} {
		r, err := resolveNew(ctx, resolver, name)
		if err != nil {
			return err
		}
		s, err := stream.New(client, r, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(streams.Out, "%q is %s: watching it.\n", name, r)
		sources = append(sources, s)
	}

	merged, err := mux.New(nil, sources...)
	if err != nil {
		return err
	}

	fmt.Fprintln(streams.Out, "The server delays the first objects of a new CustomResourceDefinition by two seconds.")

	ctx, stopWriting := context.WithCancelCause(ctx)
	written := make(chan struct{})
	defer func() { stopWriting(nil); <-written }()
	go func() {
		defer close(written)
		if err := write(ctx, client); err != nil {
			stopWriting(err) // ends the watch as well
		}
	}()

	p := newDemoPrinter(streams.Out)
	defer p.summary()
	for ev, err := range merged.Events(ctx) {
		if err != nil {
			return err
		}
		if err := p.print(time.Now(), ev); err != nil {
			return err
		}
	}
	return nil
}

// resolveNew resolves a name whose CRD has just been created. It polls, because a resource is served a moment before
// discovery lists it.
func resolveNew(ctx context.Context, r *discovery.Resolver, name string) (gvr.Resource, error) {
	for {
		res, err := r.Resolve(ctx, gvr.Ref{Name: name})
		var notFound *discovery.NotFoundError
		if !errors.As(err, &notFound) {
			return res, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return res, context.Cause(ctx)
		}
	}
}
