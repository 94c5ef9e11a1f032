package execute

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// grace is how long a command may take to end after it was asked to. Then it is killed.
const grace = 3 * time.Second

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
	err := c.Run()
	if c.Process == nil {
		return err // it could not be started
	}
	if kill != nil { // Cancel has returned before Run does
		kill.Stop()
	}
	killGroup(c.Process)
	if errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success() {
		return nil // it has ended well, and left something behind
	}
	return err
}
