package main

import (
	"os"
	"runtime/debug"
)

// Most of what a watch allocates is garbage a moment later, and what stays is
// small. With Go's default the collector would run every few hundred events; with
// this a quarter as often, for some tens of megabytes. Who sets GOGC or
// GOMEMLIMIT knows better.
const (
	garbagePercent = 400
	memoryLimit    = 1 << 30 // bytes, beyond which the collector works harder
)

func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
