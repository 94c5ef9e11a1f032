package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestTop: what is on the screen while objects change, and after keys.
func TestTop(t *testing.T) {
	t.Parallel()
	s := newScripted(t, robotType)
	for i := range 30 {
		s.Put(robotType, "default", fmt.Sprintf("robot-%02d", i), "spec.job=drill")
	}
	p := startInTerminal(t, 80, 24, nil, "top", "robots", "--server", s.url)
	lines := p.await("CHURN/MIN", "robot-00", "synced, 30 objects")
	if !strings.HasPrefix(lines[0], "robots  sort: churn") || len(lines) != 24 || !strings.Contains(lines[23], "sync") {
		t.Errorf("want a title at the top and the status at the bottom, got\n%s", strings.Join(lines, "\n"))
	}
	s.Put(robotType, "default", "robot-20", "spec.job=paint")
	first := regexp.MustCompile(`^1 +robot-20`)
	p.awaitScreen("robot-20 first", func(lines []string) bool { return first.MatchString(lines[2]) })
	p.keys("Enter")
	p.await("robot default/robot-20  last changes: 1", "MODIFIED", "spec.job: drill → paint")
	s.Put(robotType, "default", "robot-20", "spec.job=polish")
	p.await("last changes: 2", "spec.job: paint → polish")
	p.keys("M-s") // Escape and s, quickly
	p.await("sort: age")
	p.keys("s")
	p.await("sort: name")
	p.awaitScreen("robot-00 first", func(lines []string) bool { return strings.Contains(lines[2], "robot-00") })
	p.keys("End")
	p.await("robot-29")
	p.keys("robot-1")
	p.awaitScreen("only what the filter finds", func(lines []string) bool {
		text := strings.Join(lines, "\n")
		return strings.Contains(lines[0], "filter: robot-1_  10 of 30") && !strings.Contains(text, "robot-09") &&
			strings.Contains(text, "robot-10")
	})
	p.keys("Escape")
	p.await("robot-09")
	if _, err := s.Delete(robotType, "default", "robot-05"); err != nil {
		t.Fatal(err)
	}
	p.awaitScreen("robot-05 deleted", func(lines []string) bool {
		return regexp.MustCompile(`(?m)^deleted +robot-05`).MatchString(strings.Join(lines, "\n"))
	})
	for _, size := range [][2]int{{20, 5}, {1, 1}, {200, 50}, {80, 24}} {
		p.resize(size[0], size[1])
		p.awaitScreen(fmt.Sprint("drawing in ", size), func(lines []string) bool {
			return len(lines) == size[1] && strings.HasPrefix(lines[0], "robots"[:min(6, size[0]-1)]) &&
				(size[1] == 1 || strings.HasPrefix(lines[size[1]-1], "synced"))
		})
	}
	if err := s.Apply("robots watch *: 503\nrobots probe *: 503"); err != nil { // what is missed then has expired
		t.Fatal(err)
	}
	s.do("robots close watches")
	p.await("robots.v1.example.com: trying again in")
	s.Put(robotType, "default", "robot-30")
	s.do("compact", "heal")
	p.await("30 objects, ", ", 1 gap")
	p.keys("q")
	p.await("status 0", "restored")
}

// TestTopEnds: each way to end restores the terminal, and has the exit status of watch.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		why  string
		end  func(s *scripted, p *terminal)
		args string
	}{
		{"Ctrl-C", func(_ *scripted, p *terminal) { p.keys("C-c") }, ""},
		{"a signal", func(_ *scripted, p *terminal) {
			program, err := os.FindProcess(p.pid())
			if err == nil {
				err = program.Signal(syscall.SIGTERM)
			}
			if err != nil {
				p.Error(err)
			}
		}, ""},
		{"--timeout", func(*scripted, *terminal) {}, "--timeout 1s"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, robotType)
			s.Put(robotType, "default", "r2d2")
			args := append(strings.Fields("top robots "+tt.args), "--server", s.url)
			p := startInTerminal(t, 80, 24, nil, args...)
			p.await("r2d2", "synced")
			tt.end(s, p)
			lines := p.await("status 0", "restored")
			if lines[0] != "status 0" {
				t.Errorf("want nothing of the view and of messages, got\n%s", strings.Join(lines, "\n"))
			}
		})
	}
}

