package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	selectionFlags
	flags         *genericclioptions.ConfigFlags
	allNamespaces bool
	output        string
	timeout       time.Duration
	limit         int
	untilSynced   bool
	allowMissing  bool
	latest        bool
	checkpoint    string
}

// selectionFlags are the flags that select resources and objects, beside the arguments.
type selectionFlags struct {
	labelSelector string
	fieldSelector string

	all        bool
	categories []string
	exclude    []string
	follow     bool
	candidates []string
}

const watchLong = `Watch resources: first ADDED for each object that exists, then SYNCED, then the changes.

RESOURCE is a plural, singular, short name, kind or list kind, with or without group and version:
po, Pod, deployments.apps, deployments.v1.apps, apps/v1/Deployment, v1/pods. It may also be a pattern
of plurals and groups: '*.example.com', 'w*.example.com', '*.' (the core group), '*'. If no resource
has the name but a category does, such as all, the types of the category are watched.

The watch resumes after closed connections, server restarts and expired versions. If the server no
longer has the history, a GAP is printed, followed by only the differences. Events go to stdout,
everything else to stderr; with -o json and -o yaml, SYNCED and GAP go to stdout as well.

If a named type is not served, or you may not watch it, the command fails. With --follow it waits
until the type is served, and again whenever the type is deleted; if you may not watch the type across
the cluster (-A), the command watches it in the namespaces where you may. Types that patterns,
categories and --all select are always followed, and so are the types named beside them. Each time a
followed type is missing, gone, forbidden or failing, or has recovered, a line on stderr says so.

With --until-synced, the exit status is 1 if something was not seen: a followed type is not served or
failing, a pattern matches nothing, an API does not answer, or you may not watch a type wherever you
requested it.
With --allow-missing it is 0.

Without -A only one namespace is watched: that of -n, or that of the kubeconfig. Patterns, categories
and --all then leave out cluster-scoped types.`

const watchExample = `  gvrwatch watch pods
  gvrwatch watch deployments.apps,services -n web -l app=shop
  gvrwatch watch widgets.example.com -A -o json --until-synced
  gvrwatch watch pods -A -o json --checkpoint pods.db    # resume where the last run ended, even if it was killed
  gvrwatch watch widgets.example.com -A --follow         # wait until it is served and you may watch it
  gvrwatch watch '*.example.com',pods -A                 # every type of the group, including future ones
  gvrwatch watch --all -A --exclude secrets -o json      # all but secrets, events, leases`

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
				return errors.New("--checkpoint: must be the name of a file")
			}
			return asRunError(o.run(cmd.Context(), streams, want))
		},
	}
	f := cmd.Flags()
	o.flags.AddFlags(f)
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false,
		"Watch across all namespaces, whatever --namespace says.")
	f.BoolVar(&o.all, "all", false,
		"Watch every type, as the pattern '*' does, except those that change all the time ("+defaultExclude+
			"). To include one of them, name it beside '*'.")
	f.StringSliceVar(&o.categories, "category", nil,
		"Watch the types of this category, such as all. May be repeated.")
	f.StringSliceVar(&o.exclude, "exclude", nil,
		"Exclude types that match this pattern, such as secrets or '*.example.com', from those that patterns, "+
			"categories and --all select. May be repeated.")
	f.BoolVar(&o.follow, "follow", false,
		"Wait for named types that are not served or that you may not watch, and resume whenever they come back.")
	f.StringSliceVar(&o.candidates, "candidates", nil,
		"Namespaces to try for a followed type that you may not watch across the cluster, if you may not list "+
			"namespaces.")
	f.StringVarP(&o.labelSelector, "selector", "l", "",
		"Label selector, as in kubectl: -l key1=value1,key2 in (a,b),!key3.")
	f.StringVar(&o.fieldSelector, "field-selector", "",
		"Field selector, as in kubectl: --field-selector key1=value1,key2!=value2.")
	f.StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml, name).")
	f.DurationVar(&o.timeout, "timeout", 0,
		"End after this time, such as 30s or 5m. With --until-synced, fail if not synced by then. Zero means never.")
	f.IntVar(&o.limit, "limit", 0,
		"End after this many events; SYNCED and GAP do not count. Zero means never.")
	f.BoolVar(&o.untilSynced, "until-synced", false,
		"End when everything that exists has been printed. Followed types that are not served, that are failing, or "+
			"that you may not watch, are not waited for; then the exit status is 1.")
	f.BoolVar(&o.allowMissing, "allow-missing", false,
		"With --until-synced, exit with status 0 even if something was not seen.")
	f.BoolVar(&o.latest, "latest", false,
		"If stdout is slower than the server, print only the newest state of each object instead of making the "+
			"server wait. In JSON, \"coalesced\" is the number of other events that an event stands for.")
	f.StringVar(&o.checkpoint, "checkpoint", "",
		"Record in this file which events have been written to stdout, and resume after them. After a kill the last "+
			"ones may be written again.")
	return cmd
}

// Causes of a normal end.
var (
	errTimeout = errors.New("--timeout")
	errLimit   = errors.New("--limit")
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

// watch prints the events of the wanted resources and commits checkpoints to store, which may be nil.
func (o *watchOptions) watch(
	ctx context.Context, streams genericiooptions.IOStreams, want wanted, store checkpoint.Store,
) error {
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
			p := newEventPrinter(streams, o.output, want.several, o.allNamespaces)
			if err = o.printEvents(ctx, merged, p); err == nil && !o.allowMissing {
				err = s.checkSeen(want)
			}
		}
		if s.tracker != nil {
			if lost := s.tracker.Close(); lost != nil { // even at a normal end
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
		return fmt.Errorf("discovery did not complete within --timeout=%v", o.timeout)
	case o.untilSynced:
		// Scripts must not take a partial snapshot for a complete one.
		return fmt.Errorf("not synced within --timeout=%v", o.timeout)
	}
	return nil
}

// printEvents prints and acks events until --limit is reached or the run ends.
func (o *watchOptions) printEvents(ctx context.Context, merged *mux.Mux, p eventPrinter) error {
	printed := 0
	for ev, err := range merged.Events(ctx) {
		var failed *mux.SourceError
		if errors.As(err, &failed) {
			return failed.Err // it names the resource
		}
		if err != nil {
			return err
		}
		if err := p.print(ev); err != nil {
			return err
		}
		ev.Ack()
		switch ev.Type {
		case stream.Added, stream.Modified, stream.Deleted:
			if printed++; printed == o.limit {
				return errLimit
			}
		}
	}
	return nil // --until-synced: only that ends a run without an error
}
