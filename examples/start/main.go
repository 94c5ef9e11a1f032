// Start compiles a program of this folder, says meanwhile how far that is, and runs it with the arguments that follow:
//
//	go run ./examples/start demo
//	go run ./examples/start devserver -demo -dir ~/.gvrwatch-dev
//
// Both have an API server in them, which takes minutes to compile the first time. "go run" alone says nothing until
// then. What the program prints passes unchanged, and its exit status is that of start.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// programs are the packages of the programs.
var programs = map[string]string{
	"demo": "demo", "devserver": "devserver/cmd/devserver", "gvrwatch": "gvrwatch", "relay": "relay",
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == "" {
		fmt.Fprintln(os.Stderr, "start: must have the name of a program, which is demo, devserver, gvrwatch or relay, "+
			"and may have arguments of it: go run ./examples/start devserver -demo")
		os.Exit(2)
	}
	status, err := start("github.com/gvrwatch/gvrwatch/examples/"+programs[os.Args[1]], os.Args[2:], os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
	}
	os.Exit(status)
}

// start compiles a package and runs the program, until that ends. It returns its exit status.
func start(pkg string, args []string, errOut io.Writer) (status int, err error) {
	// Ctrl-C in a terminal signals the whole group: first the program ends, then this one.
	interrupts, ends := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGHUP)
	folder, err := os.MkdirTemp("", "gvrwatch-start-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, filepath.Base(pkg))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	built := make(chan error, 1)
	go func() { built <- build(ctx, pkg, program, errOut) }()
	select {
	case err = <-built:
	case <-interrupts:
		cancel()
		<-built
		return 130, nil
	case <-ends:
		cancel()
		<-built
		return 143, nil
	}
	if err != nil {
		return 1, err
	}
	c := exec.Command(program, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range ends {
			_ = c.Process.Signal(s)
		}
	}()
	var ended *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &ended) {
		return 1, err
	}
	return c.ProcessState.ExitCode(), nil
}

// build compiles a package. What takes longer than a second is said, and then every 15 seconds how far it is.
func build(ctx context.Context, pkg, program string, errOut io.Writer) error {
	c := exec.CommandContext(ctx, "go", "build", "-v", "-o", program, pkg)
	pipe, err := c.StderrPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			lines <- s.Text()
		}
	}()
	downloaded, compiled := 0, 0
	for first, tick := true, time.After(time.Second); lines != nil; {
		select {
		case line, ok := <-lines:
			switch {
			case !ok:
				lines = nil
			case strings.HasPrefix(line, "go: downloading "):
				downloaded++
			case strings.ContainsAny(line, " \t:"): // an error
				fmt.Fprintln(errOut, line)
			default:
				compiled++
			}
			continue
		case <-tick:
		}
		if first {
			fmt.Fprintf(errOut, "start: compiling %s: the first time takes minutes, because it downloads and "+
				"compiles hundreds of packages of Kubernetes; later ones take seconds\n", pkg)
		} else {
			fmt.Fprintf(errOut, "start: %v: %d modules downloaded, %d packages compiled\n",
				time.Since(began).Round(time.Second), downloaded, compiled)
		}
		first, tick = false, time.After(15*time.Second)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go build %s: %w", pkg, err)
	}
	return nil
}
