// Devserver runs a real API server on loopback until a signal ends it: etcd and apiextensions-apiserver in one process,
// which serve CustomResourceDefinitions and their objects.
//
//	go run ./examples/start devserver -dir ~/.gvrwatch-dev
//	kubectl --kubeconfig ~/.gvrwatch-dev/kubeconfig api-resources
//
// When the server is ready, it prints one line of JSON: {"kubeconfig":"…","server":"https://127.0.0.1:…"}.
// It exits with status 0 after a signal, 1 after an error, and 2 if the command line is invalid.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// startTimeout is many times the usual start time of the server.
const startTimeout = time.Minute

func main() {
	// If a terminal ends (SIGHUP) or what reads stdout (SIGPIPE), the server has to be stopped and its folder removed.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run runs the server until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var o devserver.Options
	f := flag.NewFlagSet("devserver", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.Dir, "dir", "",
		"folder for data, port and credentials, which remain; empty means a temporary one, removed at the end")
	f.IntVar(&o.Port, "port", 0, "port on 127.0.0.1; 0 means the last one with the same -dir, else a free one")
	demo := f.Bool("demo", false,
		"serve two custom resources, robots and planets, and change their objects all the time")
	verbose := f.Bool("v", false, "write the server's logs to stderr")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // Parse has printed the error
	case f.NArg() > 0:
		fmt.Fprintf(errOut, "devserver: unexpected argument %q\n", f.Arg(0))
		return 2
	case o.Port < 0 || o.Port > 65535:
		fmt.Fprintf(errOut, "devserver: -port=%d: must be between 0 and 65535\n", o.Port)
		return 2
	}
	if *verbose {
		o.LogTo = errOut
	}
	if err := serve(ctx, &o, *demo, out); err != nil {
		fmt.Fprintf(errOut, "devserver: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, o *devserver.Options, demo bool, out io.Writer) error {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := devserver.Start(starting, o)
	if err != nil && ctx.Err() != nil {
		return nil // a signal is a normal end
	} else if err != nil {
		return err
	}
	if demo {
		stop, err := startDemo(ctx, s)
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil || stop == nil {
			return errors.Join(err, s.Stop())
		}
		defer stop()
	}
	err = json.NewEncoder(out).Encode(struct {
		Kubeconfig string `json:"kubeconfig"`
		Server     string `json:"server"`
	}{s.Kubeconfig(), s.URL()})
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, s.Stop())
}

// startDemo writes objects until stop is called.
func startDemo(ctx context.Context, s *devserver.Server) (stop func(), err error) {
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		return nil, err
	}
	err = devserver.CreateCRDs(ctx, client, devserver.DemoRobots, devserver.DemoPlanets)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for ctx.Err() == nil {
			devserver.WriteDemo(ctx, client) // again if the server did not answer
		}
	}()
	return func() { cancel(); <-written }, nil
}
