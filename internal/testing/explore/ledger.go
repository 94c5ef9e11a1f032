package explore

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// ledgerSetup is what a walk over the ledger explores.
type ledgerSetup struct {
	name, why                   string
	namespaces                  []string // each is a line of the ledger; none for the cluster
	objects                     int      // of each namespace in turn; at most 2
	exist                       int      // so many of them at the start
	resumes                     bool     // an earlier run has acked and committed what exists
	writes                      int      // on the server
	most                        ledgerSpent
	recreated                   bool // an object that returns has a new uid; else it was only not selected meanwhile
	pages                       bool // a snapshot is a page, which is written ahead as a whole; else it is streamed
	deferred                    bool // the sequence starts now, or with after, after the current version
	after                       bool
	noWriteAhead, positionsOnly bool
	marks                       bool // the Store can be marked while commits fail
	bounds, soak                Bounds
	checked                     *checked // what was left of programs, after which the next run was right
}

var ledgerNames = [...]string{"a", "b"}

func (u *ledgerSetup) namespaceOf(object int) string {
	if len(u.namespaces) == 0 {
		return ""
	}
	return u.namespaces[object%len(u.namespaces)]
}

// spaces returns the namespaces of the lines.
func (u *ledgerSetup) spaces() []string {
	if len(u.namespaces) == 0 {
		return []string{""}
	}
	return u.namespaces
}

func (u *ledgerSetup) identity() checkpoint.Identity {
	return checkpoint.Identity{
		Cluster: checkpoint.Cluster{UID: "cluster"}, Resource: "widgets", Namespaces: u.namespaces,
	}
}

// ledgerState is a state of a program: the steps that lead to it. A ledger can't be copied, so the steps since the
// program was started are taken again to make the program.
type ledgerState struct {
	setup *ledgerSetup
	from  *ledgerState // the state before; nil at the start
	step  ledgerStep
	past  *ledgerPast    // what there was when the program was started, if that was the last step
	lost  bool           // with past: the history
	made  *ledgerProgram // until Steps or Settle uses it up
}

func newLedgerState(u *ledgerSetup) *ledgerState {
	u.checked = &checked{}
	return &ledgerState{setup: u, past: newLedgerPast(u)}
}

// program makes the program in this state. The promises about the last step are checked.
func (s *ledgerState) program(wordy bool) *ledgerProgram {
	var steps []ledgerStep
	at := s
	for ; at.past == nil; at = at.from {
		steps = append(steps, at.step)
	}
	p := startLedger(s.setup, *at.past, at.lost)
	p.wordy = wordy
	for i, step := range slices.Backward(steps) {
		p.checks = i == 0
		step.apply(p)
	}
	return p
}

// look returns the program, which the caller must not change.
func (s *ledgerState) look() *ledgerProgram {
	if s.made == nil {
		s.made = s.program(false)
	}
	return s.made
}

// use returns the program, which the caller may change.
func (s *ledgerState) use() *ledgerProgram {
	p := s.look()
	s.made = nil
	return p
}

// AppendKey appends the key of the program.
func (s *ledgerState) AppendKey(to []byte) []byte {
	k := ledgerKey{to: to}
	k.program(s.look())
	return k.ranked()
}

// Steps yields the steps that can be taken.
func (s *ledgerState) Steps() iter.Seq2[Step, *ledgerState] {
	return func(yield func(Step, *ledgerState) bool) {
		steps, calm := stepsOf(s.look())
		for i, step := range steps {
			next := &ledgerState{setup: s.setup, from: s, step: step}
			switch {
			case step.do == ledgerKill:
				past := s.look().killed(step)
				next.past, next.lost = &past, step.how&ledgerLost != 0
			case i == len(steps)-1:
				p := s.use()
				p.checks = true
				step.apply(p)
				next.made = p
			}
			if !yield(ledgerWords{next, step == calm}, next) {
				return
			}
		}
	}
}

// ledgerWords are the step that leads to a state, and what it does, in words.
type ledgerWords struct {
	state *ledgerState
	calm  bool
}

// Calm reports whether the step is what happens if no commit fails and no program ends.
func (w ledgerWords) Calm() bool { return w.calm }

func (w ledgerWords) String() string {
	if s := w.state; s.past != nil {
		p := s.from.program(false)
		return fmt.Sprintf("kill and start: commit stored %v, history lost %v",
			p.run.committing && s.step.how&ledgerStored != 0, s.lost)
	}
	return strings.Join(w.state.program(true).log, "; ")
}
