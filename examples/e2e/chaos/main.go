// Chaos breaks a real API server and etcd in many ways while objects are written, and compares what clients report
// with the history in etcd.
//
//	go run ./examples/e2e/chaos -seeds 1,2,3 -for 60s
//
// The exit status is 1 if one of this library's clients breaks a promise.
package main

import (
	"context"
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
	seed := flag.Uint64("seed", 1, "seed of the faults")
	seeds := flag.String("seeds", "", "several seeds instead, such as 1,2,3")
	lasts := flag.Duration("for", time.Minute, "how long something is broken and written, for each seed")
	names := flag.String("clients", "", "clients, separated by commas; empty means all: "+strings.Join(clientNames(), ","))
	file := flag.String("json", "", "file to write the results to, as JSON")
	verbose := flag.Bool("v", false, "print the faults, the errors that clients returned, and all violations")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	s, err := runSeeds(ctx, *seed, *seeds, *lasts, *names, *verbose)
	stop()
	if err == nil && *file != "" {
		err = s.write(*file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	s.print(os.Stdout)
	s.printViolations(os.Stdout, *verbose)
	if s.broken() {
		os.Exit(1)
	}
}

func runSeeds(
	ctx context.Context, seed uint64, several string, lasts time.Duration, names string, verbose bool,
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
	chosen, err := selectClients(strings.FieldsFunc(names, func(r rune) bool { return r == ',' }))
	if err != nil {
		return nil, fmt.Errorf("-clients: %w", err)
	}
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	s := newSummary(lasts.Seconds())
	for _, seed := range seeds {
		o, err := runSeed(ctx, settings{seed: seed, lasts: lasts, clients: chosen, log: log})
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			s.Failures = append(s.Failures, fmt.Sprintf("seed %d: %v", seed, err))
			fmt.Fprintf(os.Stderr, "chaos: seed %d: %v\n", seed, err)
			continue
		}
		s.add(o)
		if verbose {
			printErrors(o)
		}
	}
	return s, nil
}

func printErrors(o *outcome) {
	if o.left.Goroutines > 0 {
		fmt.Fprintln(os.Stderr, o.left.stacks)
	}
	for name, errs := range o.errors {
		for _, text := range errs {
			fmt.Fprintf(os.Stderr, "%s returned: %s\n", name, text)
		}
	}
}
