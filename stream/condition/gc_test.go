package condition_test

import (
	"runtime/debug"
	"testing"
)

// TestMain trades memory for time: otherwise a fifth of the time of the tests is that of the garbage collector.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}
