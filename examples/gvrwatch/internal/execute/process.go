package execute

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"
)

// grace is how long a command may take to end after it was asked to. Then it is killed.
const grace = 5 * time.Second

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
	// What it started and left behind may hold its outputs open.
	c.WaitDelay = grace + time.Second
	err := c.Run()
	if kill != nil { // Cancel has returned before Run does
		kill.Stop()
		killGroup(c.Process)
	}
	return err
}
