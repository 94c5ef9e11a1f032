package main

import (
	"runtime"
	"strings"
	"time"
)

// leftovers are what clients leave behind when they have ended.
type leftovers struct {
	Goroutines int   `json:"goroutines"` // of our packages
	HeapKB     int64 `json:"heap_kb"`    // more than before the clients began; with the recordings
	stacks     []string
}

// measureLeftovers gives goroutines a few seconds to end.
func measureLeftovers() (l leftovers) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		l.stacks = stacksOfOurs()
		if l.Goroutines = len(l.stacks); l.Goroutines == 0 || time.Now().After(deadline) {
			break
		}
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.HeapKB = int64(m.HeapAlloc) >> 10
	return l
}

func (l leftovers) since(before leftovers) leftovers {
	l.HeapKB -= before.HeapKB
	return l
}

const ourPath = "github.com/gvrwatch/gvrwatch/"

// stacksOfOurs returns the stacks of all goroutines that run code of the library. The harness and package seedtest,
// which calls it, are not part of that.
func stacksOfOurs() (ours []string) {
	b := make([]byte, 8<<20)
	b = b[:runtime.Stack(b, true)]
	for stack := range strings.SplitSeq(string(b), "\n\n") {
		for l := range strings.Lines(stack) {
			path, found := strings.CutPrefix(l, ourPath)
			if found && !strings.HasPrefix(path, "examples/") && !strings.HasPrefix(path, "internal/testing/seedtest") {
				ours = append(ours, stack)
				break
			}
		}
	}
	return ours
}