// TestTopFails: an error that ends the watch is printed after the terminal is restored, and so is what was reported.
func TestTopFails(t *testing.T) {
	t.Parallel()
	s := newScripted(t, robotType)
	s.do("robots forbid all")
	p := startInTerminal(t, 80, 24, nil, "top", "robots", "--server", s.url)
	lines := p.await("status 1", "restored")
	if text := strings.Join(lines, "\n"); !strings.HasPrefix(text, "gvrwatch: cannot watch robots") ||
		!strings.Contains(text, "forbidden") {
		t.Errorf("want the error, got\n%s", text)
	}
}

// TestTopOfSeveralTypes: several types share a table, a followed type that is not served is waited for, and what the
// watch reports is in the last line.
func TestTopOfSeveralTypes(t *testing.T) {
	t.Parallel()
	s := newScripted(t, robotType, planetType)
	s.Put(robotType, "shop", "r2d2")
	s.Put(planetType, "", "mars")
	p := startInTerminal(t, 100, 10, []string{"TERM=vt100"}, "top", "robots,planets,rovers", "-A", "--follow",
		"--server", s.url)
	p.await("NAMESPACE", "robot/r2d2", "planet/mars", "2 of 2 types synced, 2 objects")
	s.Serve(roverType)
	s.Put(roverType, "shop", "curiosity")
	p.await("rover/curiosity", "3 of 3 types synced, 3 objects", "rovers.v1.example.com: served now: watching")
	s.do("robots forbid all", "robots close watches")
	p.await("robots.v1.example.com: forbidden across the clus")
	p.keys("q")
	p.await("status 0", "restored")
}

// TestTopIsSafe: hostile texts stay text, values of Secrets are hidden, and with NO_COLOR there are attributes only.
func TestTopIsSafe(t *testing.T) {
	t.Parallel()
	secretType := newType("secrets", "", true)
	secretType.Kind = "Secret"
	s := newScripted(t, secretType)
	s.Put(secretType, "default", strings.ReplaceAll("odd\x1b[31m\u202e中e\u0301"+strings.Repeat("x", 300), "/", ""))
	s.Put(secretType, "default", "token", "data.key=b2xk")
	p := startInTerminal(t, 80, 24, []string{"NO_COLOR=1"}, "top", "secrets", "--server", s.url)
	lines := p.await("token", "synced, 2 objects", `odd\u001b[31m\u202e中e`)
	checkSafe(t, "the screen", strings.Join(lines, "\n"))
	s.Put(secretType, "default", "token", "data.key=bmV3ZXI=")
	p.awaitScreen("a change", func(lines []string) bool { return strings.HasPrefix(lines[2], "1 ") })
	p.keys("Enter")
	lines = p.await("data.key: (3 bytes) → (5 bytes)")
	if text := strings.Join(lines, "\n"); strings.Contains(text, "b2xk") || strings.Contains(text, "bmV3ZXI") {
		t.Errorf("values of a Secret are shown:\n%s", text)
	}
	if styled := p.tmux("capture-pane", "-p", "-e"); regexp.MustCompile(`\x1b\[[0-9;]*[34][0-7]m`).MatchString(styled) {
		t.Errorf("with NO_COLOR there are colours: %q", styled)
	}
}

