package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const checkHelp = `chaos check judges what was recorded somewhere else.

	chaos check FILE -history HISTORY
	chaos check FILE -beside OTHER

FILE and OTHER have lines of docs/judge.md with a time, or are what gvrwatch watch writes with --record, or with
-o json --output-watch-events --timestamps. HISTORY is what chaos history writes, or history.jsonl of -record.
The exit status is 0 if nothing was found, 1 if something was, and 2 if that can't be said.

`

// The exit statuses of check, beside 0.
const (
	foundSomething = 1
	cannotJudge    = 2
)

// check is the command of that name. It returns the exit status.
func check(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("chaos check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, checkHelp)
		flags.PrintDefaults()
	}
	truth := flags.String("history", "", "file with etcd's history")
	other := flags.String("beside", "", "file that was recorded at the same time")
	late := flags.Duration("late", 10*time.Second,
		"changes that were committed this long before the last line are due in a recording without END")
	files, err := parseMixed(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	switch {
	case err != nil: // the flag set has printed it
		return cannotJudge
	case len(files) != 1 || (*truth == "") == (*other == ""):
		err = errors.New("invalid arguments: must be FILE, and -history HISTORY or -beside OTHER")
	case *late < 0:
		err = fmt.Errorf("invalid -late %v: must not be negative", *late)
	}
	var found *finding
	if err == nil && *other != "" {
		found, err = checkBeside(files[0], *other, *late)
	} else if err == nil {
		found, err = checkHistory(files[0], *truth, *late)
	}
	if err != nil {
		fmt.Fprintln(stderr, "chaos check:", err)
		return cannotJudge
	}
	found.print(stdout)
	if found.broken() {
		return foundSomething
	}
	return 0
}

// parseMixed parses flags that may come after other arguments, which it returns.
func parseMixed(flags *flag.FlagSet, args []string) (others []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			return others, nil
		}
		others, args = append(others, args[0]), args[1:]
	}
}

// finding is what a check has found.
type finding struct {
	summary *summary
	notes   []string // what it could not judge, and why
}

func (f *finding) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *finding) broken() bool {
	return slices.ContainsFunc(f.summary.Clients, func(v *verdict) bool {
		return v.broken() > 0
	})
}

func (f *finding) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(t, "| %v\t", c)
		}
		fmt.Fprintln(t, "|")
	}
	f.summary.printLeague(row)
	t.Flush()
	fmt.Fprintln(w)
	f.summary.printCounts(row)
	t.Flush()
	fmt.Fprintln(w)
	f.summary.printPrograms(w)
	for _, text := range f.notes {
		fmt.Fprintln(w, text)
	}
	f.summary.printViolations(w, true)
}

// judge judges a record by a history.
func (f *finding) judge(r *recordFile, h *history, faults []fault, late time.Duration) {
	if r.complete {
		late = 0
	}
	if !r.timed {
		faults = nil
	}
	kept, reports, cut := r.due(h, late)
	s := r.subject
	s.Denied = deniedBy(s, faults)
	v := judge(s, kept, reports, faults)
	v.Program = r.counts
	f.summary.Clients = append(f.summary.Clients, v)
	f.summary.Changes = max(f.summary.Changes, len(kept.changes))
	if !r.timed {
		f.note("%s has no times: it is judged up to its last version, and no time back is measured.", s.Name)
	}
	if cut.later > 0 {
		f.note("%s is judged up to version %d. %d later changes are known that it does not have, and need not: "+
			"it ends before them.", s.Name, cut.to, cut.later)
	}
}

// synced returns the resources of which a record says from when on changes are due.
func (r *recordFile) synced() []string {
	return resourcesOf(slices.DeleteFunc(slices.Clone(r.reports), func(one report) bool { return one.Kind != synced }))
}

// limit leaves out of a record what is outside of its scope.
func (r *recordFile) limit() {
	r.reports = slices.DeleteFunc(r.reports, func(one report) bool {
		s := r.subject.Scope
		ofAll := one.UID == "" && one.Namespace == ""
		return !slices.Contains(s.Resources, one.Resource) ||
			len(s.Namespaces) > 0 && !ofAll && !slices.Contains(s.Namespaces, one.Namespace)
	})
}

// both returns what two sorted lists share, and what only one of them has.
func both(a, b []string) (shared, apart []string) {
	for _, one := range a {
		if slices.Contains(b, one) {
			shared = append(shared, one)
		} else {
			apart = append(apart, one)
		}
	}
	for _, one := range b {
		if !slices.Contains(a, one) {
			apart = append(apart, one)
		}
	}
	return shared, apart
}

const noSynced = "no SYNCED says from when on changes are due: must have one after what existed when it began, " +
	`such as {"type": "SYNCED", "resource": "pods", "resourceVersion": "12"}`

