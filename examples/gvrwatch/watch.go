package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

type watchOptions struct {
	flags         *genericclioptions.ConfigFlags
	allNamespaces bool
	labelSelector string
	fieldSelector string
	output        string
	timeout       time.Duration
	limit         int
	untilSynced   bool
	checkpoint    string
}

func newWatch(streams genericiooptions.IOStreams) *cobra.Command {
	o := watchOptions{flags: newConfigFlags()}
	cmd := &cobra.Command{
		Use:   "watch RESOURCE[,RESOURCE]...",
		Short: "Watch resources by name",
		Long: "Watch resources by name: what exists, as ADDED, then SYNCED, then what changes.\n\n" +
			"RESOURCE is a plural, singular, short name, kind or list kind, with or without group and version:\n" +
			"po, Pod, deployments.apps, deployments.v1.apps, apps/v1/Deployment, v1/pods.\n\n" +
			"Closed connections, restarts of the server and expired versions do not end it. Where the server\n" +
			"can't tell what happened, GAP says so, and only the differences follow. Events go to stdout,\n" +
			"everything else to stderr; with -o json and -o yaml SYNCED and GAP go to stdout as well.",
		Example: "  gvrwatch watch pods\n" +
			"  gvrwatch watch deployments.apps,services -n web -l app=shop\n" +
			"  gvrwatch watch widgets.example.com -A -o json --until-synced\n" +
			"  gvrwatch watch pods -A -o json --checkpoint pods.db    # go on where it was left, however it ended",
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := o.check(args)
			if err != nil {
				return err
			}
			if o.checkpoint == "" && cmd.Flags().Changed("checkpoint") {
				return errors.New("--checkpoint: it must name a file")
			}
			return failed(o.run(cmd.Context(), streams, refs))
		},
	}
	f := cmd.Flags()
	o.flags.AddFlags(f)
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Watch across all namespaces, whatever --namespace says.")
	f.StringVarP(&o.labelSelector, "selector", "l", "", "Label selector, as in kubectl: -l key1=value1,key2 in (a,b),!key3.")
	f.StringVar(&o.fieldSelector, "field-selector", "", "Field selector, as in kubectl: --field-selector key1=value1,key2!=value2.")
	f.StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml, name).")
	f.DurationVar(&o.timeout, "timeout", 0, "End after this time, such as 30s or 5m; with --until-synced it is an error not to be synced by then. Zero means never.")
	f.IntVar(&o.limit, "limit", 0, "End after this many events; SYNCED and GAP do not count. Zero means never.")
	f.BoolVar(&o.untilSynced, "until-synced", false, "End when everything that exists has been told.")
	f.StringVar(&o.checkpoint, "checkpoint", "", "Keep in this file how far events have been written to stdout, and go on from there. What was written last may come again after a kill.")
	return cmd
}

