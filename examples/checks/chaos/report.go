package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
)

// summary is the result of all seeds, as JSON.
type summary struct {
	Seeds    []uint64       `json:"seeds"`
	Seconds  float64        `json:"seconds"` // of faults, for each seed
	Changes  int            `json:"changes"`
	Faults   map[string]int `json:"faults"`
	Clients  []*verdict     `json:"clients"`
	Left     leftovers      `json:"left"`
	Failures []string       `json:"failures,omitempty"` // seeds that did not run
}

func newSummary(seconds float64) *summary {
	return &summary{Seconds: seconds, Faults: map[string]int{}}
}

// add adds the outcome of another seed.
func (s *summary) add(o *outcome) {
	s.Seeds = append(s.Seeds, o.seed)
	s.Changes += o.changes
	s.Left.Goroutines += o.left.Goroutines
	s.Left.HeapKB = max(s.Left.HeapKB, o.left.HeapKB)
	for _, f := range o.faults {
		s.Faults[f.Name]++
	}
	for _, v := range o.verdicts {
		i := slices.IndexFunc(s.Clients, func(c *verdict) bool { return c.Name == v.Name })
		if i < 0 {
			s.Clients = append(s.Clients, v)
			continue
		}
		s.Clients[i].add(v)
	}
}

// add adds what another seed has shown about the client.
func (v *verdict) add(o *verdict) {
	for to, n := range map[*int]int{
		&v.Changes: o.Changes, &v.DeletionsMissed: o.DeletionsMissed, &v.ChangesMissed: o.ChangesMissed,
		&v.ChangesInGaps: o.ChangesInGaps, &v.Live: o.Live, &v.Repeats: o.Repeats,
		&v.OrderViolations: o.OrderViolations, &v.Invented: o.Invented, &v.FoldsWrong: o.FoldsWrong,
		&v.Folds:             o.Folds,
		&v.Contents.Compared: o.Contents.Compared, &v.Contents.Wrong: o.Contents.Wrong,
		&v.Contents.Apart: o.Contents.Apart,
		&v.RewindsUnseen:  o.RewindsUnseen, &v.Wrote.Runs: o.Wrote.Runs, &v.Wrote.Events: o.Wrote.Events,
		&v.SeenByOthers: o.SeenByOthers,
	} {
		*to += n
	}
	v.Program.add(o.Program)
	for reason, n := range o.Gaps {
		v.Gaps[reason] += n
	}
	v.details.recoveries.add(o.details.recoveries)
	v.details.syncs.add(o.details.syncs)
	v.Times = v.details.times()
	v.details.violations = append(v.details.violations, o.details.violations...)
	v.Contents.violations = append(v.Contents.violations, o.Contents.violations...)
}

// broken reports whether one of our clients has a violation, or something was left behind.
func (s *summary) broken() bool {
	return s.Left.Goroutines > 0 || len(s.Failures) > 0 || slices.ContainsFunc(s.Clients, func(v *verdict) bool {
		return v.Ours && v.broken() > 0 || v.Contents.Wrong > 0
	})
}

func (s *summary) write(path string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}

// print writes the tables as Markdown.
func (s *summary) print(w io.Writer) {
	fmt.Fprintf(w, "Seeds %v, %v s of faults each; %d changes, %d faults.\n\n",
		s.Seeds, s.Seconds, s.Changes, total(s.Faults))
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(t, "| %v\t", c)
		}
		fmt.Fprintln(t, "|")
	}
	s.printLeague(row)
	t.Flush()
	fmt.Fprintf(w, "\nLeft behind: %d goroutines, %d KiB of heap.\n\n", s.Left.Goroutines, s.Left.HeapKB)
	s.printCounts(row)
	t.Flush()
	fmt.Fprintln(w)
	s.printContents(row)
	t.Flush()
	s.printGaps(row)
	t.Flush()
	fmt.Fprintln(w)
	header, line := []any{"time back in ms (median)", "times"}, []any{"---", "--:"}
	for _, v := range s.Clients {
		header, line = append(header, v.Name), append(line, "--:")
	}
	row(header...)
	row(line...)
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		cells := []any{name, s.Faults[name]}
		for _, v := range s.Clients {
			cells = append(cells, milliseconds(v.Times.Recovery, name))
		}
		row(cells...)
	}
	t.Flush()
}

