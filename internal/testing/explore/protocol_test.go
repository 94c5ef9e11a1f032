package explore

import (
	"errors"
	"runtime/debug"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// TestProtocol walks through the protocol and the index. With -soak 2 or more there is one more write, with -soak 4 or
// more also one more fault, and a walk ends after soakStates.
func TestProtocol(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes every order of steps, which are the same with each version of client-go and Go")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most of the memory stays in use
	all := Figures{Whole: true}
	for _, u := range setups() {
		switch soak := seedtest.Soak(); {
		case soak > 1:
			u.grow(soak > 3)
		case u.long:
			continue
		}
		start := newWorld(u)
		figures, err := Walk(start, u.bounds)
		t.Logf("%s: %v", u.name, figures)
		all.add(figures)
		if broken := (*Broken[*world])(nil); errors.As(err, &broken) {
			t.Fatalf("%s: %v\n\nAs a conversation test of package stream:\n\n%s", u.name, err,
				conversation(start, broken.Way))
		}
	}
	t.Logf("in all: %v", all)
}

// soakStates bound the memory of a walk to a few GiB.
const soakStates = 2_000_000

func (u *setup) grow(faults bool) {
	u.bounds.States = soakStates
	if u.may.writes++; faults && u.may.faults > 0 {
		u.may.faults++
	}
}

func (f *Figures) add(other Figures) {
	f.States, f.Steps, f.Depth = f.States+other.States, f.Steps+other.Steps, max(f.Depth, other.Depth)
	f.Whole, f.Took = f.Whole && other.Whole, f.Took+other.Took
}
