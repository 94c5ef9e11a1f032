package execute_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/execute"
)

// output collects what commands write, and calls each for each write.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	each func(all string)
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if o.each != nil {
		o.each(o.text.String())
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, o execute.Options) *execute.Runner {
	t.Helper()
	if o.Failed == nil {
		o.Failed = func(e execute.Event, err error, _ time.Duration) { t.Errorf("%s: %v", e.Key, err) }
	}
	r := execute.New(t.Context(), o)
	t.Cleanup(r.Close)
	return r
}

func run(t *testing.T, r *execute.Runner, key, document string, done func()) {
	t.Helper()
	e := execute.Event{Key: key, Document: []byte(document), Env: []string{"NAME=" + key}, Done: done}
	if err := r.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// TestOrder: the events of an object are handled in order, one after the other, and done when their command has ended.
func TestOrder(t *testing.T) {
	out, errOut := &output{}, &output{}
	r := start(t, execute.Options{
		Command: `read n; echo "$NAME $n"; echo "log $n" >&2`, Workers: 4, Out: out, ErrOut: errOut,
	})
	var mu sync.Mutex
	done := map[string][]int{}
	for n := range 20 {
		for _, key := range []string{"a", "b", "c"} {
			run(t, r, key, fmt.Sprintln(n), func() {
				mu.Lock()
				defer mu.Unlock()
				done[key] = append(done[key], n)
			})
		}
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, printed := map[string][]int{}, map[string][]int{}
	for n := range 20 {
		for _, key := range []string{"a", "b", "c"} {
			want[key] = append(want[key], n)
		}
	}
	for line := range strings.Lines(out.String()) {
		var key string
		var n int
		if _, err := fmt.Sscan(line, &key, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		printed[key] = append(printed[key], n)
	}
	if diff := cmp.Diff(want, done) + cmp.Diff(want, printed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := strings.Count(errOut.String(), "log "); n != 60 {
		t.Errorf("stderr has %d lines, want 60", n)
	}
}

// TestParallel: as many commands run at once as there are workers, and never more.
func TestParallel(t *testing.T) {
	const workers = 3
	release := filepath.Join(t.TempDir(), "release")
	most := 0
	out := &output{each: func(all string) {
		if running := strings.Count(all, "begin") - strings.Count(all, "end"); running > most {
			if most = running; most == workers {
				if err := os.WriteFile(release, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	}}
	r := start(t, execute.Options{
		Command: `echo begin; while [ ! -e "` + release + `" ]; do sleep 0.01; done; echo end`,
		Workers: workers, Out: out, ErrOut: out,
	})
	for n := range 10 {
		run(t, r, fmt.Sprint(n), "", func() {})
	}
	if err := r.Drain(t.Context()); err != nil || most != workers {
		t.Errorf("%d commands ran at once, want %d (%v)", most, workers, err)
	}
}

// TestRetries: a command that fails is run again, and its object's other events wait for it. Others do not.
func TestRetries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tried")
	out := &output{}
	var failures []string
	r := start(t, execute.Options{
		Command: `read n; [ $NAME$n != a1 ] || [ -e "` + file + `" ] || { : > "` + file + `"; exit 3; }; echo $NAME$n`,
		Workers: 1, Out: out, ErrOut: out,
		Failed: func(e execute.Event, err error, pause time.Duration) {
			failures = append(failures, fmt.Sprint(e.Key, ": ", err))
			if pause < time.Second || pause > 2*time.Second {
				t.Errorf("the first pause is %v", pause)
			}
		},
	})
	run(t, r, "a", "1\n", func() {})
	run(t, r, "a", "2\n", func() {})
	run(t, r, "b", "1\n", func() {})
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	diff := cmp.Diff("b1\na1\na2\n", out.String()) + cmp.Diff([]string{"a: exit status 3"}, failures)
	if diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoTryIsLeft(t *testing.T) {
	ended := make(chan error, 2)
	r := start(t, execute.Options{
		Command: "exit 7", Workers: 1, Retries: 1, Out: &output{}, ErrOut: &output{},
		Failed: func(execute.Event, error, time.Duration) {}, Ended: func(err error) { ended <- err },
	})
	run(t, r, "a", "", func() { t.Error("the event was done") })
	err := r.Drain(t.Context())
	var failed *execute.FailedError
	if !errors.As(err, &failed) || failed.Key != "a" || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("Drain returned %v", err)
	}
	if got := <-ended; got != err || len(ended) > 0 {
		t.Errorf("Ended was called with %v", got)
	}
	again := r.Run(t.Context(), execute.Event{Key: "b", Done: func() {}})
	if again != nil && !errors.As(again, &failed) {
		t.Errorf("Run returned %v", again)
	}
}

// TestTimeout: a command that takes too long fails.
func TestTimeout(t *testing.T) {
	r := start(t, execute.Options{
		Command: "exec sleep 100", Workers: 1, Retries: 1, Timeout: 50 * time.Millisecond,
		Out: &output{}, ErrOut: &output{},
		Failed: func(execute.Event, error, time.Duration) {},
	})
	run(t, r, "a", "", func() { t.Error("the event was done") })
	if err := r.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "time limit") {
		t.Errorf("Drain returned %v", err)
	}
}

// TestEnd: when ctx ends, commands and what they started end, nothing is done, and Run and Drain return.
func TestEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan bool, 1)
	out := &output{each: func(string) { began <- true }}
	r := execute.New(ctx, execute.Options{Command: "echo begin; sleep 100 & wait", Workers: 1, Out: out, ErrOut: out})
	if err := r.Run(ctx, execute.Event{Key: "a", Done: func() { t.Error("the event was done") }}); err != nil {
		t.Fatal(err)
	}
	<-began
	stopped := errors.New("stopped")
	cancel(stopped)
	start := time.Now()
	r.Close()
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("Close took %v: the signal did not reach what the command started", took)
	}
	if err := r.Drain(ctx); !errors.Is(err, stopped) {
		t.Errorf("Drain returned %v", err)
	}
}

// TestLeftBehind: a command that ends well but leaves something running is done, and what it has left is killed.
func TestLeftBehind(t *testing.T) {
	out := &output{}
	r := start(t, execute.Options{Command: "sleep 1000 & echo $!", Workers: 1, Out: out, ErrOut: out})
	run(t, r, "a", "", func() {})
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkGone(t, out.String())
}

// checkGone waits until a process, of which a command has printed the number, does not run any more.
func checkGone(t *testing.T, pid string) {
	t.Helper()
	file := "/proc/" + strings.TrimSpace(pid) + "/stat"
	ended := func(context.Context) (bool, error) {
		status, err := os.ReadFile(file)
		return err != nil || strings.Contains(string(status), ") Z "), nil // a zombie waits for init
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, ended); err != nil {
		t.Errorf("what the command has left still runs: %v", err)
	}
}

// TestInputs: a command need not read its input, however large, and its last line need not end.
func TestInputs(t *testing.T) {
	out := &output{}
	r := start(t, execute.Options{Command: "printf ended", Workers: 1, Out: out, ErrOut: out})
	run(t, r, "a", strings.Repeat("x", 1<<20), func() {})
	if err := r.Drain(t.Context()); err != nil || out.String() != "ended\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestBytes: what waits is bounded in bytes, and in number. A document that is larger than the bound passes alone.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		why  string
		size int
		want int // how many are accepted while no command ends
	}{
		{"small documents", 1, 1000},
		{"documents of which four have room", 15 << 20, 4},
		{"a document beyond the bound", 100 << 20, 1},
	} {
		release := filepath.Join(t.TempDir(), "release")
		r := start(t, execute.Options{
			Command: `while [ ! -e "` + release + `" ]; do sleep 0.01; done`,
			Workers: 1, Out: &output{}, ErrOut: &output{},
		})
		document := make([]byte, c.size)
		accepted := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := r.Run(ctx, execute.Event{Key: "a", Document: document, Done: func() {}})
			cancel()
			if err != nil {
				break
			}
			accepted++
		}
		if accepted != c.want {
			t.Errorf("%s: %d were accepted, want %d", c.why, accepted, c.want)
		}
		if err := os.WriteFile(release, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, r, "a", string(document), func() {}) // there is room again
		if c.size > 1 {
			if err := r.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestLostOutput: an error of the output ends the Runner, because no command can succeed any more.
func TestLostOutput(t *testing.T) {
	r := start(t, execute.Options{Command: "echo x", Workers: 1, Out: full{}, ErrOut: full{}})
	run(t, r, "a", "", func() { t.Error("the event was done") })
	if err := r.Drain(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Drain returned %v", err)
	}
}

// TestKill: a program that ends at once leaves no command behind, even one that ignores SIGTERM.
func TestKill(t *testing.T) {
	started, failed := make(chan struct{}), make(chan error, 1)
	out := &output{each: func(string) { close(started) }}
	r := start(t, execute.Options{
		Command: "trap '' TERM; sleep 1000 & echo $!; wait",
		Workers: 1, Out: out, ErrOut: out, Failed: func(_ execute.Event, err error, _ time.Duration) { failed <- err },
	})
	run(t, r, "a", "", func() { t.Error("a command that was killed has handled nothing") })
	<-started
	execute.Kill()
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the command has ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the command goes on")
	}
	checkGone(t, out.String())
}
