package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// measure prints the memory of both ways, beside each other.
func measure(ctx context.Context, n int, read bool, out io.Writer) error {
	srv, err := start(ctx, "-serve", fmt.Sprint(n))
	if err != nil {
		return err
	}
	defer srv.stop()
	url, err := srv.line()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s %10s %10s %14s %10s %8s\n",
		"with", "reconciled", "peak MB", "resident MB", "heap MB", "seconds")
	for _, with := range []string{"stream", "cache"} {
		r, took, err := measureOne(ctx, url, with, n, read)
		if err != nil {
			return fmt.Errorf("-with %s: %w", with, err)
		}
		fmt.Fprintf(out, "%-8s %10d %10.1f %14.1f %10.1f %8.1f\n",
			with, r.reconciled, mb(r.memory.peak), mb(r.memory.resident), mb(r.memory.heap), took.Seconds())
	}
	return nil
}

// mb is in millions of bytes.
func mb(bytes uint64) float64 { return float64(bytes) / 1e6 }

// report is what a manager prints after its reconciles.
type report struct {
	reconciled int
	memory     memory
}

func measureOne(ctx context.Context, url, with string, n int, read bool) (r report, took time.Duration, err error) {
	began := time.Now()
	p, err := start(ctx, "-server", url, "-with", with, "-until", fmt.Sprint(n), fmt.Sprintf("-read=%t", read))
	if err != nil {
		return r, 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	r, err = p.report()
	return r, time.Since(began), err
}

// process is another run of this program.
type process struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// start runs this program with other arguments, until ctx ends or stop is called.
func start(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), roleVariable+"=manager")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, bufio.NewReader(out)}, nil
}

// roleVariable makes the binary of the tests behave like this program.
const roleVariable = "GVRWATCH_MANAGER"

// line returns the next line that the process prints.
func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (p *process) report() (r report, err error) {
	line, err := p.line()
	if err != nil {
		return r, fmt.Errorf("the process ended without a report: %w", err)
	}
	_, err = fmt.Sscanf(line, "report: reconciled %d, peak %d, resident %d, heap %d",
		&r.reconciled, &r.memory.peak, &r.memory.resident, &r.memory.heap)
	return r, err
}

// stop ends the process as a kubelet does, and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, p.out) // until it has ended
	return p.cmd.Wait()
}
