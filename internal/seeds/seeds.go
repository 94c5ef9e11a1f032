// Package seeds is for tests that play random programs. What one of them does
// follows from its seed, so that one that fails can be played again.
package seeds

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
)

// Range is which seeds a test plays.
type Range struct{ first, count *uint64 }

// Flags makes the flags of a test: -seed and -seeds, after a prefix that tells them
// from those of the package's other tests. It is for variables of a package.
func Flags(prefix, test string, count uint64) Range {
	return Range{
		first: flag.Uint64(prefix+"seed", 0, fmt.Sprintf("the first seed of %s; with -%sseeds 1 it is played again", test, prefix)),
		count: flag.Uint64(prefix+"seeds", count, "how many seeds "+test+" plays"),
	}
}

// First is the first seed.
func (r Range) First() uint64 { return *r.first }

// Count is how many there are.
func (r Range) Count() uint64 { return *r.count }

// Share has the first seed of so many, and at least one.
func (r Range) Share(of uint64) Range {
	count := max(*r.count/of, 1)
	return Range{r.first, &count}
}

// All calls yield with each seed.
func (r Range) All(yield func(seed uint64) bool) {
	for n := range *r.count {
		if !yield(*r.first + n) {
			return
		}
	}
}

// Play has a parallel test of its own for each seed. Once one has failed it begins
// no others: one is enough to look at.
func (r Range) Play(t *testing.T, play func(t *testing.T, seed uint64)) {
	var failed atomic.Bool
	for seed := range r.All {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			if failed.Load() {
				return
			}
			defer func() {
				if t.Failed() {
					failed.Store(true)
				}
			}()
			play(t, seed)
		})
	}
}