func checkHistory(path, truth string, late time.Duration) (*finding, error) {
	h, read, err := readHistory(truth)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(path)
	if err != nil {
		return nil, err
	}
	f := &finding{summary: newSummary(0)}
	for _, one := range read.faults {
		f.summary.Faults[one.Name]++
	}
	if len(h.epochs) > 1 && !r.timed {
		return nil, fmt.Errorf("judge %s: etcd was restored meanwhile, and it has no times: must have them", path)
	}
	known := resourcesIn(h.changes)
	if read.ended && read.span == everything {
		known = append(known, r.subject.Scope.Resources...) // there was nothing else
	}
	resources, apart := both(r.subject.Scope.Resources, known)
	if len(resources) == 0 {
		return nil, fmt.Errorf("judge %s: %s has nothing of %s", path, truth,
			strings.Join(r.subject.Scope.Resources, ", "))
	}
	if apart, _ := both(r.subject.Scope.Resources, apart); len(apart) > 0 {
		f.note("Not judged, because the history has nothing of it: %s.", strings.Join(apart, ", "))
	}
	r.subject.Scope.Resources = resources
	r.limit()
	if len(r.synced()) == 0 {
		return nil, fmt.Errorf("judge %s: %s", path, noSynced)
	}
	if resources, err = f.overlap(r, h.asRecord(read.span), resources); err != nil {
		return nil, fmt.Errorf("judge %s beside %s: %w", path, truth, err)
	}
	r.subject.Scope.Resources = resources
	r.limit()
	if _, silent := both(resources, r.synced()); len(silent) > 0 {
		f.note("Nothing of %s is due: there is no SYNCED.", strings.Join(silent, ", "))
	}
	if !r.complete {
		h.slack = late
	}
	if read.span != everything {
		h = witness(h, read.span, r)
		f.note("The history has versions %d to %d. What else was recorded is believed.", read.span.from, read.span.to)
	}
	f.judge(r, h, read.faults, late)
	return f, nil
}

func checkBeside(path, other string, late time.Duration) (*finding, error) {
	var records []*recordFile
	for _, one := range []string{path, other} {
		r, err := readRecord(one)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(r.reports, func(one report) bool { return one.Reason == "rewound" }) {
			return nil, fmt.Errorf("judge %s: etcd was restored meanwhile: two recordings of that can't be judged "+
				"beside each other, but beside etcd's history", one)
		}
		records = append(records, r)
	}
	a, b := records[0], records[1]
	if a.subject.Name == b.subject.Name {
		a.subject.Name, b.subject.Name = a.subject.Name+" (1)", b.subject.Name+" (2)"
	}
	if selectorOf(a) != selectorOf(b) {
		return nil, fmt.Errorf("judge %s beside %s: their label selectors %q and %q differ", path, other,
			selectorOf(a), selectorOf(b))
	}
	f := &finding{summary: newSummary(0)}
	resources, apart := both(a.synced(), b.synced())
	if len(resources) == 0 {
		return nil, fmt.Errorf("judge %s beside %s: there is no resource of which both have a SYNCED (%s)",
			path, other, strings.Join(apart, ", "))
	}
	if len(apart) > 0 {
		f.note("Not judged, because only one of them has a SYNCED of it: %s.", strings.Join(apart, ", "))
	}
	namespaces, err := sharedNamespaces(a.subject.Scope.Namespaces, b.subject.Scope.Namespaces)
	if err != nil {
		return nil, fmt.Errorf("judge %s beside %s: %w", path, other, err)
	}
	for _, r := range records {
		r.subject.Scope.Resources, r.subject.Scope.Namespaces = resources, namespaces
		r.limit()
	}
	if resources, err = f.overlap(a, b, resources); err != nil {
		return nil, fmt.Errorf("judge %s beside %s: %w", path, other, err)
	}
	for _, r := range records {
		r.subject.Scope.Resources = resources
		r.limit()
	}
	truth := witness(&history{epochs: []epoch{{}}, slack: late}, nothing, records...)
	for _, r := range records {
		r.subject.Scope.Selects = nil // a change is in the selector if it was reported
		f.judge(r, truth, nil, late)
	}
	compare(f.summary.Clients)
	f.note("Neither is the truth. What one has and the other lacks is found, and what both lack is not.")
	return f, nil
}

func selectorOf(r *recordFile) string {
	if r.subject.Scope.Selects == nil {
		return ""
	}
	return r.subject.Scope.Selects.String()
}

// sharedNamespaces returns the namespaces that two scopes share; none means all.
func sharedNamespaces(a, b []string) ([]string, error) {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...), nil
	}
	shared, _ := both(a, b)
	if !slices.ContainsFunc(shared, func(one string) bool { return one != "" }) {
		return nil, fmt.Errorf("they share no namespace: %q and %q", a, b)
	}
	return shared, nil
}
