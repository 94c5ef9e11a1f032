//go:build unix

package execute

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// shell returns a command in a process group of its own, so that a signal reaches what it starts, and Ctrl-C only us.
func shell(ctx context.Context, command string) *exec.Cmd {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

func endGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }
func killGroup(p *os.Process)      { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
