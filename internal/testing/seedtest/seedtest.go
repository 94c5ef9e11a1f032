// Package seedtest gives random tests their seeds. A seed determines what the test does, so that a failure can be
// replayed. Two flags apply to all tests of a package:
//
//	-soak N   multiplies the number of seeds by N
//	-seed N   runs seed N only, or with -soak the seeds from N on
//
// Otherwise seeds count from 0. With -short a tenth of them run. A test that fails logs the command that replays its
// seed.
package seedtest

import (
	"flag"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	soak = flag.Uint64("soak", 0, "multiply the number of seeds of random tests")
	seed = flag.Int64("seed", -1, "run this seed only, or with -soak the seeds from it on")
)

// Default is how many seeds a test runs without flags.
type Default uint64

// Count returns how many seeds run. It is at least 1.
func (d Default) Count() uint64 {
	if *seed >= 0 && *soak == 0 {
		return 1
	}
	if testing.Short() {
		d /= 10
	}
	return max(uint64(d), 1) * uint64(Soak())
}

// Soak returns the factor of -soak, at least 1, for tests that repeat something without a seed.
func Soak() int { return int(max(*soak, 1)) }

// First returns the first seed.
func First() uint64 { return uint64(max(*seed, 0)) }

// All returns the seeds up to the first that fails the test. It ends early if the time until the test's deadline may
// not be enough for another seed.
func (d Default) All(t *testing.T) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		more, longest := true, time.Duration(0)
		for n := range d.Count() {
			if deadline, ok := t.Deadline(); ok && time.Until(deadline) < 2*longest {
				t.Logf("no time for seed %d and later ones", First()+n)
				return
			}
			began := time.Now()
			runSeed(t, First()+n, func(seed uint64) { more = yield(seed) })
			longest = max(longest, time.Since(began))
			if !more || t.Failed() {
				return
			}
		}
	}
}

// Run runs f in a parallel subtest for each seed. After a failure it starts no others.
func (d Default) Run(t *testing.T, f func(t *testing.T, seed uint64)) {
	var failed atomic.Bool
	for n := range d.Count() {
		seed := First() + n
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
			runSeed(t, seed, func(seed uint64) { f(t, seed) })
		})
	}
}

// runSeed runs one seed. If f fails the test, panics, or ends the goroutine, it logs how to replay the seed.
func runSeed(t *testing.T, seed uint64, f func(uint64)) {
	done := false
	defer func() {
		if t.Failed() || !done && !t.Skipped() {
			t.Log(replay(t.Name(), seed))
		}
	}()
	f(seed)
	done = true
}

// replay returns the command that replays a seed. .ci/soak searches the log for it.
func replay(test string, seed uint64) string {
	top, _, _ := strings.Cut(test, "/")
	pkg := "."
	if b, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(b.Path, ".test")
	}
	return fmt.Sprintf("replay: go test %s -run '^%s$' -seed %d", pkg, top, seed)
}