// check finds what is wrong with the command line alone.
func (o *watchOptions) check(args []string) ([]gvr.Ref, error) {
	if err := oneOf("output", o.output, "", "wide", "json", "yaml", "name"); err != nil {
		return nil, err
	}
	if o.timeout < 0 {
		return nil, fmt.Errorf("--timeout=%v: it must not be negative", o.timeout)
	}
	if o.limit < 0 {
		return nil, fmt.Errorf("--limit=%d: it must not be negative", o.limit)
	}
	if ns := *o.flags.Namespace; ns != "" {
		if reasons := validation.ValidateNamespaceName(ns, false); len(reasons) > 0 {
			return nil, &stream.NamespaceError{Namespace: ns, Err: errors.New(strings.Join(reasons, "; "))}
		}
	}
	if _, err := labels.Parse(o.labelSelector); err != nil {
		return nil, &stream.SelectorError{Kind: "label", Selector: o.labelSelector, Err: err}
	}
	if _, err := fields.ParseSelector(o.fieldSelector); err != nil {
		return nil, &stream.SelectorError{Kind: "field", Selector: o.fieldSelector, Err: err}
	}
	switch len(args) {
	case 0:
		return nil, errors.New("name at least one resource type, several with commas between them")
	case 1:
	default:
		return nil, fmt.Errorf("%q is one argument too many: several resource types are written with commas, single objects are chosen with --field-selector metadata.name=NAME", args[1])
	}
	var refs []gvr.Ref
	for name := range strings.SplitSeq(args[0], ",") {
		ref, err := gvr.ParseRef(name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// The normal ends.
var (
	errTimeout = errors.New("--timeout")
	errEnough  = errors.New("enough has been told")
)

func (o *watchOptions) run(ctx context.Context, streams genericiooptions.IOStreams, refs []gvr.Ref) error {
	if o.checkpoint == "" {
		return o.watch(ctx, streams, refs, nil)
	}
	store, err := file.Open(o.checkpoint)
	if err != nil {
		return err
	}
	return errors.Join(o.watch(ctx, streams, refs, store), store.Close())
}

// watch tells what the sources tell; the store, if there is one, is kept up with
// it.
func (o *watchOptions) watch(ctx context.Context, streams genericiooptions.IOStreams, refs []gvr.Ref, store checkpoint.Store) error {
	signalled := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer cancel()
	}
	sources, tracker, err := o.sources(ctx, streams, refs, store)
	if err == nil {
		err = o.tell(ctx, sources, newEventPrinter(streams, o.output, len(sources) > 1, o.allNamespaces), streams.Out)
	}
	if tracker != nil {
		if lost := tracker.Close(); lost != nil { // also where the end is a normal one
			if signalled.Err() != nil || errors.Is(err, errEnough) {
				err = nil
			}
			return errors.Join(err, lost)
		}
	}
	switch {
	case signalled.Err() != nil, errors.Is(err, errEnough):
		return nil
	case !errors.Is(err, errTimeout):
		return err
	case sources == nil:
		return fmt.Errorf("the server has not said what it serves within --timeout=%v", o.timeout)
	case o.untilSynced:
		// A script must be able to tell a whole snapshot from a part of one.
		return fmt.Errorf("not synced within --timeout=%v", o.timeout)
	}
	return nil
}

// sources resolves every name before anything is watched, so that a mistake in
// one is told at once.
func (o *watchOptions) sources(ctx context.Context, streams genericiooptions.IOStreams, refs []gvr.Ref, store checkpoint.Store) ([]*stream.Stream, *checkpoint.Tracker, error) {
	srv, err := connect(o.flags)
	if err != nil {
		return nil, nil, err
	}
	logger := slog.New(logHandler{streams.ErrOut})
	var tracker *checkpoint.Tracker
	if store != nil {
		cluster, err := stream.ClusterOf(ctx, srv.config)
		if err != nil {
			return nil, nil, srv.explain(err)
		}
		if tracker, err = checkpoint.NewTracker(store, &checkpoint.Options{Cluster: cluster, Logger: logger}); err != nil {
			return nil, nil, err
		}
	}
	var sources []*stream.Stream
	named := map[string]bool{}
	for _, ref := range refs {
		r, err := srv.resolver.Resolve(ctx, ref)
		if err != nil {
			return nil, tracker, srv.explain(err)
		}
		if named[r.String()] {
			continue // the same twice: po,pods
		}
		named[r.String()] = true
		opts := stream.Options{
			LabelSelector: o.labelSelector,
			FieldSelector: o.fieldSelector,
			Logger:        logger,
			Checkpoint:    tracker,
		}
		if o.untilSynced && tracker != nil {
			opts.End = stream.WhenSynced // what is different, instead of what happened
		}
		// The kubeconfig's namespace is a default and means nothing to a
		// cluster-scoped resource; a namespace on the command line is a mistake there.
		if !o.allNamespaces && (r.Namespaced || *o.flags.Namespace != "") {
			opts.Namespaces = []string{srv.namespace}
		}
		s, err := stream.New(srv.client, r, &opts)
		if err != nil {
			return nil, tracker, err
		}
		sources = append(sources, s)
	}
	return sources, tracker, nil
}

// tell prints what the sources tell until it is enough.
func (o *watchOptions) tell(ctx context.Context, sources []*stream.Stream, p eventPrinter, out io.Writer) error {
	told, synced := 0, map[string]bool{}
	for ev, err := range merge(ctx, sources) {
		if err != nil {
			return err
		}
		if err := errors.Join(p.print(ev), failure(out)); err != nil {
			return err
		}
		ev.Ack()
		switch ev.Type {
		case stream.Added, stream.Modified, stream.Deleted:
			if told++; told == o.limit {
				return errEnough
			}
		case stream.Synced:
			synced[ev.Resource.String()] = true
			if o.untilSynced && len(synced) == len(sources) {
				return errEnough
			}
		}
	}
	return nil
}
