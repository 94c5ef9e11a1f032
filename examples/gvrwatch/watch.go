package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/execute"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	conn   connection
	what   selectionFlags
	begin  startFlags
	end    endFlags
	filter filterFlags
	print  printFlags
	record recordFlags
	exec   execFlags

	get    bool           // of the command get, without -w: see beGet
	screen *screen.Screen // what the streams write to
	live   bool           // top: the terminal is redrawn in place
	title  string         // of the live view
}

// startFlags say where a watch begins, and what it remembers.
type startFlags struct {
	resourceVersion string
	watchOnly       bool
	checkpoint      string
	latest          bool
}

func (o *startFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.resourceVersion, "resource-version", "",
		"Print the changes after this resourceVersion, without what exists. Deletions during a later GAP are not "+
			"reported.")
	f.BoolVar(&o.watchOnly, "watch-only", false, "Do not print what exists, only changes.")
	f.StringVar(&o.checkpoint, "checkpoint", "",
		"Record in this file what has been written to stdout, and resume after it. After a kill the last "+
			"ones may be written again.")
	f.BoolVar(&o.latest, "latest", false,
		"If stdout is slower than the server, print only the newest state of each object instead of making the "+
			"server wait. In JSON, \"coalesced\" is the number of other events that an event stands for.")
}

func (o *watchOptions) checkStart() error {
	switch {
	case o.begin.checkpoint != "" && (o.begin.watchOnly || o.begin.resourceVersion != ""):
		return errors.New("--checkpoint: says where the watch begins: omit --watch-only and --resource-version")
	case o.get && o.begin.resourceVersion != "":
		return errors.New("--resource-version: prints changes: add --watch, or use gvrwatch watch")
	case o.begin.watchOnly && o.end.untilSynced:
		return errors.New("--watch-only and --until-synced exclude each other: nothing would be printed")
	case o.begin.resourceVersion != "" && o.end.untilSynced:
		return errors.New("--resource-version and --until-synced exclude each other: " +
			"the first prints changes, and the second what exists")
	case o.begin.resourceVersion != "" && !isVersion(o.begin.resourceVersion):
		return fmt.Errorf("--resource-version=%s: must be a whole number, as servers print it", o.begin.resourceVersion)
	case o.begin.watchOnly && o.begin.resourceVersion != "":
		return errors.New("--watch-only and --resource-version exclude each other: both say where the watch begins")
	case o.end.condition != "" && (o.begin.checkpoint != "" || o.begin.watchOnly || o.begin.resourceVersion != ""):
		return errors.New("--for: needs what exists: omit --checkpoint, --watch-only and --resource-version")
	}
	return nil
}

// isVersion reports whether a server can know this version. 0 is none: it means whatever the server has in memory.
func isVersion(v string) bool {
	n, err := strconv.ParseUint(v, 10, 64)
	return err == nil && n > 0
}

func (o *startFlags) start() stream.Start {
	switch {
	case o.watchOnly:
		return stream.Now()
	case o.resourceVersion != "":
		return stream.After(o.resourceVersion)
	}
	return stream.Start{} // everything that exists
}

// endFlags say when a watch ends.
type endFlags struct {
	timeout      time.Duration
	limit        int
	untilSynced  bool
	allowMissing bool
	condition    string
}

func (o *endFlags) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.timeout, "timeout", 0,
		"End after this time, such as 30s or 5m. With --until-synced and --for, fail if they are not reached by then. "+
			"Zero means never.")
	f.IntVar(&o.limit, "limit", 0,
		"End after this many events; SYNCED and GAP do not count. Zero means never.")
	f.BoolVar(&o.untilSynced, "until-synced", false,
		"End when everything that exists has been printed. Followed types that are not served, that are failing, or "+
			"that you may not watch, are not waited for; then the exit status is 1.")
	f.BoolVar(&o.allowMissing, "allow-missing", false,
		"Exit with status 0 even if something was not seen. It applies to --until-synced and to get.")
	f.StringVar(&o.condition, "for", "",
		"End when all objects meet a condition at the same time: "+conditionsHelp+". Named objects need not exist yet.")
}

func (o *watchOptions) checkEnd() error {
	switch {
	case o.end.timeout < 0:
		return fmt.Errorf("--timeout=%v: must not be negative", o.end.timeout)
	case o.end.limit < 0:
		return fmt.Errorf("--limit=%d: must not be negative", o.end.limit)
	case o.end.allowMissing && !o.end.untilSynced:
		return errors.New("--allow-missing: applies only to --until-synced")
	case o.end.condition != "" && o.get:
		return errors.New("--for: waits for changes: add --watch, or use gvrwatch watch")
	case o.end.condition != "" && (o.end.untilSynced || o.end.limit > 0):
		return errors.New("--for: says when the watch ends: omit --until-synced and --limit")
	case o.end.condition != "" && o.exec.command != "":
		return errors.New("--for and --exec exclude each other: run the command after the wait")
	}
	if o.end.condition == "" {
		return nil
	}
	_, err := parseCondition(o.end.condition)
	return err
}

