package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// argsVariable is an environment variable that makes the test binary run the program with these arguments, as JSON.
const argsVariable = "GVRWATCH_TEST_ARGS"

// process returns the program as a process, which a test can kill.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	// The race detector sleeps for a second before the process exits.
	cmd.Env = append(os.Environ(), argsVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// TestSignalEndsABlockedProcess stops to read in the middle of an object that is larger than a pipe.
func TestSignalEndsABlockedProcess(t *testing.T) {
	s := newScripted(t, robotType)
	s.Put(robotType, "default", "a", "spec.text="+strings.Repeat("x", 1<<20))
	for _, flags := range []string{"-o json", "-o yaml --follow", "-o json --latest"} {
		path := filepath.Join(t.TempDir(), "positions.db")
		args := strings.Fields("watch robots --server " + s.url + " --checkpoint " + path + " " + flags)
		cmd := process(t, args...)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.ReadFull(out, make([]byte, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil || time.Since(began) > time.Second {
			t.Errorf("%s: after one signal the program took %v: %v", flags, time.Since(began), err)
		}
		killed.Stop()
		if _, stdout, stderr := runTool(t, append(args, "--limit", "1")...); len(stdout) < 1<<20 {
			t.Errorf("%s: what was not written was acked: %d bytes, %s", flags, len(stdout), stderr)
		}
	}
}
