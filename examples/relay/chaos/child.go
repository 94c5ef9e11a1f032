package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// runChild is the main function of a server's process. It ends when stdin does, or at SIGTERM.
func runChild(kind, dir string, port int, compact bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has ended
	}()
	switch kind {
	case "apiserver":
		// Without the watch cache, a compaction expires older versions at once.
		s, err := devserver.Start(ctx, &devserver.Options{Dir: dir, Port: port, DisableWatchCache: true})
		if err != nil {
			return err
		}
		if compact {
			if err := s.Compact(ctx); err != nil {
				return err
			}
		}
		fmt.Println("ready")
		<-ctx.Done()
		return s.Stop()
	case "nats":
		s, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, MaxPayload: 8 << 20,
			NoSigs: true, NoLog: true,
		})
		if err != nil {
			return err
		}
		s.Start()
		for !s.ReadyForConnections(time.Second) {
		}
		fmt.Println("ready")
		<-ctx.Done()
		s.Shutdown()
		s.WaitForShutdown()
		return nil
	}
	return fmt.Errorf("invalid -child %q: must be apiserver or nats", kind)
}

// process is a child process. Its output is in a file.
type process struct {
	*exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// startProcess starts a process. It is killed when this one ends.
func startProcess(log string, name string, args ...string) (*process, error) {
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &process{Cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = f, f
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.stdin, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	return p, nil
}

// peak returns the most memory that the process has had so far, in bytes, or 0 if that is not known.
func (p *process) peak() int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// end sends a signal and waits. After a while it kills, and returns false.
func (p *process) end(s syscall.Signal) bool {
	_ = p.Process.Signal(s)
	select {
	case <-p.ended:
		return true
	case <-time.After(40 * time.Second):
		_ = p.Process.Kill()
		<-p.ended
		return false
	}
}

// startServer starts a child of this program.
func startServer(dir, kind string, port int, compact bool) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(filepath.Join(dir, kind+".log"), self, "-child", kind, "-dir", filepath.Join(dir, kind),
		"-port", fmt.Sprint(port), fmt.Sprintf("-compact=%t", compact))
}