const watchLong = `Watch resources: first ADDED for each object that exists, then SYNCED, then the changes.

` + watchRest

// watchRest is what get says, too.
const watchRest = `TYPE is a plural, singular, short name, kind or list kind, with or without group and version:
po, Pod, deployments.apps, deployments.v1.apps, apps/v1/Deployment, v1/pods. It may also be a pattern
of plurals and groups: '*.example.com', 'w*.example.com', '*.' (the core group), '*'. If no resource
has the name but a category does, such as all, the types of the category are watched. Names of
objects may follow the types, and TYPE/NAME names one object, as in kubectl get.

The watch resumes after closed connections, server restarts and expired versions. If the server no
longer has the history, a GAP is printed, followed by only the differences. Events go to stdout,
everything else to stderr; with -o json and -o yaml, SYNCED and GAP go to stdout as well.

The columns are those of kubectl get. Without them, or if several types are watched, the columns of a
type are in DETAILS. -o diff prints what has changed since the last event of an object, and which
field managers changed it.

If a named type is not served, or you may not watch it, the command fails. With --follow it waits
until the type is served, and again whenever the type is deleted; if you may not watch the type across
the cluster (-A), the command watches it in the namespaces where you may. Types that patterns,
categories and --all select are always followed, and so are the types named beside them. Each time a
followed type is missing, gone, forbidden or failing, or has recovered, a line on stderr says so.

With --until-synced, the exit status is 1 if something was not seen: a followed type is not served or
failing, a pattern matches nothing, an API does not answer, or you may not watch a type wherever you
requested it.
With --allow-missing it is 0. With --for, it is 0 if the condition is met, and 1 otherwise.

Without -A only the namespaces of -n are watched, or that of the kubeconfig. Patterns, categories
and --all then leave out cluster-scoped types.`

const watchExample = `  gvrwatch watch pods
  gvrwatch watch pods web-0                              # one object; also pods/web-0
  gvrwatch watch deployments.apps,services -n web -l app=shop
  gvrwatch watch pods -o diff                            # what changes, and who changes it
  gvrwatch watch pods web-0 --for condition=Ready --timeout 1m
  gvrwatch watch '*.example.com',pods -A                 # every type of the group, future ones too
  gvrwatch watch widgets.example.com -A -o json --until-synced
  gvrwatch watch pods -A -o json --checkpoint pods.db    # resume where the last run ended
  gvrwatch watch pods -A --exec ./handle --checkpoint pods.db
  gvrwatch watch widgets.example.com -A --follow         # wait until it is served
  gvrwatch watch --all -A --exclude secrets -o json      # all but secrets, events, leases`

func newWatch(streams genericiooptions.IOStreams, out *screen.Screen) *cobra.Command {
	o := &watchOptions{screen: out}
	cmd := o.command(streams, &cobra.Command{
		Use:     "watch TYPE[,TYPE]... [NAME]... | TYPE/NAME...",
		Short:   "Watch resources by name, pattern or category",
		Long:    watchLong,
		Example: watchExample,
	})
	cmd.Flags().BoolP("watch", "w", true, "Accepted because kubectl get has it. The command always watches.")
	cmd.Flags().MarkHidden("watch")
	return cmd
}

// command adds to cmd what watch and get have in common.
func (o *watchOptions) command(streams genericiooptions.IOStreams, cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.print.eventsAsked = cmd.Flags().Changed("output-watch-events")
		watch, _ := cmd.Flags().GetBool("watch")
		switch {
		case cmd.Name() == getName && !watch:
			o.beGet()
		case !watch:
			return errors.New("--watch=false: the command always watches: use gvrwatch get, or --until-synced")
		}
		want, err := o.check(args)
		if err != nil {
			return err
		}
		if err := o.checkEmpty(cmd.Flags()); err != nil {
			return err
		}
		o.screen.SetColor(o.print.color)
		return asRunError(o.run(cmd.Context(), streams, want))
	}
	f := cmd.Flags()
	o.conn.addFlags(f)
	o.what.addFlags(f)
	o.begin.addFlags(f)
	o.end.addFlags(f)
	o.filter.addFlags(f)
	o.record.addFlags(f)
	o.print.addFlags(f)
	o.exec.addFlags(f)
	o.complete(cmd)
	return cmd
}

