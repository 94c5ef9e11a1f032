package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/execute"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// execFlags say which command handles the events.
type execFlags struct {
	command string
	workers int
	retries int
	maxTime time.Duration
}

func (o *execFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.command, "exec", "",
		"Run this shell command for each event, instead of printing objects. The event is JSON on its standard "+
			"input. Its environment has GVRWATCH_TYPE, GVRWATCH_RESOURCE, GVRWATCH_NAMESPACE and GVRWATCH_NAME. "+
			"Commands for one object run in order. A command that fails is run again after a pause. What it "+
			"prints passes unchanged, and what it leaves in the background is killed. With --checkpoint, an event "+
			"counts as handled when its command has ended with status 0. No command is run for an object whose name "+
			"has a NUL character or over 32 KiB: a line on stderr says so.")
	f.IntVar(&o.workers, "exec-workers", 4, "How many commands of --exec run at once, each for another object.")
	f.IntVar(&o.retries, "exec-retries", 0,
		"How often a command of --exec that fails is run again, before the watch ends with an error. Zero means until "+
			"it succeeds.")
	f.DurationVar(&o.maxTime, "exec-timeout", 0, "How long a command of --exec may take. Zero means no limit.")
}

func (o *execFlags) check() error {
	switch {
	case o.workers < 1 && o.command != "":
		return fmt.Errorf("--exec-workers=%d: must be at least 1", o.workers)
	case o.workers > 1000:
		return fmt.Errorf("--exec-workers=%d: must be at most 1000, as many events as may wait", o.workers)
	case o.retries < 0:
		return fmt.Errorf("--exec-retries=%d: must not be negative", o.retries)
	case o.maxTime < 0:
		return fmt.Errorf("--exec-timeout=%v: must not be negative", o.maxTime)
	}
	return nil
}

// newRunner starts what runs the commands. What they print passes unchanged. It calls end if no event can be handled
// any more.
func (o *execFlags) newRunner(ctx context.Context, out *screen.Screen, end func(error)) *execute.Runner {
	return execute.New(ctx, execute.Options{
		Command: o.command, Workers: o.workers, Retries: o.retries, Timeout: o.maxTime,
		Out: out.Out.Raw(), ErrOut: out.ErrOut.Raw(), Ended: end,
		Failed: func(e execute.Event, err error, pause time.Duration) {
			printMessage(out.ErrOut, "%s: the command failed, trying again in %v: %v",
				e.Key, pause.Round(100*time.Millisecond), err)
		},
	})
}

// commandPrinter runs a command for each event.
type commandPrinter struct {
	printing printing
	run      func(execute.Event) error
}

func (p commandPrinter) flush() error { return nil }

func (p commandPrinter) print(ev stream.Event, written func()) error {
	document, err := json.Marshal(newEventDocument(ev, p.printing.now(), p.printing.flags, false))
	if err != nil {
		return err
	}
	m := ev.Meta()
	env := []string{
		"GVRWATCH_TYPE=" + string(ev.Type), "GVRWATCH_RESOURCE=" + ev.Resource.String(),
		"GVRWATCH_NAMESPACE=" + m.GetNamespace(), "GVRWATCH_NAME=" + m.GetName(),
	}
	if slices.ContainsFunc(env, noVariable) {
		printMessage(p.printing.streams.ErrOut,
			"%s: no command is run for the %s event of an object whose name is too long or has a NUL character: %s",
			ev.Resource, ev.Type, ev.NamespacedName())
		written()
		return nil
	}
	return p.run(execute.Event{
		// By name, not by uid: the deletion of an object comes before its recreation.
		Key:      ev.Resource.String() + " " + ev.NamespacedName().String(),
		Document: append(document, '\n'),
		Env:      env,
		Done:     written,
	})
}

// noVariable reports whether no system has room for a variable of the environment. Linux has for 128 KiB.
func noVariable(v string) bool { return len(v) > 32<<10 || strings.ContainsRune(v, 0) }
