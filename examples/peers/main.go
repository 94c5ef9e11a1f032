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

// program makes the measurements that args ask for. When it returns, all child processes have ended.
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
	fmt.Fprintf(out, "examples/peers %s\n%s, %s/%s, %d CPUs, GOGC=%d, medians of %d, %s in all\n",
		strings.Join(args, " "), began.Format(time.DateOnly), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH,
		runtime.NumCPU(), s.gogc, s.runs, time.Since(began).Round(time.Second))
	if s.quick {
		fmt.Fprintln(out, "Rough figures: with so few objects and events, each one bears more of the fixed costs.")
	}
	report(out, all)
	if file != "" {
		if err := writeJSON(file, all); err != nil {
			return err
		}
	}
	return failures(all)
}

func measureAll(
	ctx context.Context, s settings, plan []measurement, progress io.Writer,
) (samples []*sample, err error) {
	// TMPDIR of the peers: removing it removes the files of killed peers too.
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
	m := &measurer{server: url, temp: temp, profiles: s.profiles, progress: progress, repeatFor: s.repeatFor}
	return m.all(ctx, plan)
}

// failures returns an error that names the peers whose measurements failed, or nil.
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
	return fmt.Errorf("incomplete measurements: %s failed", strings.Join(names, ", "))
}

func parse(args []string, usage io.Writer) (settings, string, error) {
	s := defaultSettings()
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(usage)
	quick := f.Bool("quick", false, "finish in under a minute, with fewer events and runs and rough figures")
	events := f.Int("events", s.events,
		"number of events sent to a peer (with large objects a quarter of it, with -quick a multiple for fast peers)")
	objects := f.Int("objects", s.objects, "number of objects that the events change")
	runs := f.Int("runs", s.runs, "runs of each measurement; the tables show medians")
	gogc := f.Int("gogc", s.gogc, "GOGC of the peers")
	only := f.String("only", "", "comma-separated names of the peers to measure (default all)")
	file := f.String("json", "", "write the figures to this file")
	f.StringVar(&s.profiles, "cpuprofile", "", "write CPU profiles of the peers to this folder")
	if err := f.Parse(args); err != nil {
		return s, "", err
	}
	if f.NArg() > 0 {
		return s, "", fmt.Errorf("invalid argument %q: must be a flag", f.Arg(0))
	}
	if *quick {
		s.makeQuick()
	}
	f.Visit(func(set *flag.Flag) { // explicit flags override -quick
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
		return s, "", fmt.Errorf("-events must be at least %d, -runs and -gogc at least 1", namespaces)
	case s.objects < namespaces || s.objects > templates:
		return s, "", fmt.Errorf("-objects must be between %d and %d", namespaces, templates)
	}
	return s, *file, nil
}
