package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	watch    watchOptions // those of filters and output only
	speed    string
	at       string
	from, to string
}

func (o *replayOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.speed, "speed", "",
		"Print events with the pauses of the recording, divided by this: 1, 60x. Without it, all at once.")
	const moment = "2026-03-01T03:00:00Z, 03:00:00 (local time), +10m from the beginning, or -10m from the end"
	f.StringVar(&o.at, "at", "", "Print the objects that existed at this time: "+moment+".")
	f.StringVar(&o.from, "from", "", "Print events from this time on, in the same forms.")
	f.StringVar(&o.to, "to", "", "Print events until this time, in the same forms.")
	f.BoolVarP(&o.watch.what.allNamespaces, "all-namespaces", "A", false, "Accepted because watch has it: the default.")
	f.StringSliceVarP(&o.watch.conn.namespaces, "namespace", "n", nil, "Print only objects of these namespaces.")
	f.StringVarP(&o.watch.what.labelSelector, "selector", "l", "",
		"Label selector, as in watch. The change with which an object leaves it is printed, too.")
	f.IntVar(&o.watch.end.limit, "limit", 0, "End after this many objects. Zero means never.")
	o.watch.filter.addFlags(f)
	o.watch.print.addFlags(f)
}

func newReplay(streams genericiooptions.IOStreams, out *screen.Screen) *cobra.Command {
	o := &replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay FILE [TYPE[,TYPE]... [NAME]... | TYPE/NAME...]",
		Short: "Print what watch --record has recorded",
		Long: "Print what 'gvrwatch watch --record FILE' has recorded, in each output of watch, with its filters.\n" +
			"No cluster is needed. Times and ages are those of the recording. --since counts from its beginning.\n\n" +
			"With --at, print the state at a time: the objects that existed then, as far as the recording knows.\n" +
			"A line on stderr says if it does not know all: before SYNCED, within a GAP, and while nobody recorded.",
		Example: "  gvrwatch replay incident.rec -o diff\n" +
			"  gvrwatch replay incident.rec pods -n web --from 02:55 --to 03:10 --timestamps\n" +
			"  gvrwatch replay incident.rec --types DELETED -o name\n" +
			"  gvrwatch replay incident.rec --at 03:00 deployments,pods\n" +
			"  gvrwatch replay incident.rec --speed 60x",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("missing FILE: name a file that watch --record has written")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.watch.print.eventsAsked = cmd.Flags().Changed("output-watch-events")
			if o.at != "" && !o.watch.print.eventsAsked {
				o.watch.print.watchEvents = false
			}
			run, err := o.check(args)
			if err != nil {
				return err
			}
			out.SetColor(o.watch.print.color)
			return asRunError(run(cmd.Context(), streams))
		},
	}
	o.addFlags(cmd.Flags())
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault // files
		}
		return nil, noFiles
	}
	return cmd
}

// check validates the command line, and returns what to run.
func (o *replayOptions) check(args []string) (func(context.Context, genericiooptions.IOStreams) error, error) {
	speed := 0.0
	if o.speed != "" {
		var err error
		if speed, err = strconv.ParseFloat(strings.TrimSuffix(o.speed, "x"), 64); err != nil || !(speed > 0) {
			return nil, fmt.Errorf("--speed=%s: must be a number over 0, such as 1 or 60x", o.speed)
		}
	}
	switch {
	case o.at != "" && (o.speed != "" || o.from != "" || o.to != ""):
		return nil, errors.New("--at: prints the state at one time: omit --speed, --from and --to")
	case o.at != "" && o.watch.print.output == "diff":
		return nil, errors.New("--at and --output=diff exclude each other: a state is no change")
	}
	if err := o.watch.checkFlags(); err != nil {
		return nil, err
	}
	var want wanted
	if len(args) > 1 {
		if err := o.watch.checkArgs(args[1:], &want); err != nil {
			return nil, err
		}
	}
	if _, err := o.moments(span{}); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(o.watch.what.labelSelector)
	return func(ctx context.Context, streams genericiooptions.IOStreams) error {
		file, err := recording.Open(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		r := &replay{
			opts: o, file: file, want: want, labels: selector, speed: speed, streams: streams, columns: tables.New(),
		}
		return r.run(ctx)
	}, err
}

// replay is one run of replay.
type replay struct {
	opts    *replayOptions
	file    *recording.Reader
	want    wanted
	labels  labels.Selector
	speed   float64 // 0 is at once
	streams genericiooptions.IOStreams
	columns *tables.Tables
	time    time.Time           // of the entry that is printed
	within  map[pastObject]bool // the objects that the label selector has matched
}

// span is what a first look at the recording finds.
type span struct {
	begin, end time.Time
	resources  map[string]gvr.Resource
}

func (r *replay) run(ctx context.Context) error {
	var whole span
	if err := r.look(&whole); err != nil {
		return err
	}
	when, err := r.opts.moments(whole)
	if err != nil {
		return err
	}
	if r.opts.at != "" {
		return r.state(when.at, whole)
	}
	d, err := r.delivery(whole, false)
	if err != nil {
		return err
	}
	return errors.Join(r.events(ctx, d, when), d.end())
}

// look reads the recording once, which finds damage before anything is printed.
func (r *replay) look(whole *span) error {
	whole.resources = map[string]gvr.Resource{}
	for e, err := range r.file.Entries() {
		if err != nil {
			return err
		}
		if whole.begin.IsZero() {
			whole.begin = e.Time
		}
		whole.end = e.Time
		if e.Event.Type != "" {
			whole.resources[e.Event.Resource.String()] = e.Event.Resource
		}
	}
	for _, t := range r.want.targets {
		matches := func(resource gvr.Resource) bool { return names(t.ref, resource) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(whole.resources)), matches) {
			return fmt.Errorf("the recording has no resource %q: it has %s", t.ref,
				joinNames(slices.Sorted(maps.Keys(whole.resources))))
		}
	}
	return nil
}

