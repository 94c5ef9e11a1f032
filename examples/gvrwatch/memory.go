package main

import (
	"os"
	"runtime/debug"
)

// Most of what a watch allocates is garbage a moment later, and the rest is small. With Go's default GOGC the collector
// would run every few hundred events; with 400 it runs a quarter as often and uses some tens of megabytes more. The
// environment variables GOGC and GOMEMLIMIT take precedence.
const (
	garbagePercent = 400
	memoryLimit    = 1 << 30 // bytes; above this the collector runs more often
)

func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
