package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// startTimeout is many times the usual start time of the server.
const startTimeout = time.Minute

func newDevserver(streams genericiooptions.IOStreams) *cobra.Command {
	var o devserver.Options
	var verbose bool
	cmd := &cobra.Command{
		Use:   "devserver",
		Short: "Run a real API server on loopback until a signal ends it",
		Long: "Run a real API server (etcd and apiextensions-apiserver in this process, on 127.0.0.1) that serves\n" +
			"CustomResourceDefinitions and their objects. When it is ready, one line of JSON goes to stdout:\n" +
			`{"kubeconfig":"…","server":"https://127.0.0.1:…"}. It runs until a signal ends it.`,
		Example: "  gvrwatch devserver --dir /tmp/dev --port 16443\n" +
			"  kubectl --kubeconfig /tmp/dev/kubeconfig api-resources",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Port < 0 || o.Port > 65535 {
				return fmt.Errorf("--port=%d: must be between 0 and 65535", o.Port)
			}
			if verbose {
				o.LogTo = streams.ErrOut
			}
			return asRunError(runDevserver(cmd.Context(), streams, &o))
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "",
		"Folder for data, port and credentials, which remain. Empty means a temporary one, removed at the end.")
	cmd.Flags().IntVar(&o.Port, "port", 0,
		"Port on 127.0.0.1. Zero means the last one with the same --dir, else a free one.")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "Write the server's logs to stderr.")
	return cmd
}

func runDevserver(ctx context.Context, streams genericiooptions.IOStreams, o *devserver.Options) error {
	s, err := startDevserver(ctx, o)
	if err != nil || s == nil {
		return err
	}
	out := documents{w: streams.Out}
	err = out.print(struct {
		Kubeconfig string `json:"kubeconfig"`
		Server     string `json:"server"`
	}{s.Kubeconfig(), s.URL()})
	if err == nil {
		<-ctx.Done()
	}
	if stopErr := s.Stop(); stopErr != nil {
		return stopErr
	}
	return err
}

// startDevserver returns neither a server nor an error if ctx ends first: a signal is a normal end.
func startDevserver(ctx context.Context, o *devserver.Options) (*devserver.Server, error) {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := devserver.Start(starting, o)
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return s, err
}
