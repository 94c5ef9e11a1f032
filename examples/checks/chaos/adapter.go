package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a client in a process of its own, which writes what it saw to its standard output: docs/judge.md says what
// it gets and what it writes. It is started again whenever it ends.
type program struct {
	name, path string

	mu     sync.Mutex
	lines  *lineReader // nil before the first process
	memory int64       // the most that its processes had
	begins int         // processes

	exits    int // that the judge did not cause
	lastExit string
}

const (
	programPause = time.Second     // before it is started again
	programEnd   = 2 * time.Second // from SIGTERM to SIGKILL
	programStart = 8 * time.Second // until it is killed although it has reported nothing
)

// newProgram returns the client at a path. Its name is that of the file, without its extension.
func newProgram(path string) (*program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("invalid client: %w", err)
	}
	if !isProgram(info) {
		return nil, fmt.Errorf("invalid client %s: must be an executable file", path)
	}
	name := filepath.Base(path)
	return &program{name: strings.TrimSuffix(name, filepath.Ext(name)), path: path}, nil
}

func isProgram(info os.FileInfo) bool { return info.Mode().IsRegular() && info.Mode()&0o111 != 0 }

// programsIn returns the programs in a folder, by name. Files whose names begin with a dot are none.
func programsIn(folder string) (all []client, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		info, err := os.Stat(path) // of what a link points to
		if err != nil || strings.HasPrefix(e.Name(), ".") || !isProgram(info) {
			continue
		}
		p, err := newProgram(path)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no client in %s: must have executable files", folder)
	}
	return all, nil
}

func (p *program) subject() subject {
	p.mu.Lock()
	defer p.mu.Unlock()
	var says clientLine
	if p.lines != nil {
		says = p.lines.client
	}
	return subject{
		Name: cmp.Or(says.Name, p.name), Ours: says.Strict, ByObject: !says.Strict,
		Checkpoint: says.Resumes, Scope: scope{Resources: says.Resources},
	}
}

// programCounts are what the judge knows of a program beside its events.
type programCounts struct {
	Version    string `json:"version"`
	MemoryKB   int64  `json:"memory_kb"`         // of all its processes, at most
	Processes  int    `json:"processes"`         // one after the other
	Unreadable int    `json:"unreadable"`        // lines
	Problem    string `json:"problem,omitempty"` // of the first of those
	Exits      int    `json:"exits"`             // that the judge did not cause
	LastExit   string `json:"last_exit,omitempty"`
}

// counts returns what is known of the program when it has ended.
func (p *program) counts() programCounts {
	return programCounts{
		p.lines.client.Version, p.memory >> 10, p.begins, p.lines.unreadable, p.lines.problem, p.exits, p.lastExit,
	}
}

// add adds what another seed has shown.
func (c *programCounts) add(o programCounts) {
	c.Version, c.Problem = cmp.Or(c.Version, o.Version), cmp.Or(c.Problem, o.Problem)
	c.MemoryKB = max(c.MemoryKB, o.MemoryKB)
	c.Processes += o.Processes
	c.Unreadable += o.Unreadable
	c.Exits, c.LastExit = c.Exits+o.Exits, cmp.Or(o.LastExit, c.LastExit)
}

// begun reports whether the faults may begin.
func (p *program) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines != nil && (p.lines.ready || len(p.lines.unsynced()) == 0)
}

// begin takes what the client has reported of a resource for everything, if it did not say SYNCED.
func (p *program) begin(rec *recording) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		return
	}
	for _, resource := range p.lines.unsynced() {
		rec.add(report{At: time.Now(), Run: p.lines.run, Kind: synced, Resource: resource, Acked: true})
	}
}

// run starts the program, and starts it again, until ctx ends.
func (p *program) run(ctx context.Context, w *world, rec *recording) error {
	dir := filepath.Join(w.dir, "programs", p.name)
	environment, err := programEnvironment(w, dir)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.lines = newLineReader(w.definitions.resources())
	p.memory, p.begins, p.exits, p.lastExit = 0, 0, 0, ""
	p.mu.Unlock()
	for ctx.Err() == nil {
		if err := p.runOnce(ctx, w, rec, dir, environment); err != nil {
			return err
		}
		p.mu.Lock()
		if p.lines.client.Resumes {
			p.lines.run++
		}
		p.mu.Unlock()
		pause(ctx, programPause)
	}
	return nil
}

