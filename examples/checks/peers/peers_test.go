package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said returns what a process prints: an event for each "ACTION TEST" or "output TEST TEXT".
func said(events ...string) string {
	var out strings.Builder
	for _, ev := range events {
		action, rest, _ := strings.Cut(ev, " ")
		test, text, _ := strings.Cut(rest, " ")
		fmt.Fprintf(&out, `{"Action":%q,"Test":%q,"Output":%q}`+"\n", action, test, text+"\n")
	}
	return out.String()
}

func TestCompare(t *testing.T) {
	one := expectation{runs: 1}
	oneFails := expectation{runs: 1, fail: []expected{{"TestA", "because"}}}
	good := []string{"run TestA", "output TestA " + oursLine, "pass TestA", "pass"}
	bad := []string{"run TestA", "output TestA " + oursLine, "fail TestA", "fail"}
	for _, tt := range []struct {
		why      string
		expected expectation
		tests    []string // top-level tests in the files; TestA if there are none
		said     []string
		want     result
	}{
		{
			why:      "what passes with ours and is not on the list is no problem",
			expected: one, said: good,
			want: result{ran: 1, passed: 1},
		},
		{
			why:      "what fails must be on the list",
			expected: one, said: bad,
			want: result{ran: 1, problems: []string{"TestA: fail, and expected.txt does not expect that"}},
		},
		{
			why:      "what is on the list may fail",
			expected: oneFails, said: bad,
			want: result{ran: 1, differences: []expected{{"TestA", "because"}}},
		},
		{
			why:      "what is on the list must not pass",
			expected: oneFails, said: good,
			want: result{ran: 1, passed: 1, problems: []string{"TestA: passed, expected to fail: because"}},
		},
		{
			why:      "what is on the list must run, even if the number is right",
			expected: expectation{runs: 1, fail: []expected{{"TestA/gone", "because"}}},
			said:     good,
			want: result{
				ran: 1, passed: 1, problems: []string{"TestA/gone: did not run, expected to fail: because"},
			},
		},
		{
			why:      "what is skipped has not failed",
			expected: oneFails, said: []string{"run TestA", "output TestA " + oursLine, "skip TestA", "pass"},
			want: result{ran: 1, problems: []string{"TestA: skip, and expected.txt does not expect that"}},
		},
		{
			why:      "a test of the files must run",
			expected: one, tests: []string{"TestA", "TestB"}, said: good,
			want: result{ran: 1, passed: 1, problems: []string{"TestB: did not run"}},
		},
		{
			why:      "a suite of which nothing runs is no success",
			expected: one, said: []string{"pass"},
			want: result{problems: []string{"TestA: did not run", "0 tests ran, expected 1"}},
		},
		{
			why:      "a test that is left out need not run, but must exist",
			expected: expectation{runs: 1, leftOut: []expected{{"TestB", "why"}, {"TestGone", "why"}}},
			tests:    []string{"TestA", "TestB"}, said: good,
			want: result{
				ran: 1, passed: 1, leftOut: []expected{{"TestB", "why"}, {"TestGone", "why"}},
				problems: []string{"TestGone: left out, but the suite has no such test"},
			},
		},
		{
			why:      "a test that has not called ours says nothing about ours",
			expected: one, said: []string{"run TestA", "pass TestA", "pass"},
			want: result{
				ran: 1, passed: 1,
				problems: []string{"TestA: passed without one of our constructors: must be left out"},
			},
		},
		{
			why:      "a subtest counts, its parent does not",
			expected: expectation{runs: 2, fail: []expected{{"TestA/y", "because"}}},
			said: []string{
				"run TestA", "run TestA/x", "output TestA/x " + oursLine, "pass TestA/x", "run TestA/y", "fail TestA/y",
				"fail TestA", "fail",
			},
			want: result{ran: 2, passed: 1, differences: []expected{{"TestA/y", "because"}}},
		},
		{
			why:      "a parent that fails after its subtests have passed counts",
			expected: one,
			said: []string{
				"run TestA", "output TestA " + oursLine, "run TestA/x", "pass TestA/x", "fail TestA", "fail",
			},
			want: result{ran: 2, passed: 1, problems: []string{
				"TestA: fail, and expected.txt does not expect that", "2 tests ran, expected 1",
			}},
		},
		{
			why:      "a process that dies fails the test that was running",
			expected: oneFails, said: []string{"run TestA", "output TestA panic: x", "fail"},
			want: result{ran: 1, differences: []expected{{"TestA", "because"}}},
		},
		{
			why:      "a subtest that never ends is a failure of its own",
			expected: one, said: []string{"run TestA", "output TestA " + oursLine, "run TestA/x", "fail TestA", "fail"},
			want: result{ran: 1, problems: []string{"TestA/x: did not end, and expected.txt does not expect that"}},
		},
		{
			why:      "a process that fails although its test has passed, as for a goroutine that is left, fails it",
			expected: one, said: []string{"run TestA", "output TestA " + oursLine, "pass TestA", "fail"},
			want: result{ran: 1, problems: []string{"TestA: fail, and expected.txt does not expect that"}},
		},
		{
			why:      "a test that passes in a process without an end has not passed",
			expected: one, said: good[:3],
			want: result{ran: 1, problems: []string{"TestA: fail, and expected.txt does not expect that"}},
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if tt.tests == nil {
				tt.tests = []string{"TestA"}
			}
			got := newRun()
			if err := got.add("TestA", strings.NewReader(said(tt.said...))); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, compare(tt.expected, got, tt.tests),
				cmp.AllowUnexported(result{}, expected{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseExpected(t *testing.T) {
	for _, tt := range []struct {
		why, text, err string
		want           map[string]*expectation
	}{
		{
			why:  "reasons stand above the tests",
			text: "# a comment\nsuite a runs 3\n\nfails: one\n\tTestA/x y\n\tTestB\nleft-out: two\n\tTestC\n",
			want: map[string]*expectation{"a": {
				runs: 3, fail: []expected{{"TestA/x y", "one"}, {"TestB", "one"}},
				leftOut: []expected{{"TestC", "two"}},
			}},
		},
		{why: "a suite that runs nothing", text: "suite a runs 0\n", err: "expected.txt:1:"},
		{why: "a suite twice", text: "suite a runs 1\nsuite a runs 2\n", err: "expected.txt:2:"},
		{why: "no reason", text: "suite a runs 1\nfails:\n\tTestA\n", err: "expected.txt:2:"},
		{why: "a test above its reason", text: "suite a runs 1\n\tTestA\n", err: "expected.txt:2:"},
		{
			why:  "a reason of the suite before",
			text: "suite a runs 1\nfails: x\nsuite b runs 1\n\tTestA\n", err: "expected.txt:4:",
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			got, err := parseExpected(strings.NewReader(tt.text))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(expectation{}, expected{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The list and the suites belong together.
func TestEverySuiteHasItsExpectations(t *testing.T) {
	got, err := parseExpected(strings.NewReader(expectedText))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names() {
		if got[name] == nil {
			t.Errorf("expected.txt has no suite %q", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("expected.txt has suite %q, which does not exist", name)
	}
}

func TestTestsOf(t *testing.T) {
	got, err := testsOf(map[string][]byte{
		"a_test.go": []byte(`package a

func TestB(t *testing.T) {}
func TestA(t *testing.T) {}
func TestMain(m *testing.M) {}
func testC() {}
func (x) TestD() {}

func ExampleE() {
	// Output:
	// x
}

func ExampleF() {}
`),
		"a.go":                []byte("package a\n\nfunc TestG() {}\n"),
		"testdata/a_test.go":  []byte("package a\n\nfunc TestH(t *testing.T) {}\n"),
		"testdata/no_go.json": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ExampleE", "TestA", "TestB"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