// printLeague prints what was found.
func (s *summary) printLeague(row func(...any)) {
	row("client", "version", "deletions never reported", "changes never reported", "not due", "repeats", "disorder",
		"invented", "wrong states", "back after, ms", "memory, MiB")
	row("---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, v := range s.Clients {
		memory := ""
		if kb := v.Program.MemoryKB; kb > 0 {
			memory = fmt.Sprint((kb + 512) >> 10)
		}
		row(v.Name, v.Program.Version, v.DeletionsMissed, v.ChangesMissed, v.ChangesInGaps, v.Repeats,
			v.OrderViolations, v.Invented, v.FoldsWrong, milliseconds(v.Times.Recovery, ""), memory)
	}
}

// printCounts prints what the figures of the league are about.
func (s *summary) printCounts(row func(...any)) {
	row("client", "changes", "live", "GAPs", "seen by others only", "states compared", "rewinds unseen", "runs",
		"events", "unreadable lines")
	row("---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, v := range s.Clients {
		runs := max(v.Wrote.Runs, v.Program.Processes)
		row(v.Name, v.Changes, v.Live, total(v.Gaps), v.SeenByOthers, v.Folds, v.RewindsUnseen, runs, v.Wrote.Events,
			v.Program.Unreadable)
	}
}

// printContents prints how what caches contain compares.
func (s *summary) printContents(row func(...any)) {
	row("contents of caches", "compared with the answers", "wrong", "apart, after a list without a version")
	row("---", "--:", "--:", "--:")
	for _, v := range s.Clients {
		if c := v.Contents; c.Compared > 0 {
			row(v.Name, c.Compared, c.Wrong, c.Apart)
		}
	}
}

// printGaps prints the GAPs of each client by reason.
func (s *summary) printGaps(row func(...any)) {
	all := map[string]int{}
	for _, v := range s.Clients {
		for reason, n := range v.Gaps {
			all[reason] += n
		}
	}
	reasons := slices.Sorted(maps.Keys(all))
	header, line, sums := []any{"GAPs"}, []any{"---"}, []any{"all"}
	for _, reason := range reasons {
		header, line, sums = append(header, reason), append(line, "--:"), append(sums, all[reason])
	}
	row(header...)
	row(line...)
	for _, v := range s.Clients {
		cells := []any{v.Name}
		for _, reason := range reasons {
			cells = append(cells, v.Gaps[reason])
		}
		row(cells...)
	}
	row(sums...)
}

// printPrograms says what went wrong with programs: what they wrote that the judge could not read, and how they ended.
func (s *summary) printPrograms(w io.Writer) {
	for _, v := range s.Clients {
		if p := v.Program; p.Exits > 0 {
			fmt.Fprintf(w, "\n%s ended %d times by itself, and was started again. The last time: %s\n",
				v.Name, p.Exits, p.LastExit)
		}
		if p := v.Program; p.Unreadable > 0 {
			fmt.Fprintf(w, "\n%s wrote %d lines that the judge can't read. The first: %s\n",
				v.Name, p.Unreadable, p.Problem)
		}
	}
}

func total(counts map[string]int) (n int) {
	for _, one := range counts {
		n += one
	}
	return n
}

func milliseconds(medians map[string]int64, name string) string {
	switch ms, found := medians[name]; {
	case !found:
		return ""
	case ms < 0:
		return "never"
	default:
		return fmt.Sprint(ms)
	}
}

// printViolations writes the first violations of each of our clients, and with all those of others.
func (s *summary) printViolations(w io.Writer, all bool) {
	clients := slices.Clone(s.Clients)
	slices.SortStableFunc(clients, func(a, b *verdict) int {
		if a.Ours != b.Ours {
			return map[bool]int{true: -1, false: 1}[a.Ours]
		}
		return cmp.Compare(b.broken(), a.broken())
	})
	for _, v := range clients {
		found := v.Contents.violations
		if v.Contents.Wrong == 0 && !all {
			found = nil
		}
		if v.Ours || all {
			found = slices.Concat(found, v.details.violations)
		}
		if !all {
			found = found[:min(3, len(found))]
		}
		for _, one := range found {
			fmt.Fprintf(w, "\nVIOLATION %s: %s\n%s", one.Client, one.Text, one.Context)
		}
	}
}
