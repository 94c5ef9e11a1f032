package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	root = "../../.."
	// commandTimeout bounds each command, and the wait for what it prints. A command may compile an API server.
	commandTimeout = 4 * time.Minute
)

// block is a fenced sh block of a document.
type block struct {
	line     int // of the first command
	commands []string
	output   []string // what the commands print, or nil if the document does not show it
	like     bool
	status   int    // of the last command
	notRun   string // why it is not run
}

var (
	fenced  = regexp.MustCompile("(?ms)^(?:<!-- commands: ([^\n]*) -->\n)?```sh\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?")
	shFence = regexp.MustCompile("(?m)^```sh$")
)

// blocks returns the sh blocks of a document.
func blocks(text string) ([]block, error) {
	var all []block
	found := fenced.FindAllStringSubmatchIndex(text, -1)
	if fences := len(shFence.FindAllString(text, -1)); fences != len(found) {
		return nil, fmt.Errorf("%d of %d sh blocks can be read: is one not closed?", len(found), fences)
	}
	group := func(at []int, n int) string {
		if at[2*n] < 0 {
			return ""
		}
		return text[at[2*n]:at[2*n+1]]
	}
	for _, at := range found {
		b := block{line: 1 + strings.Count(text[:at[4]], "\n")}
		for line := range strings.Lines(group(at, 2)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				b.commands = append(b.commands, line)
			}
		}
		if at[6] >= 0 {
			b.output = strings.Split(strings.TrimSpace(group(at, 3)), "\n")
		}
		switch how := group(at, 1); {
		case how == "":
		case how == "like":
			b.like = true
		case strings.HasPrefix(how, "not run: "):
			b.notRun = how
		default:
			if _, err := fmt.Sscanf(how, "status %d", &b.status); err != nil {
				return nil, fmt.Errorf("line %d: unknown comment %q", b.line, how)
			}
		}
		all = append(all, b)
	}
	return all, nil
}

// TestCommandsOfDocuments: each command of the documents works in a fresh copy, and prints what is shown.
func TestCommandsOfDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes minutes (.ci/run runs it, without -short)")
	}
	copied := copyRepository(t)
	var documents []string
	for _, pattern := range []string{"README.md", "docs/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(copied, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	run := 0
	for _, file := range documents {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := blocks(string(text))
		name, _ := filepath.Rel(copied, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(all) > 0 {
			for _, b := range all {
				if b.notRun == "" {
					run += len(b.commands)
				}
			}
			t.Run(name, func(t *testing.T) { runDocument(t, copied, all) })
		}
	}
	if run < 10 {
		t.Errorf("the documents have %d commands that can be run, want at least 10", run)
	}
}

// copyRepository copies the files that a clone of the work tree would have.
func copyRepository(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").
		Output()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "gvrwatch")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		from := filepath.Join(root, name)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, not committed
		}
		b, readErr := os.ReadFile(from)
		if err := errors.Join(err, readErr, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// shell is what the commands of a document share.
type shell struct {
	t          *testing.T
	dir, state string // state is a script that restores the exports and the folder
	background []*command
}

func runDocument(t *testing.T, dir string, all []block) {
	home := t.TempDir()
	s := &shell{t: t, dir: dir, state: filepath.Join(home, "state")}
	// The caches stay those of the user: a fresh clone needs no fresh module cache. What is compiled with -trimpath is
	// cached although the folder of the copy is another one each time.
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(out))
	state := fmt.Sprintf("cd %q\nexport HOME=%q GOMODCACHE=%q GOCACHE=%q GOBIN=%q\n"+
		"unset KUBECONFIG\nexport GOFLAGS=-trimpath\nPATH=$GOBIN:$PATH\n",
		dir, home, caches[0], caches[1], filepath.Join(home, "bin"))
	if err := os.WriteFile(s.state, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	defer s.end()
	for _, b := range all {
		if b.notRun != "" {
			t.Logf("line %d: %s: %s", b.line, b.notRun, strings.Join(b.commands, "; "))
			continue
		}
		s.runBlock(b)
	}
}

func (s *shell) runBlock(b block) {
	var started []*command
	for i, line := range b.commands {
		c := s.start(line)
		started = append(started, c)
		if c.endless {
			continue
		}
		want := 0
		if i == len(b.commands)-1 {
			want = b.status
		}
		if status := c.wait(); status != want {
			s.t.Errorf("line %d: %s: status %d, want %d\n%s", b.line, line, status, want, c.text())
		}
	}
	deadline := time.Now().Add(commandTimeout)
	for {
		var all strings.Builder
		ended := true
		for _, c := range started {
			ended = ended && c.hasEnded()
			all.WriteString(c.text())
		}
		missing := b.missing(all.String())
		switch {
		case missing == "":
			return
		case ended || time.Now().After(deadline):
			s.t.Errorf("line %d: %s: never printed\n%s\nbut\n%s",
				b.line, strings.Join(b.commands, "; "), missing, all.String())
			return
		}
		for _, c := range started {
			c.awaitMore(time.Second)
		}
	}
}

// missing returns the first line of the shown output that the commands have not printed.
func (b *block) missing(got string) string {
	lines := strings.Split(got, "\n")
	for _, want := range b.output {
		shape, from := b.shape(want), 0
		for from < len(lines) && !strings.HasSuffix(b.shape(lines[from]), shape) {
			from++
		}
		if from == len(lines) {
			return want
		}
		if !b.like {
			lines = lines[from+1:]
		}
	}
	return ""
}

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	digits = regexp.MustCompile(`[0-9]+`)
	folder = regexp.MustCompile(`(~|\.\.\.|/)[^ "]*/`)
	word   = regexp.MustCompile(`[[:alnum:]_.-]+`)
)

