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

// ways are those of -with.
var ways = []string{"stream", "cache", "compact"}

// measure prints the memory of all ways, beside each other.
func measure(ctx context.Context, o options, out io.Writer) error {
	srv, err := start(ctx, "-serve", fmt.Sprint(o.secrets), fmt.Sprintf("-whole=%t", o.whole))
	if err != nil {
		return err
	}
	defer srv.stop()
	url, err := srv.line()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s %-9s %10s %10s %14s %10s %8s\n",
		"with", "keeps", "reconciled", "peak MB", "resident MB", "heap MB", "seconds")
	for _, with := range ways {
		r, took, err := measureOne(ctx, url, with, o)
		if err != nil {
			return fmt.Errorf("-with %s: %w", with, err)
		}
		keeps := "metadata"
		switch {
		case with == "stream":
			keeps = "versions"
		case o.whole:
			keeps = "Secrets"
		}
		fmt.Fprintf(out, "%-8s %-9s %10d %10.1f %14.1f %10.1f %8.1f\n",
			with, keeps, r.reconciled, mb(r.memory.peak), mb(r.memory.resident), mb(r.memory.heap), took.Seconds())
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

func measureOne(ctx context.Context, url, with string, o options) (r report, took time.Duration, err error) {
	began := time.Now()
	p, err := start(ctx, "-server", url, "-with", with, "-until", fmt.Sprint(o.secrets),
		fmt.Sprintf("-read=%t", o.read), fmt.Sprintf("-whole=%t", o.whole))
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
