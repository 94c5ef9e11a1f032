//go:build !unix

package execute

import (
	"context"
	"os"
	"os/exec"
)

func shell(ctx context.Context, command string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd", "/c", command)
}

func endGroup(p *os.Process) error { return p.Kill() }
func killGroup(p *os.Process)      { _ = p.Kill() }
