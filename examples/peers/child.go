package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// roleVariable is the environment variable that makes this program run as a child of itself.
const roleVariable = "GVRWATCH_PEERS_ROLE"

const (
	serverRole = "server"
	peerRole   = "peer"
)

// runChild does a child's work if this process is one; otherwise it returns false.
func runChild() (code int, child bool) {
	switch os.Getenv(roleVariable) {
	case serverRole:
		return exitCode(serverChild()), true
	case peerRole:
		return exitCode(peerChild()), true
	}
	return 0, false
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serverChild serves until its standard input ends, which happens when the parent closes it or exits for any
// reason.
func serverChild() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return serve(ctx, func(address string) { fmt.Println(address) })
}

// peerChild reads a job from standard input and writes its outcome to standard output.
func peerChild() error {
	in := json.NewDecoder(os.Stdin)
	var j job
	if err := in.Decode(&j); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone
	}()
	return json.NewEncoder(os.Stdout).Encode(newLap(context.Background(), j).run())
}

// child is a process that runs this program. It ends when end is called or when this process ends, since its
// standard input ends in both cases.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// start starts a child, and kills it when ctx ends.
func start(ctx context.Context, role string, env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(os.Environ(), append(env, roleVariable+"="+role)...)
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = time.Second
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// end makes the child stop early, and waits for it.
func (c *child) end() error {
	c.in.Close()
	return c.wait()
}

func (c *child) wait() error {
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("process %d: %w: %s", c.cmd.Process.Pid, err, strings.TrimSpace(c.stderr.String()))
	}
	return nil
}

// startServer starts a server and returns its URL.
func startServer(ctx context.Context) (*child, string, error) {
	c, err := start(ctx, serverRole)
	if err != nil {
		return nil, "", err
	}
	address, err := c.out.ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("reading the server's address: %w", err), c.end())
	}
	return c, "http://" + strings.TrimSpace(address), nil
}

// runJob does a job in a new child.
func runJob(ctx context.Context, j job, env ...string) (outcome, error) {
	c, err := start(ctx, peerRole, env...)
	if err != nil {
		return outcome{}, err
	}
	defer c.in.Close()
	err = json.NewEncoder(c.in).Encode(j)
	var o outcome
	if err == nil {
		err = json.NewDecoder(c.out).Decode(&o)
	}
	if err != nil {
		c.in.Close() // ends the child
	}
	if failed := errors.Join(err, c.wait()); failed != nil {
		return outcome{}, errors.Join(context.Cause(ctx), failed)
	}
	if o.Err != "" {
		return o, errors.New(o.Err)
	}
	return o, nil
}
