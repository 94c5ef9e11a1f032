package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

//go:embed expected.txt
var expectedText string

func main() {
	log.SetFlags(0)
	log.SetPrefix("peers: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := program(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		log.Fatal(err)
	}
}

// program runs the suites that args name, and prints how they went. It returns an error if a test did not end as
// expected.txt says.
func program(ctx context.Context, args []string, out, progress io.Writer) error {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(progress)
	only := f.String("suite", "", "run only the suite with this `name`: "+strings.Join(names(), ", "))
	verbose := f.Bool("v", false, "print what tests print that fail, and keep the temporary module")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("invalid argument %q: must be a flag", f.Arg(0))
	}
	if *only != "" && !slices.Contains(names(), *only) {
		return fmt.Errorf("invalid -suite %q: must be one of %s", *only, strings.Join(names(), ", "))
	}
	expectations, err := parseExpected(strings.NewReader(expectedText))
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "gvrwatch-peers-")
	if err != nil {
		return err
	}
	if *verbose {
		fmt.Fprintln(out, "module:", root)
	} else {
		defer os.RemoveAll(root)
	}
	m, err := newModule(ctx, root)
	if err == nil {
		err = m.addShims()
	}
	if err != nil {
		return err
	}
	problems := 0
	for _, s := range suites {
		if *only != "" && s.name != *only {
			continue
		}
		e := expectations[s.name]
		if e == nil {
			return fmt.Errorf("expected.txt: no suite %q", s.name)
		}
		n, err := runSuite(ctx, m, s, *e, *verbose, out)
		if err != nil {
			return err
		}
		problems += n
	}
	if problems > 0 {
		return fmt.Errorf("%d problems", problems)
	}
	return nil
}

func names() []string {
	var all []string
	for _, s := range suites {
		all = append(all, s.name)
	}
	return all
}

// runSuite runs a suite and prints its table. It returns how many problems there are.
func runSuite(ctx context.Context, m *module, s suite, e expectation, verbose bool, out io.Writer) (int, error) {
	began := time.Now()
	tests, err := m.add(ctx, s)
	if err != nil {
		return 0, err
	}
	got, err := m.test(ctx, s, e, tests)
	if err != nil {
		return 0, err
	}
	r := compare(e, got, tests)
	r.print(out, s, m.version(s), time.Since(began), e)
	if verbose {
		for _, test := range got.leaves() {
			if got.tests[test] != passed {
				fmt.Fprintf(out, "%s\n", got.text[test])
			}
		}
	}
	return len(r.problems), nil
}

// print prints a suite's table.
func (r result) print(out io.Writer, s suite, version string, took time.Duration, e expectation) {
	fmt.Fprintf(out, "%s: %s/%s@%s, with %s\n", s.name, s.module, s.folder, version, s.ours)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tran\tpassed\tskipped\texpected differences\tleft out\tseconds\t\n\t%d\t%d\t%d\t%d\t%d\t%.0f\t\n",
		r.ran, r.passed, r.skipped, len(r.differences), len(r.leftOut), took.Seconds())
	w.Flush()
	list := func(title string, all, order []expected) {
		reasons, tests := byReason(all, order)
		for _, reason := range reasons {
			fmt.Fprintf(out, "  %s: %s\n", title, reason)
			for _, test := range tests[reason] {
				fmt.Fprintf(out, "      %s\n", test)
			}
		}
	}
	list("differs", r.differences, e.fail)
	list("left out", r.leftOut, e.leftOut)
	for _, p := range r.problems {
		fmt.Fprintf(out, "  PROBLEM: %s\n", p)
	}
	fmt.Fprintln(out)
}