// checkEmpty refuses flags that are given without a value, and those of --exec without it.
func (o *watchOptions) checkEmpty(flags *pflag.FlagSet) error {
	if err := checkNotEmpty(flags, "checkpoint", "for", "exec", "resource-version", "namespace",
		"category", "exclude", "candidates", "record", "types", "changed", "ignore"); err != nil {
		return err
	}
	for _, name := range []string{"exec-workers", "exec-retries", "exec-timeout"} {
		if o.exec.command == "" && flags.Changed(name) {
			return fmt.Errorf("--%s: applies only to --exec", name)
		}
	}
	return nil
}

// checkNotEmpty refuses flags that are given without a value, as from an unset variable.
func checkNotEmpty(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		f := flags.Lookup(name)
		list, isList := f.Value.(pflag.SliceValue)
		if f.Changed && (f.Value.String() == "" || isList && len(list.GetSlice()) == 0) {
			return fmt.Errorf("--%s: must not be empty", name)
		}
	}
	return nil
}

// Causes of a normal end.
var (
	errTimeout = errors.New("--timeout")
	errLimit   = errors.New("--limit")
)

func (o *watchOptions) run(ctx context.Context, streams genericiooptions.IOStreams, want wanted) error {
	if o.begin.checkpoint == "" {
		return o.watch(ctx, streams, want, nil)
	}
	store, err := file.Open(o.begin.checkpoint)
	if err != nil {
		return fmt.Errorf("--checkpoint=%s: %w", o.begin.checkpoint, explainCheckpoint(o.begin.checkpoint, err))
	}
	err = explainCheckpoint(o.begin.checkpoint, o.watch(ctx, streams, want, store))
	return errors.Join(err, store.Close())
}

// watch prints the events of the wanted resources and commits checkpoints to store, which may be nil.
func (o *watchOptions) watch(
	ctx context.Context, streams genericiooptions.IOStreams, want wanted, store *file.Store,
) error {
	signalled := ctx
	if o.end.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.end.timeout, errTimeout)
		defer cancel()
	}
	s, err := o.session(ctx, streams, store)
	var merged *mux.Mux
	if err == nil {
		if merged, err = s.open(ctx, &want); err == nil {
			err = s.consume(ctx, merged, want)
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
	case o.end.condition != "" && err != nil && signalled.Err() != nil:
		return fmt.Errorf("--for=%s was not met before the signal%s", o.end.condition, unmet(err))
	case signalled.Err() != nil:
		return nil
	case err == nil, errors.Is(err, errLimit):
		return s.checkLeftOut()
	case !errors.Is(err, errTimeout):
		return err
	case merged == nil:
		return fmt.Errorf("discovery did not complete within --timeout=%v", o.end.timeout)
	case o.end.untilSynced:
		// Scripts must not take a partial snapshot for a complete one.
		what := "not synced"
		if o.exec.command != "" {
			what = "not synced and handled"
		}
		return fmt.Errorf("%s within --timeout=%v", what, o.end.timeout)
	case o.end.condition != "":
		return fmt.Errorf("--for=%s was not met within --timeout=%v%s", o.end.condition, o.end.timeout, unmet(err))
	}
	return s.checkLeftOut()
}

// consume prints and acks events until the run ends.
func (s *session) consume(ctx context.Context, merged *mux.Mux, want wanted) (err error) {
	defer s.retries.flush()
	if s.opts.live {
		return s.look(ctx, merged, want)
	}
	p, err := s.printing(want).newPrinter()
	if err != nil {
		return err
	}
	if s.opts.exec.command != "" {
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		defer end(nil)
		commands := s.opts.exec.newRunner(ctx, s.opts.screen, end)
		defer commands.Close()
		run := func(e execute.Event) error { return commands.Run(ctx, e) }
		p = commandPrinter{s.printing(want), run}
		defer func() {
			if err == nil || errors.Is(err, errLimit) {
				err = cmp.Or(commands.Drain(ctx), err)
			}
		}()
	}
	d, err := s.newDelivery(ctx, merged, want, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	printed := printedEvents{merged, d.deliver, s.opts.end.limit, &counts{}}
	if s.opts.print.status {
		hide := s.opts.screen.ShowStatus(func() string { return statusLine(merged.Status(), printed.counts) })
		defer hide()
	}
	if s.opts.end.condition != "" {
		return s.wait(ctx, printed, want)
	}
	for ev, err := range printed.Events(ctx) {
		if err == nil && ev.Type == stream.Synced {
			err = s.start(min(1, len(s.sources)))
		}
		if err != nil {
			return err
		}
	}
	// Only --until-synced ends a run without an error.
	if s.opts.end.allowMissing {
		return nil
	}
	return s.checkSeen(want, merged.Status())
}
