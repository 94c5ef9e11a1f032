package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// report prints the tables that have figures.
func report(w io.Writer, all []*row) {
	printEvents(w, all)
	printLatencies(w, all)
	printSnapshots(w, all)
	printHeap(w, all)
	printTargets(w, all)
	for _, r := range all {
		if r.Err != "" {
			fmt.Fprintf(w, "\n%s failed: %s\n", r.Name, r.Err)
		}
	}
}

// table is a Markdown table. Its first column has text, the others have numbers.
type table struct {
	head []string
	body [][]string
}

func (t *table) add(cells ...string) { t.body = append(t.body, cells) }

func (t *table) print(w io.Writer, title string) {
	if len(t.body) == 0 {
		return
	}
	widths := make([]int, len(t.head))
	for _, line := range append([][]string{t.head}, t.body...) {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	fmt.Fprintf(w, "\n%s\n\n", title)
	line := func(cells []string) {
		for i, cell := range cells {
			if i == 0 {
				fmt.Fprintf(w, "| %-*s ", widths[i], cell)
			} else {
				fmt.Fprintf(w, "| %*s ", widths[i], cell)
			}
		}
		fmt.Fprintln(w, "|")
	}
	line(t.head)
	for i, width := range widths {
		if i == 0 {
			fmt.Fprint(w, "|"+strings.Repeat("-", width+2))
		} else {
			fmt.Fprint(w, "|"+strings.Repeat("-", width+1)+":")
		}
	}
	fmt.Fprintln(w, "|")
	for _, cells := range t.body {
		line(cells)
	}
}

func printEvents(w io.Writer, all []*row) {
	t := table{head: []string{
		"peer", "events/s", "ratio", "CPU us/event", "allocs/event", "B/event", "peak RSS MB", "events",
	}}
	for _, r := range all {
		if r.EventsPerS == nil {
			continue
		}
		to := "dynamic"
		if r.Size == string(big) {
			to = "dynamic-11k"
		}
		if r.GOGC == otherGOGC && find(all, otherName(to)).EventsPerS != nil {
			to = otherName(to)
		}
		compared := "-"
		if v, ok := ratio(r.Name, to, speed)(all); ok {
			compared = number(v)
		}
		t.add(r.Name, number(*r.EventsPerS), compared, number(*r.CPUPerEvent), number(*r.Allocs),
			number(*r.Allocated), megabytes(r.PeakRSS), number(float64(r.Events)))
	}
	t.print(w, "Events (ratio: events/s relative to dynamic, with objects of the same size and the same GOGC)")
}

func printLatencies(w io.Writer, all []*row) {
	t := table{head: []string{"peer", "target events/s", "reached", "p50 us", "p99 us", "max us"}}
	for _, r := range all {
		for _, l := range r.Latencies {
			t.add(r.Name, number(float64(l.Rate)), number(l.Reached), number(l.P50), number(l.P99), number(l.Max))
		}
	}
	t.print(w, "Latency (where the target rate was not reached, the server had to wait; that wait does not count)")
}

func printSnapshots(w io.Writer, all []*row) {
	t := table{head: []string{"first snapshot", "ms", "ratio", "peak RSS MB", "RSS before MB", "objects"}}
	for _, r := range all {
		if r.Snapshot == nil {
			continue
		}
		compared := "-"
		if v, ok := ratio("dynamic-list", r.Name, snapshot)(all); ok {
			compared = number(v)
		}
		t.add(r.Name, number(*r.Snapshot), compared, megabytes(r.PeakRSS), megabytes(r.BaseRSS),
			number(float64(r.SnapshotObjects)))
	}
	t.print(w, "First snapshot (ratio: speed relative to dynamic-list)")
}

func printHeap(w io.Writer, all []*row) {
	t := table{head: []string{"peer", "live heap B/object", "objects"}}
	for _, r := range all {
		if r.HeapPerObject != nil {
			t.add(r.Name, number(*r.HeapPerObject), number(float64(r.HeapObjects)))
		}
	}
	t.print(w, "Live heap with all objects known")
}

func printTargets(w io.Writer, all []*row) {
	t := table{head: []string{"target", "wanted", "measured", "verdict"}}
	for _, goal := range targets() {
		v, ok := goal.from(all)
		if !ok {
			continue
		}
		bound := ">= "
		if goal.atMost {
			bound = "<= "
		}
		verdict := "met"
		if met, missed := goal.verdict(v); !met {
			verdict = fmt.Sprintf("missed by %.0f %%", math.Ceil(missed*100))
		}
		t.add(goal.what, bound+number(goal.want)+unit(goal.unit), number(v)+unit(goal.unit), verdict)
	}
	t.print(w, "Targets")
}

func unit(u string) string {
	if u == "" || u == "x" {
		return u
	}
	return " " + u
}

func megabytes(b *float64) string {
	if b == nil || *b == 0 {
		return "-"
	}
	return number(*b / 1e6)
}

// number formats v with three significant digits, or with all digits before the decimal point if there are more, in
// groups of three. Below 0.00995 it has four decimals. The limits of the ranges allow for rounding: 9.999 is "10.0".
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.00995:
		return fmt.Sprintf("%.4f", v)
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// writeJSON writes the rows to a file.
func writeJSON(path string, all []*row) error {
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
