package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	if code, child := runChild(); child {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := program(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	os.Exit(exitCode(err))
}

// program measures what args say, and leaves no child behind.
func program(ctx context.Context, args []string, out, progress io.Writer) error {
	s, file, err := parse(args, progress)
	if err != nil {
		return err
	}
	plan, err := s.plan()
	if err != nil {
		return err
	}
	if s.profiles != "" {
		if err := os.MkdirAll(s.profiles, 0o755); err != nil {
			return err
		}
	}
	began := time.Now()
	samples, err := measureAll(ctx, s, plan, progress)
	if err != nil {
		return err
	}
	all := rows(samples)
	fmt.Fprintf(out, "examples/peers %s\n%s, %s/%s, %d CPUs, GOGC=%d, medians of %d, %s in all\n", strings.Join(args, " "),
		began.Format(time.DateOnly), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), s.gogc, s.runs, time.Since(began).Round(time.Second))
	if s.quick {
		fmt.Fprintln(out, "Rough: what a client keeps for itself is spread over few objects, and what is made once over few events.")
	}
	report(out, all)
	if file != "" {
		if err := writeJSON(file, all); err != nil {
			return err
		}
	}
	return failures(all)
}

func measureAll(ctx context.Context, s settings, plan []measurement, progress io.Writer) (samples []*sample, err error) {
	// What a peer that is killed leaves behind is in there.
	temp, err := os.MkdirTemp("", "gvrwatch-peers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	server, url, err := startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ended := server.end(); ended != nil && ctx.Err() == nil {
			err = errors.Join(err, ended)
		}
	}()
	return (&measurer{server: url, temp: temp, profiles: s.profiles, progress: progress, repeatFor: s.repeatFor}).all(ctx, plan)
}

// failures says which peers could not be measured.
func failures(all []*row) error {
	var names []string
	for _, r := range all {
		if r.Err != "" {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("not everything could be measured: %s failed", strings.Join(names, ", "))
}

func parse(args []string, usage io.Writer) (settings, string, error) {
	s := defaultSettings()
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(usage)
	quick := f.Bool("quick", false, "take under a minute: fewer events and runs, so that the figures are rough")
	events := f.Int("events", s.events, "how many events a peer is sent (with larger objects a quarter, and with -quick fast peers a multiple of it)")
	objects := f.Int("objects", s.objects, "how many objects the events are of")
	runs := f.Int("runs", s.runs, "how often each is measured; the table has the medians")
	gogc := f.Int("gogc", s.gogc, "GOGC of the peers")
	only := f.String("only", "", "names of the peers to measure, with commas; all if it is empty")
	file := f.String("json", "", "file that the figures are written to")
	f.StringVar(&s.profiles, "cpuprofile", "", "folder for CPU profiles of the peers")
	if err := f.Parse(args); err != nil {
		return s, "", err
	}
	if f.NArg() > 0 {
		return s, "", fmt.Errorf("%q is no flag: there are no arguments", f.Arg(0))
	}
	if *quick {
		s.makeQuick()
	}
	f.Visit(func(set *flag.Flag) { // which -quick does not overrule
		switch set.Name {
		case "events":
			s.events = *events
		case "objects":
			s.objects = *objects
		case "runs":
			s.runs, s.timedRuns = *runs, *runs
		case "gogc":
			s.gogc = *gogc
		}
	})
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	switch {
	case s.events < namespaces || s.runs < 1 || s.gogc < 1:
		return s, "", fmt.Errorf("-events should be at least %d, -runs and -gogc at least 1", namespaces)
	case s.objects < namespaces || s.objects > templates:
		return s, "", fmt.Errorf("-objects should be between %d and %d", namespaces, templates)
	}
	return s, *file, nil
}
