// Chaos breaks a real API server and etcd in many ways while objects are written, and compares what clients report
// with the history in etcd.
//
//	go run ./examples/checks/chaos -seeds 1,2,3 -for 60s
//
// Chaos check judges what was recorded somewhere else, and chaos history writes what happens in an etcd, for that.
//
// The exit status is 1 if a client that claims to be strict, as this library's do, breaks a promise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "check":
			os.Exit(check(os.Args[2:], os.Stdout, os.Stderr))
		case "history":
			os.Exit(readEtcd(os.Args[2:], os.Stdout, os.Stderr))
		}
	}
	seed := flag.Uint64("seed", 1, "seed of the faults")
	seeds := flag.String("seeds", "", "several seeds instead, such as 1,2,3")
	lasts := flag.Duration("for", time.Minute, "how long something is broken and written, for each seed")
	names := flag.String("clients", "",
		"names of clients, or paths of programs, separated by commas; empty means all, but with -adapters none: "+
			strings.Join(clientNames(), ","))
	adapters := flag.String("adapters", "", "folder with programs that are clients, too: see docs/judge.md")
	only := flag.String("faults", "",
		"faults, separated by commas; empty means all: "+strings.Join(faultNames(), ","))
	without := flag.String("without", "", "faults that must not happen, separated by commas")
	record := flag.String("record", "", "folder to write etcd's history and each client's reports to, for chaos check")
	file := flag.String("json", "", "file to write the results to, as JSON")
	verbose := flag.Bool("v", false,
		"print the faults, the errors and the standard error of clients, and the first violations of each kind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	o := settings{lasts: *lasts, record: *record, faults: selection{only: split(*only), without: split(*without)}}
	var s *summary
	var err error
	if o.clients, err = selectClients(split(*names), *adapters); err != nil {
		err = fmt.Errorf("-clients, -adapters: %w", err)
	} else {
		s, err = runSeeds(ctx, o, *seed, *seeds, *verbose)
	}
	stop()
	if err == nil && *file != "" {
		err = s.write(*file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	s.print(os.Stdout)
	s.printPrograms(os.Stdout)
	s.printViolations(os.Stdout, *verbose)
	if s.broken() {
		os.Exit(1)
	}
}

func runSeeds(
	ctx context.Context, o settings, seed uint64, several string, verbose bool,
) (*summary, error) {
	seeds := []uint64{seed}
	if several != "" {
		seeds = nil
		for _, text := range strings.Split(several, ",") {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("-seeds: invalid %q: must be numbers, separated by commas", several)
			}
			seeds = append(seeds, n)
		}
	}
	if o.record != "" {
		if len(seeds) > 1 {
			return nil, errors.New("-record: must have one seed, because a folder has one history")
		}
		if before, _ := os.ReadDir(o.record); len(before) > 0 {
			return nil, fmt.Errorf("invalid -record %s: must be empty, or not exist", o.record)
		}
	}
	if err := o.faults.check(); err != nil {
		return nil, fmt.Errorf("-faults, -without: %w", err)
	}
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	o.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	s := newSummary(o.lasts.Seconds())
	for _, o.seed = range seeds {
		result, err := runSeed(ctx, o)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			err = fmt.Errorf("seed %d: %w", o.seed, err)
			if len(seeds) == 1 {
				return nil, err
			}
			s.Failures = append(s.Failures, err.Error())
			fmt.Fprintln(os.Stderr, "chaos:", err)
			continue
		}
		s.add(result)
		if verbose {
			printErrors(result)
		}
	}
	return s, nil
}

func printErrors(o *outcome) {
	for _, stack := range o.left.stacks {
		fmt.Fprintf(os.Stderr, "left: %s\n", stack)
	}
	for name, errs := range o.errors {
		for _, text := range errs {
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, text)
		}
	}
}

// split returns the parts of a list with commas.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func faultNames() (names []string) {
	for _, k := range faultKinds {
		names = append(names, k.name)
	}
	return names
}