// shape returns what a line has in common with those that other runs print.
func (b *block) shape(line string) string {
	line = folder.ReplaceAllString(uuid.ReplaceAllString(line, "UUID"), "DIR/")
	line = strings.Join(strings.Fields(digits.ReplaceAllString(line, "0")), " ")
	if b.like {
		line = word.ReplaceAllString(line, "w")
	}
	return line
}

// command is a line that bash runs.
type command struct {
	*exec.Cmd
	endless bool
	ended   chan struct{}
	more    chan struct{} // has capacity 1

	mu  sync.Mutex
	out bytes.Buffer
}

func (s *shell) start(line string) *command {
	c := &command{
		endless: strings.Contains(line, "until Ctrl-C"), ended: make(chan struct{}), more: make(chan struct{}, 1),
	}
	script := "source " + s.state + "\n" + line + "\n"
	if !c.endless {
		script = "set -e\n" + script + "{ export -p; echo \"cd '$PWD'\"; } > " + s.state + "\n"
	}
	c.Cmd = exec.Command("bash", "-c", script)
	c.Dir, c.Stdout, c.Stderr = s.dir, c, c
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.Cmd.Wait() // ProcessState has the status
	}()
	s.background = append(s.background, c)
	return c
}

// end interrupts what still runs, as Ctrl-C does.
func (s *shell) end() {
	for _, c := range s.background {
		if !c.hasEnded() {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		}
	}
	for _, c := range s.background {
		c.wait()
	}
}

// wait waits until the command has ended, and returns its status. It kills a command that does not end.
func (c *command) wait() int {
	select {
	case <-c.ended:
	case <-time.After(commandTimeout):
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		<-c.ended
	}
	return c.ProcessState.ExitCode()
}

func (c *command) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// awaitMore waits until the command has printed more, or has ended.
func (c *command) awaitMore(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case <-c.more:
	case <-c.ended:
	case <-ctx.Done():
	}
}

func (c *command) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

var _ io.Writer = (*command)(nil)

func (c *command) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(b)
	select {
	case c.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func TestBlocks(t *testing.T) {
	for _, c := range []struct{ why, output, got, missing string }{
		{"digits and columns may differ", "ADDED  a@12", "x\nADDED a@7\n", ""},
		{"other words may not", "ADDED a", "ADDED b", "ADDED a"},
		{"the order counts", "b\na", "a\nb\n", "a"},
		{"UUIDs may differ",
			"uid 65360512-0892-472e-8813-339875d2e9bb", "uid 0aa00000-0892-472e-8813-339875d2e9bb", ""},
		{"a timestamp may be left out", "level=INFO msg=x", "time=12:00 level=INFO msg=x", ""},
		{"folders may differ", "in /home/me/x.db", "in /tmp/y/x.db", ""},
	} {
		text := "<!-- commands: status 3 -->\n```sh\n# first\nrun it\n```\n\n```\n" + c.output + "\n```\n"
		all, err := blocks(text)
		if err != nil || len(all) != 1 || all[0].status != 3 || all[0].commands[0] != "run it" || all[0].line != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		if got := all[0].missing(c.got); got != c.missing {
			t.Errorf("%s: missing %q, want %q", c.why, got, c.missing)
		}
	}
	like := block{like: true, output: []string{"05:24:20 added lab/r4 @33"}}
	if like.missing("11:00:01 modified factory/r1 @9") != "" || like.missing("11:00:01 modified r1 @9") == "" {
		t.Error("a block that is like another must have its punctuation, and may have other words")
	}
	if _, err := blocks("```sh\nnever closed"); err == nil {
		t.Error("a block that is not closed must be an error")
	}
}
