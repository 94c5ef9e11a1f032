package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// oursLine is what a shim prints when a test has called one of our constructors.
const oursLine = "peers: ours"

// expectation is what is expected of a suite: a section of expected.txt.
type expectation struct {
	runs    int        // tests without subtests that run
	fail    []expected // that fail
	leftOut []expected // that are not run
}

// expected is a test that differs, and why.
type expected struct{ test, reason string }

// parseExpected reads expected.txt: its first lines say how.
func parseExpected(r io.Reader) (map[string]*expectation, error) {
	all := map[string]*expectation{}
	var e *expectation
	var list *[]expected
	var reason string
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), " ")
		key, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "\t") && list != nil:
			*list = append(*list, expected{strings.TrimSpace(line), reason})
			continue
		case key == "suite":
			e, list = &expectation{}, nil
			var name string
			if _, err := fmt.Sscanf(rest, "%s runs %d", &name, &e.runs); err == nil && e.runs > 0 && all[name] == nil {
				all[name] = e
				continue
			}
		case (key == "fails:" || key == "left-out:") && e != nil && rest != "":
			list, reason = &e.fail, rest
			if key == "left-out:" {
				list = &e.leftOut
			}
			continue
		}
		return nil, fmt.Errorf("expected.txt:%d: invalid line %q: must be as the first lines say", n, line)
	}
	return all, lines.Err()
}

// outcome of a test, as go test -json calls it. A test that has none began, and did not end.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// run is what the processes of a suite's tests have said, as go test -json prints it.
type run struct {
	tests map[string]outcome // of all tests and subtests
	ours  map[string]bool    // top-level tests that have called one of our constructors
	text  map[string]string  // what tests have printed
}

func newRun() run { return run{map[string]outcome{}, map[string]bool{}, map[string]string{}} }

// add reads the output of the process of a top-level test. If the process fails and no test of it does, as when
// goroutines are left, the top-level test has failed.
func (r run) add(test string, out io.Reader) error {
	process, blamed := outcome(""), false
	for d := json.NewDecoder(out); ; {
		var ev struct{ Action, Test, Output string }
		if err := d.Decode(&ev); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read the output of %s: %w", test, err)
		}
		switch result := outcome(ev.Action); {
		case ev.Action == "output" && strings.HasSuffix(ev.Output, oursLine+"\n"):
			r.ours[test] = true
		case ev.Action == "output":
			r.text[cmp.Or(ev.Test, test)] += ev.Output
		case ev.Action == "run":
			r.tests[ev.Test] = ""
		case result != passed && result != failed && result != skipped:
		case ev.Test == "":
			process = result
		default:
			r.tests[ev.Test] = result
			blamed = blamed || result == failed
		}
	}
	if _, ran := r.tests[test]; ran && process != passed && !blamed {
		r.tests[test] = failed
	}
	return nil
}

// leaves returns the tests that count, in order: those without subtests, and those that failed while no subtest did.
func (r run) leaves() []string {
	parent, blamed := map[string]bool{}, map[string]bool{}
	for test, result := range r.tests {
		for up := test; strings.Contains(up, "/"); {
			up = up[:strings.LastIndex(up, "/")]
			parent[up] = true
			blamed[up] = blamed[up] || result != passed && result != skipped
		}
	}
	var found []string
	for test, result := range r.tests {
		if !parent[test] || result != passed && result != skipped && !blamed[test] {
			found = append(found, test)
		}
	}
	slices.Sort(found)
	return found
}

// result is a suite's row of the table.
type result struct {
	ran, passed, skipped int
	differences          []expected // that failed as expected
	leftOut              []expected
	problems             []string
}

// compare compares what was run with what is expected. The tests are the top-level tests of the suite's files.
func compare(e expectation, got run, tests []string) result {
	r := result{leftOut: e.leftOut}
	reasons := map[string]string{}
	for _, x := range e.fail {
		reasons[x.test] = x.reason
	}
	leftOut := map[string]bool{}
	for _, x := range e.leftOut {
		leftOut[x.test] = true
		if !slices.Contains(tests, x.test) {
			r.problem("%s: left out, but the suite has no such test", x.test)
		}
	}
	for _, test := range tests {
		if _, ran := got.tests[test]; !ran && !leftOut[test] {
			r.problem("%s: did not run", test)
		}
	}
	for _, test := range got.leaves() {
		r.ran++
		reason, known := reasons[test]
		delete(reasons, test)
		switch result := got.tests[test]; {
		case result == passed && known:
			r.problem("%s: passed, expected to fail: %s", test, reason)
			r.passed++
		case result == passed:
			r.passed++
		case result == skipped && !known:
			r.skipped++
		case result == failed && known:
			r.differences = append(r.differences, expected{test, reason})
		default:
			r.problem("%s: %s, and expected.txt does not expect that", test, cmp.Or(result, "did not end"))
		}
	}
	for _, test := range slices.Sorted(maps.Keys(reasons)) {
		r.problem("%s: did not run, expected to fail: %s", test, reasons[test])
	}
	if r.ran != e.runs {
		r.problem("%d tests ran, expected %d", r.ran, e.runs)
	}
	for _, test := range tests {
		if got.tests[test] == passed && !got.ours[test] {
			r.problem("%s: passed without one of our constructors: must be left out", test)
		}
	}
	return r
}

func (r *result) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// byReason groups tests under their reasons, in the order of expected.txt.
func byReason(all []expected, order []expected) (reasons []string, tests map[string][]string) {
	tests = map[string][]string{}
	for _, x := range all {
		tests[x.reason] = append(tests[x.reason], x.test)
	}
	for _, x := range order {
		if tests[x.reason] != nil && !slices.Contains(reasons, x.reason) {
			reasons = append(reasons, x.reason)
		}
	}
	return reasons, tests
}
