package main

import (
	"runtime"
	"strings"
	"time"
)

// leftovers are what clients leave behind when they have ended.
type leftovers struct {
	Goroutines int    `json:"goroutines"` // of our packages
	HeapKB     int64  `json:"heap_kb"`    // more than before the clients began; with the recordings
	stacks     string // of the goroutines
}

const ourPath = "github.com/gvrwatch/gvrwatch/"

func measureLeftovers() (l leftovers) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		l.stacks = stacksOfOurs()
		l.Goroutines = strings.Count(l.stacks, "goroutine ")
		if l.Goroutines == 0 || time.Now().After(deadline) {
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

// stacksOfOurs returns the stacks of all goroutines that run code of the library.
func stacksOfOurs() string {
	b := make([]byte, 8<<20)
	b = b[:runtime.Stack(b, true)]
	var ours []string
	for stack := range strings.SplitSeq(string(b), "\n\n") {
		for l := range strings.Lines(stack) {
			if strings.HasPrefix(l, ourPath) && !strings.HasPrefix(l, ourPath+"examples/") {
				ours = append(ours, stack)
				break
			}
		}
	}
	return strings.Join(ours, "\n\n")
}
