// Demo starts a real API server in its process, defines two custom resources (Robot is namespaced, Planet is
// cluster-scoped), creates, changes and deletes some objects, and prints the events that gvrwatch reports.
//
//	go run ./examples/start demo
//
// It needs no cluster, and leaves nothing behind. It ends after 20 seconds (-for), or at a signal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// startTimeout is many times the usual start time of the server.
const startTimeout = time.Minute

func main() {
	length := flag.Duration("for", 20*time.Second, "how long the demo lasts")
	flag.Parse()
	if *length <= 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "demo: takes no arguments, and -for must be more than zero")
		os.Exit(2)
	}
	// If a terminal ends (SIGHUP) or what reads stdout (SIGPIPE), the server has to be stopped and its folder removed.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err := run(ctx, os.Stdout, *length)
	stop()
	if errors.Is(err, syscall.EPIPE) {
		err = nil // what reads the output has seen enough
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run shows the demo until the length has passed or ctx ends: both are a normal end.
func run(ctx context.Context, out io.Writer, length time.Duration) (err error) {
	fmt.Fprintln(out, "Starting a real API server (etcd and apiextensions-apiserver) in this process ...")
	began := time.Now()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	srv, err := devserver.Start(starting, nil)
	if err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	fmt.Fprintf(out, "%s is ready after %v.\n", srv.URL(), time.Since(began).Round(10*time.Millisecond))

	ctx, end := context.WithTimeout(ctx, length)
	defer end()
	err = show(ctx, out, srv)
	if ctx.Err() != nil {
		err = nil // the end of ctx causes other errors
	}
	return err
}

func show(ctx context.Context, out io.Writer, srv *devserver.Server) error {
	cluster, err := gvrwatch.Connect(srv.Config())
	if err != nil {
		return err
	}
	err = devserver.CreateCRDs(ctx, cluster.Client(), devserver.DemoRobots, devserver.DemoPlanets)
	if err != nil {
		return err
	}
	var sources []mux.Source
	for _, name := range []string{"robots", "planet"} {
		s, err := streamOfNew(ctx, cluster, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%q is %s: watching it.\n", name, s.Resource())
		sources = append(sources, s)
	}

	merged, err := mux.New(nil, sources...)
	if err != nil {
		return err
	}

	fmt.Fprintln(out, "The server delays the first objects of a new CustomResourceDefinition by two seconds.")

	ctx, stopWriting := context.WithCancelCause(ctx)
	written := make(chan struct{})
	defer func() { stopWriting(nil); <-written }()
	go func() {
		defer close(written)
		if err := devserver.WriteDemo(ctx, cluster.Client()); err != nil {
			stopWriting(err) // ends the watch as well
		}
	}()

	p := newPrinter(out)
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

// streamOfNew returns a Stream of a resource whose CRD has just been created. It polls, because a resource is served a
// moment before discovery lists it.
func streamOfNew(ctx context.Context, cluster *gvrwatch.Connection, name string) (*stream.Stream, error) {
	for {
		s, err := cluster.Stream(ctx, name, nil)
		var notFound *discovery.NotFoundError
		if !errors.As(err, &notFound) {
			return s, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