// names reports whether a name is that of a resource: of all that have it, as discovery ranks none of a recording.
func names(ref gvr.Ref, r gvr.Resource) bool {
	if ref.Group != "" && ref.Group != r.Group && !strings.HasPrefix(r.Group, ref.Group+".") ||
		ref.Version != "" && (ref.Version != r.Version || ref.Group != r.Group) {
		return false
	}
	is := func(name string) bool { return name != "" && strings.EqualFold(ref.Name, name) }
	return is(r.Resource) || is(r.Singular) || is(r.Kind) || is(r.Kind+"List") || slices.ContainsFunc(r.ShortNames, is)
}

// selects reports whether the command line selects an object, or the resource of a control event.
func (r *replay) selects(ev stream.Event) bool {
	if len(r.want.targets)+len(r.want.patterns) > 0 {
		named := func(t target) bool {
			return names(t.ref, ev.Resource) && (t.name == "" || !ev.HasObject() || t.name == ev.Meta().GetName())
		}
		matched := func(pattern string) bool {
			selected, _ := r.opts.watch.selection(wanted{patterns: []string{pattern}}, nil).Selects(ev.Resource)
			return selected
		}
		if !slices.ContainsFunc(r.want.targets, named) && !slices.ContainsFunc(r.want.patterns, matched) {
			return false
		}
	}
	if !ev.HasObject() {
		return true
	}
	m, namespaces := ev.Meta(), r.opts.watch.conn.namespaces
	if ns := m.GetNamespace(); ns != "" && len(namespaces) > 0 && !slices.Contains(namespaces, ns) {
		return false
	}
	return r.labels.Empty() || r.matches(ev)
}

// matches reports whether the label selector matches an object, or did at its last event: how it goes is printed, too.
// A removal that follows from a comparison has no labels.
func (r *replay) matches(ev stream.Event) bool {
	o := pastObject{ev.Resource.String(), ev.NamespacedName()}
	was, is := r.within[o], r.labels.Matches(labels.Set(ev.Meta().GetLabels()))
	if is && ev.Type != stream.Deleted {
		if r.within == nil {
			r.within = map[pastObject]bool{}
		}
		r.within[o] = true
	} else {
		delete(r.within, o)
	}
	return was || is
}

// delivery returns what prints events, or a state of the past.
func (r *replay) delivery(whole span, past bool) (*delivery, error) {
	several, namespaced := 0, false
	for _, resource := range whole.resources {
		if r.selects(stream.Event{Resource: resource}) {
			several, namespaced = several+1, namespaced || resource.Namespaced
		}
	}
	how := printing{
		streams: r.streams, flags: r.opts.watch.print, columns: r.columns, several: several > 1,
		namespaces: namespaced && len(r.opts.watch.conn.namespaces) != 1,
		clock:      func() time.Time { return r.time }, past: past,
	}
	d := &delivery{printing: how, recorded: true}
	var err error
	if d.printer, err = how.newPrinter(); err != nil {
		return nil, err
	}
	if r.opts.watch.filter.summary {
		d.counts = summary{}
	}
	d.filter, err = r.opts.watch.filter.newFilter(whole.begin)
	return d, err
}

// events prints what was delivered from one time to another.
func (r *replay) events(ctx context.Context, d *delivery, when moments) error {
	printed := 0
	var last time.Time
	for e, err := range r.file.Entries() {
		if err != nil {
			return err
		}
		if !when.to.IsZero() && e.Time.After(when.to) {
			return nil
		}
		selected := e.Event.Type != "" && r.selects(e.Event)
		early := e.Time.Before(when.from)
		if !early {
			if e.Run != nil && e.Time.Sub(last) >= time.Second && !last.IsZero() {
				printMessage(r.streams.ErrOut, "nobody recorded from %s to %s", last.Format(time.RFC3339),
					e.Time.Format(time.RFC3339))
			}
			if last.Before(when.from) && !last.IsZero() {
				last = when.from
			}
			if err := r.pause(ctx, last, e.Time); err != nil {
				return nil // a signal is a normal end
			}
		}
		last = e.Time
		if e.Run != nil && e.Run.Start == recording.Snapshot {
			clear(d.filter.synced) // what exists is delivered again
		}
		if !selected {
			continue
		}
		r.time = e.Time
		if early {
			d.skip(e.Event) // -o diff and --changed compare with it
			continue
		}
		ev := e.Event
		ev.JSON = r.columns.Join(ev.JSON, e.Row)
		some, err := d.deliver(ev, func() {})
		if err != nil {
			return err
		}
		if some && ev.HasObject() {
			printed++
		}
		if r.opts.watch.end.limit > 0 && printed == r.opts.watch.end.limit {
			return nil
		}
	}
	return nil
}

// pause waits as long as was between two entries, divided by the speed.
func (r *replay) pause(ctx context.Context, before, now time.Time) error {
	if r.speed == 0 || before.IsZero() {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(min(float64(max(0, now.Sub(before)))/r.speed, 1<<62))):
		return nil
	}
}
