package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// flags are those of all commands. Those that are given replace fields of the configuration file.
type flags struct {
	file       string
	kubeconfig string
	contexts   []string
	set        relay.Config
	lease      time.Duration
}

func (f *flags) add(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&f.file, "config", "", "The configuration file, in YAML. Other flags replace its fields.")
	p.StringVar(&f.kubeconfig, "kubeconfig", "", "The kubeconfig file. Default: as kubectl.")
	p.StringSliceVar(&f.contexts, "context", nil, "Contexts of the kubeconfig. Default: the current one.")
	p.StringSliceVarP(&f.set.Selection.Resources, "resource", "r", nil,
		"Names and patterns of the resources. Default: * (which does not include Secrets).")
	p.StringSliceVar(&f.set.Selection.Exclude, "exclude", nil, "Names and patterns that patterns must not select.")
	p.StringSliceVarP(&f.set.Selection.Namespaces, "namespace", "n", nil, "Namespaces. Default: all.")
	p.StringVarP(&f.set.Selection.LabelSelector, "selector", "l", "", "A label selector for all resources.")
	p.StringVar(&f.set.NATS.URL, "nats", "", "URLs of NATS servers. Default: a server in this process.")
	p.StringVar(&f.set.NATS.Credentials, "creds", "", "The credentials file for NATS.")
	p.StringVar(&f.set.NATS.CA, "ca", "", "The CA certificates of the NATS servers, a PEM file.")
	p.StringVar(&f.set.NATS.Certificate, "cert", "", "The client certificate for NATS, a PEM file.")
	p.StringVar(&f.set.NATS.Key, "key", "", "The key of the client certificate, a PEM file.")
	p.StringVar(&f.set.NATS.Dir, "dir", "", "The folder of the NATS server in this process.")
	p.StringVar(&f.set.Log.Stream, "stream", "", "The name of the stream. Default: K8S.")
	p.StringVar(&f.set.Log.Prefix, "prefix", "", "The first token of the stream's subjects. Default: k8s.")
	p.StringVar(&f.set.Replica.ID, "replica-id", "", "Distinguishes this replica. Default: host name and letters.")
	p.DurationVar(&f.lease, "lease", 0, "How long a replica that does not answer keeps its units. Default: 15s.")
	p.StringVar(&f.set.Queue.Overflow, "overflow", "",
		`While NATS is slow: "block" stops reading, "latest" keeps the newest event of each object. Default: block.`)
	p.StringVar(&f.set.Listen, "listen", "", "The address of /metrics, /readyz and /healthz. Default: none.")
	p.StringVar(&f.set.LogLevel, "log-level", "", "debug, info, warn or error. Default: info.")
}

// config reads the file, applies the flags that were given, and sets the defaults.
func (f *flags) config(cmd *cobra.Command) (*relay.Config, error) {
	cfg := &relay.Config{}
	if f.file != "" {
		if err := readFile(f.file, cfg); err != nil {
			return nil, err
		}
	}
	f.set.Replica.Lease = metav1.Duration{Duration: f.lease}
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	for name, apply := range map[string]func(){
		"resource":   func() { cfg.Selection.Resources = f.set.Selection.Resources },
		"exclude":    func() { cfg.Selection.Exclude = f.set.Selection.Exclude },
		"namespace":  func() { cfg.Selection.Namespaces = f.set.Selection.Namespaces },
		"selector":   func() { cfg.Selection.LabelSelector = f.set.Selection.LabelSelector },
		"nats":       func() { cfg.NATS.URL, cfg.NATS.Dir = f.set.NATS.URL, "" },
		"creds":      func() { cfg.NATS.Credentials = f.set.NATS.Credentials },
		"ca":         func() { cfg.NATS.CA = f.set.NATS.CA },
		"cert":       func() { cfg.NATS.Certificate = f.set.NATS.Certificate },
		"key":        func() { cfg.NATS.Key = f.set.NATS.Key },
		"stream":     func() { cfg.Log.Stream = f.set.Log.Stream },
		"prefix":     func() { cfg.Log.Prefix = f.set.Log.Prefix },
		"replica-id": func() { cfg.Replica.ID = f.set.Replica.ID },
		"lease":      func() { cfg.Replica.Lease = f.set.Replica.Lease },
		"overflow":   func() { cfg.Queue.Overflow = f.set.Queue.Overflow },
		"listen":     func() { cfg.Listen = f.set.Listen },
		"log-level":  func() { cfg.LogLevel = f.set.LogLevel },
	} {
		if given(name) {
			apply()
		}
	}
	if given("dir") {
		cfg.NATS.Dir = f.set.NATS.Dir
		if !given("nats") {
			cfg.NATS.URL = ""
		}
	}
	if given("kubeconfig") || given("context") {
		cfg.Clusters = []relay.Cluster{{Kubeconfig: f.kubeconfig}}
		for i, name := range f.contexts {
			c := relay.Cluster{Kubeconfig: f.kubeconfig, Context: name}
			cfg.Clusters = append(cfg.Clusters[:i], c)
		}
	}
	return cfg, cfg.Complete()
}

func printYAML(out io.Writer, v any) error {
	data, err := yaml.Marshal(v)
	if err == nil {
		_, err = out.Write(data)
	}
	return err
}

// natsOptions returns how to connect to NATS.
func natsOptions(cfg *relay.Config, logger *slog.Logger) jetstream.Options {
	return jetstream.Options{
		Connection: jetstream.Connection{
			Dir: cfg.NATS.Dir, URL: cfg.NATS.URL, Credentials: cfg.NATS.Credentials, CA: cfg.NATS.CA,
			Certificate: cfg.NATS.Certificate, Key: cfg.NATS.Key,
		},
		Stream: cfg.Log.Stream, Prefix: cfg.Log.Prefix, Lease: cfg.Replica.Lease.Duration, Logger: logger,
		Create: jetstream.Create{
			History: cfg.Log.History, Copies: cfg.Log.Copies, MaxBytes: cfg.Log.MaxBytes,
		},
	}
}

// openLog connects to the log of a relay, for commands that only read.
func (f *flags) openLog(cmd *cobra.Command) (*relay.Config, *jetstream.Log, error) {
	cfg, err := f.config(cmd)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	o := natsOptions(cfg, nil)
	o.ReadOnly = true
	log, err := jetstream.Connect(ctx, o)
	if err != nil {
		return nil, nil, failure{err}
	}
	return cfg, log, nil
}