// TestTopNeedsATerminal: without one, the error names the command that needs none.
func TestTopNeedsATerminal(t *testing.T) {
	for _, tt := range []struct {
		why    string
		args   string
		status int
		stderr string
	}{
		{"no terminal", "top robots", 1, "gvrwatch: top draws on a terminal, and stdout is none: use gvrwatch watch, "},
		{"no type", "top", 2, "gvrwatch: missing resource type"},
		{"an empty namespace", "top robots --namespace=", 2, "gvrwatch: --namespace: must not be empty"},
		{"a flag of watch", "top robots -o json", 2, "gvrwatch: unknown shorthand flag: 'o'"},
		{"a negative time", "top robots --timeout -1s", 2, "gvrwatch: --timeout=-1s: must not be negative"},
	} {
		status, stdout, stderr := runTool(t, strings.Fields(tt.args)...)
		if status != tt.status || !strings.HasPrefix(stderr, tt.stderr) || stdout != "" {
			t.Errorf("%s: status %d, want %d; stderr %q, want %q; stdout %q",
				tt.why, status, tt.status, stderr, tt.stderr, stdout)
		}
	}
	for _, term := range []string{"dumb", "wyse50"} {
		p := startInTerminal(t, 80, 24, []string{"TERM=" + term}, "top", "robots")
		if lines := p.await("status 1"); !strings.Contains(lines[0], `TERM="`+term+`"`) {
			t.Errorf("TERM=%s: %q", term, lines)
		}
	}
}

// TestTopColors: a new object is green, unless colours are not wanted.
func TestTopColors(t *testing.T) {
	t.Parallel()
	const green, bold = `\x1b\[32m`, `AGE\n` // the header before the row is bold
	for _, tt := range []struct {
		env   []string
		color string
		want  string
	}{
		{nil, "auto", green},
		{[]string{"NO_COLOR=1"}, "auto", bold},
		{[]string{"NO_COLOR=1"}, "always", green},
		{nil, "never", bold},
	} {
		t.Run(fmt.Sprint(tt.env, tt.color), func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, robotType)
			s.Put(robotType, "default", "a")
			p := startInTerminal(t, 80, 24, tt.env, "top", "robots", "--color", tt.color, "--server", s.url)
			p.await("synced, 1 object,")
			p.keys("Down")
			s.Put(robotType, "default", "b", "spec.x=1")
			is := regexp.MustCompile(tt.want + `(\x1b\[[0-9;]*m)*1 +b `)
			for began := time.Now(); !is.MatchString(p.tmux("capture-pane", "-p", "-e")); {
				if time.Sleep(20 * time.Millisecond); time.Since(began) > testTimeout/2 {
					t.Fatalf("a new object is never in %q: %q", tt.want, p.tmux("capture-pane", "-p", "-e"))
				}
			}
			if tt.want == bold && regexp.MustCompile(green).MatchString(p.tmux("capture-pane", "-p", "-e")) {
				t.Error("there are colours")
			}
		})
	}
}

// TestTopOfTables: the columns are those of a server that makes Tables, and the changes are those of the object, with
// the field manager that has made them.
func TestTopOfTables(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	boat := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	boat.SetAPIVersion(boats.Resource().GroupVersion().String())
	boat.SetKind(boats.Kind)
	boat.SetName("beagle")
	c := client.Resource(boats.Resource()).Namespace("lake")
	if _, err := c.Create(t.Context(), boat, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), "beagle", metav1.DeleteOptions{}) })
	p := startInTerminal(t, 80, 24, nil, "top", "boats", "-n", "lake", "--kubeconfig", srv.Kubeconfig())
	p.await("CHURN/MIN   NAME     AGE", "beagle", "synced, 1 object,")
	if _, err := c.Patch(t.Context(), "beagle", types.MergePatchType, []byte(`{"spec":{"size":2}}`),
		metav1.PatchOptions{FieldManager: "shipwright"}); err != nil {
		t.Fatal(err)
	}
	p.awaitScreen("a change", func(lines []string) bool { return strings.HasPrefix(lines[2], "1 ") })
	p.keys("Enter")
	lines := p.await("last changes: 1", "MODIFIED  by shipwright")
	if strings.TrimSpace(lines[2]) != "spec.size: 1 → 2" || strings.TrimSpace(lines[3]) != "" {
		t.Errorf("want one field, got\n%s", strings.Join(lines, "\n"))
	}
	p.keys("q")
	p.await("status 0", "restored")
}
