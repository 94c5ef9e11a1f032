package execute

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// grace is how long a command may take to end after it was asked to. Then it is killed.
const grace = 3 * time.Second

var running sync.Map // of *os.Process

// Kill kills all commands of the program, and what they have started, for a program that ends at once.
func Kill() {
	running.Range(func(p, _ any) bool {
		killGroup(p.(*os.Process))
		return true
	})
}

// run runs a command until it ends, or ctx does. A command need not read its input.
func run(ctx context.Context, command string, e Event, out, errOut io.Writer) error {
	c := shell(ctx, command)
	c.Stdin = bytes.NewReader(e.Document)
	c.Stdout, c.Stderr = out, errOut
	c.Env = append(os.Environ(), e.Env...)
	var kill *time.Timer
	c.Cancel = func() error {
		kill = time.AfterFunc(grace, func() { killGroup(c.Process) })
		return endGroup(c.Process)
	}
	// What it started and left behind may hold its outputs open. That is killed, too.
	c.WaitDelay = grace + time.Second
	if err := c.Start(); err != nil {
		return err
	}
	running.Store(c.Process, nil)
	defer running.Delete(c.Process)
	err := c.Wait()
	if kill != nil { // Cancel has returned before Wait does
		kill.Stop()
	}
	killGroup(c.Process)
	if errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success() {
		return nil // it has ended well, and left something behind
	}
	return err
}
