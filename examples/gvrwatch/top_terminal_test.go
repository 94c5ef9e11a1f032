package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// terminal is a tmux server of its own with the program in it.
type terminal struct {
	testing.TB
	socket string
}

// startInTerminal runs the program in a terminal of that size. What ends with "status N" on the screen is the program's
// end; "restored" follows if the terminal reads lines again. Env has assignments such as NO_COLOR=1.
func startInTerminal(t testing.TB, columns, rows int, env []string, args ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("not installed: tmux")
	}
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "program")
	body := fmt.Sprintf("export %s='%s' GORACE=atexit_sleep_ms=0 %s\nsh -c 'echo $$ > %s; exec %s'\necho status $?\n"+
		"stty -a | grep -q ' icanon' && echo restored\nexec sleep 600\n",
		argsVariable, text, strings.Join(env, " "), filepath.Join(dir, "pid"), os.Args[0])
	if err := os.WriteFile(script, []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &terminal{t, filepath.Join(dir, "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	p.tmux("new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "sh "+script)
	p.tmux("set-option", "-g", "status", "off")
	return p
}

func (p *terminal) tmux(args ...string) string {
	p.Helper()
	all := append([]string{"-u", "-S", p.socket, "-f", "/dev/null"}, args...)
	out, err := exec.Command("tmux", all...).CombinedOutput()
	if err != nil {
		p.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// keys sends keys by their names in tmux, such as Enter, or text.
func (p *terminal) keys(keys ...string) {
	p.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

func (p *terminal) resize(columns, rows int) {
	p.Helper()
	p.tmux("resize-window", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows))
}

// shown returns the lines of the screen.
func (p *terminal) shown() []string {
	p.Helper()
	return strings.Split(strings.TrimSuffix(p.tmux("capture-pane", "-p"), "\n"), "\n")
}

// await waits until the screen has all texts, and returns its lines.
func (p *terminal) await(texts ...string) []string {
	p.Helper()
	return p.awaitScreen(strings.Join(texts, ", "), func(lines []string) bool {
		for _, text := range texts {
			if !strings.Contains(strings.Join(lines, "\n"), text) {
				return false
			}
		}
		return true
	})
}

func (p *terminal) awaitScreen(what string, is func(lines []string) bool) []string {
	p.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		lines := p.shown()
		if is(lines) {
			return lines
		}
		if time.Since(began) > testTimeout/2 {
			p.Fatalf("the screen never has %s:\n%s", what, strings.Join(lines, "\n"))
		}
	}
}

// pid returns the process of the program.
func (p *terminal) pid() int {
	p.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(p.socket), "pid"))
	if err != nil {
		p.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		p.Fatal(err)
	}
	return n
}