// programEnvironment makes the folder of a program, and returns its environment.
func programEnvironment(w *world, dir string) ([]string, error) {
	c := newChildConfig(w.config(true))
	home, ca, kubeconfig := filepath.Join(dir, "home"), filepath.Join(dir, "ca.pem"), filepath.Join(dir, "kubeconfig")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(ca, c.CA, 0o600); err != nil {
		return nil, err
	}
	if err := writeKubeconfig(kubeconfig, c); err != nil {
		return nil, err
	}
	var paths []string
	for _, r := range w.definitions.resources() {
		paths = append(paths, "apis/"+r.GVR.Group+"/"+r.GVR.Version+"/"+r.GVR.Resource)
	}
	return append(os.Environ(),
		"JUDGE_SERVER="+c.Host, "JUDGE_CA="+ca, "JUDGE_TOKEN="+c.TokenFile, "JUDGE_DIR="+home,
		"JUDGE_RESOURCES="+strings.Join(paths, " "), "KUBECONFIG="+kubeconfig,
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"), nil // some clients would use a proxy for loopback, too
}

// runOnce returns when the process has ended, and what it started in its process group, too.
func (p *program) runOnce(ctx context.Context, w *world, rec *recording, dir string, environment []string) error {
	cmd := exec.Command(p.path)
	cmd.Env, cmd.Dir = environment, filepath.Join(dir, "home")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to signal what it starts, too
	stdout, out, err := os.Pipe()
	if err != nil {
		return err
	}
	stderr, errOut, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, errOut
	err = cmd.Start()
	out.Close()
	errOut.Close()
	if err != nil {
		return fmt.Errorf("start the client: %w", err)
	}
	p.begins++
	group := -cmd.Process.Pid
	unregister := w.processes.register(group)
	var reading sync.WaitGroup
	reading.Go(func() { p.read(stdout, rec) })
	reading.Go(func() {
		eachLine(stderr, func(text []byte) { rec.fail(fmt.Errorf("%.300s", text)) })
	})
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	byItself := p.await(ctx, rec, group, exited)
	unregister()
	syscall.Kill(group, syscall.SIGKILL) // what it left behind
	<-exited
	late := time.Now().Add(programEnd)
	stdout.SetReadDeadline(late) // a process that has left the group may have both open for ever
	stderr.SetReadDeadline(late)
	reading.Wait()
	stdout.Close()
	stderr.Close()
	if byItself {
		p.noteExit(cmd.ProcessState, rec)
	}
	return nil
}

func (p *program) noteExit(state *os.ProcessState, rec *recording) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exits++
	p.lastExit = state.String()
	rec.fail(fmt.Errorf("the process ended: %s", p.lastExit))
}

// await returns when the process has exited by itself, which it reports, or is to be killed. It measures its memory
// meanwhile.
func (p *program) await(ctx context.Context, rec *recording, group int, exited <-chan struct{}) (byItself bool) {
	var die <-chan time.Time // if it says that it resumes
	began, before := time.Now(), rec.count()
	for second := time.Tick(time.Second); ; {
		select {
		case <-exited:
			return true
		case <-ctx.Done():
			syscall.Kill(group, syscall.SIGCONT)
			syscall.Kill(group, syscall.SIGTERM)
			select {
			case <-exited:
			case <-time.After(programEnd):
			}
			return false
		case <-die:
			select {
			case <-rec.calm:
			default:
				return false
			}
		case <-second:
			now := memoryOf(-group)
			p.mu.Lock()
			p.memory = max(p.memory, now)
			p.mu.Unlock()
			started := rec.count() > before || time.Since(began) > programStart
			if die == nil && started && p.subject().Checkpoint {
				die = time.After(rand.N(5 * time.Second))
			}
		}
	}
}

// read records what a process writes.
func (p *program) read(stdout io.Reader, rec *recording) {
	eachLine(stdout, func(text []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		reports, err := p.lines.read(text, time.Now())
		if err != nil {
			rec.fail(err)
		}
		for _, one := range reports {
			rec.add(one)
		}
	})
}

// eachLine calls f for each line, and for what follows the last one. It cuts lines at maxLine.
func eachLine(r io.Reader, f func([]byte)) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		text, _, err := nextLine(lines)
		if text = bytes.TrimSpace(text); len(text) > 0 {
			f(text)
		}
		if err != nil {
			return
		}
	}
}
