package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// options are the flags.
type options struct {
	with    string // stream, cache or compact
	server  string // URL; empty means the current kubeconfig
	until   int    // reconciles before the report
	read    bool
	whole   bool // Secrets, not only their metadata
	serve   int  // Secrets of the server to start
	measure bool
	secrets int // with measure
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.StringVar(&o.with, "with", "stream", "stream, cache or compact")
	flags.StringVar(&o.server, "server", "", "URL of the server; default: the current kubeconfig")
	flags.IntVar(&o.until, "until", 1, "print the report after so many reconciles")
	flags.BoolVar(&o.read, "read", false, "read the Secret in each reconcile")
	flags.BoolVar(&o.whole, "whole", false, "keep and read whole Secrets instead of their metadata")
	flags.IntVar(&o.serve, "serve", 0, "be a server with so many Secrets instead")
	flags.BoolVar(&o.measure, "measure", false, "start a server and all three ways, and print a table")
	flags.IntVar(&o.secrets, "secrets", 100_000, "how many Secrets -measure creates")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("invalid argument %q: must be a flag", flags.Arg(0))
	case o.measure:
		return measure(ctx, o, os.Stdout)
	case o.serve > 0:
		return serve(ctx, o, os.Stdout)
	}
	cfg := &rest.Config{Host: o.server, QPS: -1}
	if o.server == "" {
		var err error
		if cfg, err = config.GetConfig(); err != nil {
			return err
		}
	}
	return manage(ctx, cfg, o, os.Stdout)
}
