package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOutputEscapes(t *testing.T) {
	tests := []struct{ text, written, cell, why string }{
		{"a é 中 👍 ~\\u001b", "a é 中 👍 ~\\u001b", "a é 中 👍 ~\\u001b", "what is printable remains"},
		{"\x1b[31m\x7f\u009b\r", `\u001b[31m\u007f\u009b\u000d`, `\u001b[31m\u007f\u009b\u000d`,
			"controls are escaped"},
		{"\u202e\u2066\u200b\ufeff\u2028\ue000", `\u202e\u2066\u200b\ufeff\u2028\ue000`,
			`\u202e\u2066\u200b\ufeff\u2028\ue000`, "so is what changes the direction, or is not visible"},
		{"\U000e0001", `\udb40\udc01`, `\udb40\udc01`, "as in JSON, an escape has four digits"},
		{"\xff\xc3", "\ufffd\ufffd", "\ufffd\ufffd", "invalid UTF-8 is replaced"},
		{"a\tb\n", "a\tb\n", `a\u0009b\u000a`, "only lines and cells may be separated"},
	}
	for _, tt := range tests {
		var written, cell bytes.Buffer
		if n, err := (&output{w: &written}).Write([]byte(tt.text)); n != len(tt.text) || err != nil {
			t.Errorf("%q: Write returned %d, %v", tt.text, n, err)
		}
		if err := printLine(&cell, tt.text, ""); err != nil {
			t.Error(err)
		}
		got := []string{written.String(), cell.String()}
		if diff := cmp.Diff([]string{tt.written, tt.cell + "\t\n"}, got); diff != "" {
			t.Errorf("%q: %s (-want +got):\n%s", tt.text, tt.why, diff)
		}
	}
}

func TestBlockedWriteEndsAfterSignal(t *testing.T) {
	tests := []struct {
		reads time.Duration // after the signal
		want  error
		why   string
	}{
		{time.Hour, errUnread, "without a reader Write returns soon after the signal"},
		{100 * time.Millisecond, nil, "a slow reader gets what was begun"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			ended := make(chan struct{})
			o := &output{w: w, ended: ended}
			time.AfterFunc(time.Hour, func() { close(ended) })
			time.AfterFunc(time.Hour+tt.reads, func() { _, _ = io.Copy(io.Discard, r) })
			began := time.Now()
			for range 2 {
				if _, err := o.Write([]byte("x")); !errors.Is(err, tt.want) {
					t.Errorf("%s: got %v", tt.why, err)
				}
			}
			if took := time.Since(began) - time.Hour; took <= 0 || took > 500*time.Millisecond {
				t.Errorf("%s: two writes returned %v after the signal", tt.why, took)
			}
			time.Sleep(2 * time.Hour)
			w.Close()
		})
	}
}

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
		if _, stdout, stderr := gvrwatch(t, append(args, "--limit", "1")...); len(stdout) < 1<<20 {
			t.Errorf("%s: what was not written was acked: %d bytes, %s", flags, len(stdout), stderr)
		}
	}
}
