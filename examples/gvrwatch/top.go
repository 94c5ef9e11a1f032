package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/top"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

const topLong = `Show resources in the terminal: one line an object, redrawn in place.

TYPE, names and selectors are those of watch. The columns are the server's, after CHURN/MIN: how often
the object has changed in the last minute. What has changed is highlighted for some seconds, and a
deleted object keeps its line for some. The first line says in which order the lines are, the last
one how many types are synced and how many events arrive, and the one above it what the watch reports.

Keys:
  arrows, PgUp, PgDn, Home, End   move
  s                               sort by churn, age (newest first), or name
  / or any other letter or digit  filter: what is typed must be in the line; Esc clears it
  Enter                           the last changes of the object, with time and field managers;
                                  Enter or Esc goes back
  q, Ctrl-C                       leave

While the filter is typed, q and s belong to it, until Enter or a key that moves. Changes are kept of
the 500 objects that changed last. Of Secrets no values are shown.`

const topExample = `  gvrwatch top pods
  gvrwatch top deployments.apps,pods -n web -l app=shop
  gvrwatch top '*.example.com' -A`

func newTop(streams genericiooptions.IOStreams, out *screen.Screen) *cobra.Command {
	o := &watchOptions{screen: out, live: true}
	o.print.showManagedFields = true // which say who has made a change
	o.print.color = screen.Auto
	cmd := &cobra.Command{
		Use:     "top TYPE[,TYPE]... [NAME]... | TYPE/NAME...",
		Short:   "Show resources in the terminal, redrawn in place",
		Long:    topLong,
		Example: topExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := o.check(args)
			if err != nil {
				return err
			}
			if err := checkNotEmpty(cmd.Flags(), "namespace", "category", "exclude", "candidates"); err != nil {
				return err
			}
			out.SetColor(o.print.color)
			return asRunError(o.top(cmd.Context(), streams, args, want))
		},
	}
	f := cmd.Flags()
	o.conn.addFlags(f)
	o.what.addFlags(f)
	f.DurationVar(&o.end.timeout, "timeout", 0, "End after this time, such as 30s or 5m. Zero means never.")
	f.Var(&o.print.color, "color", "Color the screen. One of: (auto, always, never). "+
		"auto is always, unless NO_COLOR is set.")
	o.complete(cmd)
	return cmd
}

// top shows the wanted resources until the user leaves. While the terminal is drawn on, nothing else writes to it: what
// is meant for stderr is held.
func (o *watchOptions) top(
	ctx context.Context, streams genericiooptions.IOStreams, args []string, want wanted,
) error {
	if !o.screen.Out.IsTerminal() {
		return errors.New("top draws on a terminal, and stdout is none: use gvrwatch watch, which prints lines")
	}
	if err := top.CheckTerm(os.Getenv("TERM")); err != nil {
		return err
	}
	held := &heldMessages{to: streams.ErrOut}
	streams.ErrOut = held
	o.title = strings.Join(append(args, want.categories...), " ")
	if o.what.all {
		o.title = "--all"
	}
	err := o.watch(ctx, streams, want, nil)
	held.release(err != nil)
	var panicked *stream.PanicError
	if errors.As(err, &panicked) {
		fmt.Fprintf(held, "%s", panicked.Stack)
	}
	return err
}

// look shows the objects of a Mux in the terminal.
func (s *session) look(ctx context.Context, merged *mux.Mux, want wanted) error {
	held, ok := s.streams.ErrOut.(*heldMessages)
	if !ok {
		return errors.New("top holds what is meant for stderr") // it has set that
	}
	table, counts := newEventTable(s.printing(want)), &counts{}
	status := func() string { return statusLine(merged.Status(), counts) }
	live := top.NewLive(s.opts.title, status, held.last)
	live.Color = s.opts.screen.Out.HasColor()
	apply := func(ev stream.Event, ack func()) (bool, error) {
		var columns []screen.Column
		var cells []screen.Text
		if ev.HasObject() {
			columns, cells = table.cells(ev)
		}
		ev.JSON, _ = s.columns.Split(ev)
		live.Apply(ev, columns, cells)
		ack()
		return true, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	done := make(chan error, 1)
	go func() {
		done <- top.Protect(func() (err error) {
			for _, err = range (printedEvents{merged, apply, 0, counts}).Events(ctx) {
			}
			return err
		})
		end(nil)
	}()
	held.hold()
	err := live.Run(ctx)
	end(errLeft)
	watched := <-done
	if err == nil && !errors.Is(watched, errLeft) {
		err = watched
	}
	return err
}

// errLeft is the cause of the end of a watch that the user has left.
var errLeft = errors.New("left")

// heldMessages keeps the last lines that are meant for stderr, while a terminal is drawn on.
type heldMessages struct {
	to io.Writer

	mu    sync.Mutex
	holds bool
	lines []string
}

// Write takes a line, or passes it on.
func (h *heldMessages) Write(b []byte) (int, error) {
	const most = 10
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.holds {
		return h.to.Write(b)
	}
	h.lines = append(h.lines, strings.Clone(string(b)))
	h.lines = h.lines[max(0, len(h.lines)-most):]
	return len(b), nil
}

func (h *heldMessages) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = true
}

// last returns the last line.
func (h *heldMessages) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == 0 {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(h.lines[len(h.lines)-1]), "gvrwatch: ")
}

// release ends the hold, and prints the last lines if the run has failed.
func (h *heldMessages) release(failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = false
	if failed {
		for _, line := range h.lines {
			fmt.Fprint(h.to, line)
		}
	}
	h.lines = nil
}
