package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/mux"
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
	latest        bool
	checkpoint    string

	all        bool
	categories []string
	exclude    []string
	follow     bool
	candidates []string
}

const watchLong = `Watch resources: what exists, as ADDED, then SYNCED, then what changes.

RESOURCE is a plural, singular, short name, kind or list kind, with or without group and version:
po, Pod, deployments.apps, deployments.v1.apps, apps/v1/Deployment, v1/pods. It may be a pattern of
plurals and groups, too: '*.example.com', 'w*.example.com', '*.' (the core group), '*'. And if it is
no resource but a category, such as all, it stands for that.

Closed connections, restarts of the server and expired versions do not end it. Where the server
can't tell what happened, GAP says so, and only the differences follow. Events go to stdout,
everything else to stderr; with -o json and -o yaml SYNCED and GAP go to stdout as well.

A named type that is not served, or that you may not watch, is an error, unless it is followed:
with --follow it is waited for until it is served, also when it is removed and added again, and where
it may not be watched across the cluster (-A) it is watched in the namespaces where it may be. What
patterns, categories and --all select is always followed, and with it what is named beside them.
A line on stderr says what is waited for, forbidden, gone, failing, and no longer so.

Without -A only one namespace is watched, that of -n or of the kubeconfig; then patterns, categories
and --all leave out types that live in no namespace.`

const watchExample = `  gvrwatch watch pods
  gvrwatch watch deployments.apps,services -n web -l app=shop
  gvrwatch watch widgets.example.com -A -o json --until-synced
  gvrwatch watch pods -A -o json --checkpoint pods.db    # go on where it was left, however it ended
  gvrwatch watch widgets.example.com -A --follow         # from when it is served, and may be watched
  gvrwatch watch '*.example.com',pods -A                 # every type of the group, those to come as well
  gvrwatch watch --all -A --exclude secrets -o json      # everything else`

func newWatch(streams genericiooptions.IOStreams) *cobra.Command {
	o := watchOptions{flags: newConfigFlags()}
	cmd := &cobra.Command{
		Use:     "watch RESOURCE[,RESOURCE]...",
		Short:   "Watch resources by name, pattern or category",
		Long:    watchLong,
		Example: watchExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := o.check(args)
			if err != nil {
				return err
			}
			if o.checkpoint == "" && cmd.Flags().Changed("checkpoint") {
				return errors.New("--checkpoint: it must name a file")
			}
			return asRunError(o.run(cmd.Context(), streams, want))
		},
	}
	f := cmd.Flags()
	o.flags.AddFlags(f)
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Watch across all namespaces, whatever --namespace says.")
	f.BoolVar(&o.all, "all", false, "Watch every type, as the pattern '*' does: but for what changes all the time ("+defaultExclude+"), unless that is named.")
	f.StringSliceVar(&o.categories, "category", nil, "Watch the types of this category, such as all. May be repeated.")
	f.StringSliceVar(&o.exclude, "exclude", nil, "Leave out what this pattern matches, such as secrets or '*.example.com', of what patterns, categories and --all select. May be repeated.")
	f.BoolVar(&o.follow, "follow", false, "Wait for named types that are not served or may not be watched, and go on with them whenever they come back.")
	f.StringSliceVar(&o.candidates, "candidates", nil, "Namespaces to try where a type that is followed may not be watched across the cluster, if you may not list the namespaces there are.")
	f.StringVarP(&o.labelSelector, "selector", "l", "", "Label selector, as in kubectl: -l key1=value1,key2 in (a,b),!key3.")
	f.StringVar(&o.fieldSelector, "field-selector", "", "Field selector, as in kubectl: --field-selector key1=value1,key2!=value2.")
	f.StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml, name).")
	f.DurationVar(&o.timeout, "timeout", 0, "End after this time, such as 30s or 5m; with --until-synced it is an error not to be synced by then. Zero means never.")
	f.IntVar(&o.limit, "limit", 0, "End after this many events; SYNCED and GAP do not count. Zero means never.")
	f.BoolVar(&o.untilSynced, "until-synced", false, "End when everything that exists has been told; what is followed and not served, or forbidden, is not waited for.")
	f.BoolVar(&o.latest, "latest", false, "Where stdout is slower than the server, tell the newest state of an object only (in JSON with \"coalesced\", the number of events it stands for besides itself), instead of making the server wait.")
	f.StringVar(&o.checkpoint, "checkpoint", "", "Keep in this file how far events have been written to stdout, and go on from there. What was written last may come again after a kill.")
	return cmd
}

// The normal ends.
var (
	errTimeout = errors.New("--timeout")
	errLimit   = errors.New("enough has been told")
)

func (o *watchOptions) run(ctx context.Context, streams genericiooptions.IOStreams, want wanted) error {
	if o.checkpoint == "" {
		return o.watch(ctx, streams, want, nil)
	}
	store, err := file.Open(o.checkpoint)
	if err != nil {
		return err
	}
	return errors.Join(o.watch(ctx, streams, want, store), store.Close())
}

// watch tells what is wanted; the store, if there is one, is kept up with it.
func (o *watchOptions) watch(ctx context.Context, streams genericiooptions.IOStreams, want wanted, store checkpoint.Store) error {
	signalled := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer cancel()
	}
	s, err := o.session(ctx, streams, store)
	var merged *mux.Mux
	if err == nil {
		if merged, err = s.open(ctx, &want); err == nil {
			err = o.printEvents(ctx, merged, newEventPrinter(streams, o.output, want.several, o.allNamespaces), streams.Out)
		}
		if s.tracker != nil {
			if lost := s.tracker.Close(); lost != nil { // also where the end is a normal one
				if signalled.Err() != nil || errors.Is(err, errLimit) {
					err = nil
				}
				return errors.Join(err, lost)
			}
		}
	}
	switch {
	case signalled.Err() != nil, errors.Is(err, errLimit):
		return nil
	case !errors.Is(err, errTimeout):
		return err
	case merged == nil:
		return fmt.Errorf("the server has not said what it serves within --timeout=%v", o.timeout)
	case o.untilSynced:
		// A script must be able to tell a whole snapshot from a part of one.
		return fmt.Errorf("not synced within --timeout=%v", o.timeout)
	}
	return nil
}

// tell prints what is told until it is enough.
func (o *watchOptions) printEvents(ctx context.Context, merged *mux.Mux, p eventPrinter, out io.Writer) error {
	told := 0
	for ev, err := range merged.Events(ctx) {
		var failed *mux.SourceError
		if errors.As(err, &failed) {
			return failed.Err // it says of which resource it is
		}
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
				return errLimit
			}
		}
	}
	return nil // synced, if that was wanted: nothing else ends it without an error
}
