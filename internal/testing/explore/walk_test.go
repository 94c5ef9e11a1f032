package explore

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toy is a model whose states are numbers, from each of which some steps lead to others.
type toy struct {
	at    int
	steps map[int]string // such as "+2 calm+1"
	bad   int            // breaks a promise
	ends  int            // is where calm steps must lead; 0 for anywhere
	panic int            // panics when steps are taken
}

type toyStep string

func (s toyStep) String() string { return strings.TrimPrefix(string(s), "calm") }
func (s toyStep) Calm() bool     { return strings.HasPrefix(string(s), "calm") }

func (m *toy) Steps() iter.Seq2[Step, *toy] {
	return func(yield func(Step, *toy) bool) {
		if m.at == m.panic && m.panic != 0 {
			panic("boom")
		}
		for _, s := range strings.Fields(m.steps[m.at]) {
			to := *m
			by := 0
			_, _ = fmt.Sscan(toyStep(s).String(), &by)
			to.at += by
			if !yield(toyStep(s), &to) {
				return
			}
		}
	}
}

func (m *toy) AppendKey(to []byte) []byte { return fmt.Append(to, m.at) }

func (m *toy) Check() error {
	if m.at == m.bad && m.bad != 0 {
		return errors.New("bad")
	}
	return nil
}

func (m *toy) Settle() error {
	if m.ends != 0 && m.at != m.ends {
		return fmt.Errorf("settled at %d", m.at)
	}
	return nil
}

func TestWalk(t *testing.T) {
	line := map[int]string{0: "calm+1 +2", 1: "calm+1", 2: "calm+1 +2", 3: "calm+1", 4: "calm+1"}
	tests := []struct {
		why    string
		model  toy
		bounds Bounds
		want   Figures
		err    string
	}{
		{"each state is found once, by its shortest way, and all are found",
			toy{steps: line, ends: 5}, Bounds{}, Figures{States: 6, Steps: 7, Depth: 3, Whole: true}, ""},
		{"a broken promise is found by the fewest steps",
			toy{steps: line, bad: 4}, Bounds{}, Figures{States: 5, Steps: 5, Depth: 1},
			"after 2 steps:\n\t+2\n\t+2\nbad"},
		{"where a walk is cut off, its states must settle",
			toy{steps: line, ends: 5}, Bounds{Depth: 1}, Figures{States: 3, Steps: 2, Depth: 1},
			"after 1 steps:\n\t+1\nsettled at 1"},
		{"a bound of depth",
			toy{steps: line}, Bounds{Depth: 2}, Figures{States: 5, Steps: 5, Depth: 2}, ""},
		{"a bound of states",
			toy{steps: line}, Bounds{States: 3}, Figures{States: 3, Steps: 2, Depth: 1}, ""},
		{"an end without a calm step must be the right one",
			toy{steps: map[int]string{0: "calm+1 +2"}, ends: 1}, Bounds{},
			Figures{States: 3, Steps: 2, Depth: 1}, "after 1 steps:\n\t+2\nsettled at 2"},
		{"calm steps must not go round in a circle",
			toy{steps: map[int]string{0: "+1", 1: "calm+1", 2: "calm-1 +1"}}, Bounds{},
			Figures{States: 4, Steps: 4, Depth: 3, Whole: true}, "after 1 steps:\n\t+1\n" + errCircle.Error()},
		{"nor stay where they are",
			toy{steps: map[int]string{0: "+1", 1: "calm+0 +1"}}, Bounds{},
			Figures{States: 3, Steps: 3, Depth: 2, Whole: true}, "after 1 steps:\n\t+1\n" + errCircle.Error()},
		{"a panic is a counterexample",
			toy{steps: line, panic: 2}, Bounds{}, Figures{States: 3, Steps: 3, Depth: 1},
			"after 1 steps:\n\t+2\npanic: boom"},
	}
	for _, tt := range tests {
		got, err := Walk(&tt.model, tt.bounds)
		got.Took = 0
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.why, diff)
		}
		text := ""
		if err != nil {
			text, _, _ = strings.Cut(err.Error(), "\ngoroutine")
		}
		if text != tt.err {
			t.Errorf("%s: got %q, want %q", tt.why, text, tt.err)
		}
	}
}
