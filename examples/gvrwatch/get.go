package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

const getName = "get"

const getLong = `Print the objects that exist, then end: 'gvrwatch watch --until-synced', printed as kubectl get prints
them. With -w it is 'gvrwatch watch'. Arguments and flags are those of watch.

Without -w, tables have no column EVENT, and -o json and -o yaml print objects instead of events, one
per line or document; --output-watch-events prints events. For types that are named the right to list
is enough; patterns, --all and --follow need that to watch, too. If there are no objects, a line on
stderr says so, and the exit status is 0. It is 1 if a named object does not exist.

` + watchRest

const getExample = `  gvrwatch get pods
  gvrwatch get pods,services -A -l app=shop
  gvrwatch get pods web-0 -o yaml
  gvrwatch get '*.example.com' -A -o name
  gvrwatch get pods -w                                   # gvrwatch watch pods`

// newGet returns the command get: watch --until-synced or, with -w, watch.
func newGet(streams genericiooptions.IOStreams, out *screen.Screen) *cobra.Command {
	o := &watchOptions{screen: out}
	cmd := o.command(streams, &cobra.Command{
		Use:     getName + " TYPE[,TYPE]... [NAME]... | TYPE/NAME...",
		Short:   "Print the objects that exist, as kubectl get does",
		Long:    getLong,
		Example: getExample,
	})
	cmd.Flags().BoolP("watch", "w", false, "After printing what exists, watch: as 'gvrwatch watch'.")
	return cmd
}

// beGet makes a watch what get is without -w. As in kubectl get, --watch-only implies -w.
func (o *watchOptions) beGet() {
	if o.begin.watchOnly {
		return
	}
	o.get, o.end.untilSynced = true, true
	// A diff, a command and a run that continues at a checkpoint have events that are not of what exists.
	if !o.print.eventsAsked && o.print.output != "diff" && o.exec.command == "" && o.begin.checkpoint == "" {
		o.print.watchEvents = false
	}
}

// existing knows which objects exist when their type is synced. A followed type goes on after that; other sources end
// there.
type existing struct {
	follows    bool
	namespaces bool // objects of several namespaces
	synced     map[string]bool
}

// has reports whether an event is of what exists. SYNCED is not.
func (e *existing) has(ev stream.Event) bool {
	if ev.Type == stream.Synced {
		if e.follows && namespaceOf(ev, e.namespaces) == "" {
			e.synced[ev.Resource.String()] = true
		}
		return false
	}
	return !ev.HasObject() || !e.synced[ev.Resource.String()]
}
