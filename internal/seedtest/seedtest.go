// Package seedtest gives random tests their seeds. What such a test does follows from
// its seed, so a failure can be replayed. Two flags serve all tests of a package:
//
//	-soak N   multiplies the number of seeds by N
//	-seed N   plays seed N alone; with -soak, the seeds from N on
//
// Seeds count from 0 otherwise. With -short a tenth of them is played.
// A test that fails logs the command that replays its seed.
package seedtest

import (
	"flag"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
)

var (
	soak = flag.Uint64("soak", 0, "multiply the number of seeds of random tests")
	seed = flag.Int64("seed", -1, "play this seed alone; with -soak, the first of them")
)

// Default is how many seeds a test plays without flags.
type Default uint64

// Count returns how many seeds are played. It is at least 1.
func (d Default) Count() uint64 {
	if *seed >= 0 && *soak == 0 {
		return 1
	}
	if testing.Short() {
		d /= 10
	}
	return max(uint64(d), 1) * uint64(Soak())
}

// Soak returns the factor of -soak, for tests that repeat something without a seed.
func Soak() int { return int(max(*soak, 1)) }

// First returns the first seed.
func First() uint64 { return uint64(max(*seed, 0)) }

// All returns the seeds, up to the first one that fails the test.
func (d Default) All(t *testing.T) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		more := true
		for n := range d.Count() {
			one(t, First()+n, func(seed uint64) { more = yield(seed) })
			if !more || t.Failed() {
				return
			}
		}
	}
}

// Play runs a parallel subtest for each seed. After a failure it starts no others.
func (d Default) Play(t *testing.T, play func(t *testing.T, seed uint64)) {
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
			one(t, seed, func(seed uint64) { play(t, seed) })
		})
	}
}

// one plays a seed. If that fails, panics, or ends the goroutine, it logs how to
// replay it.
func one(t *testing.T, seed uint64, play func(uint64)) {
	done := false
	defer func() {
		if t.Failed() || !done && !t.Skipped() {
			t.Log(replay(t.Name(), seed))
		}
	}()
	play(seed)
	done = true
}

// replay returns the command that replays a seed. .ci/soak looks for it.
func replay(test string, seed uint64) string {
	top, _, _ := strings.Cut(test, "/")
	pkg := "."
	if b, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(b.Path, ".test")
	}
	return fmt.Sprintf("replay: go test %s -run '^%s$' -seed %d", pkg, top, seed)
}
