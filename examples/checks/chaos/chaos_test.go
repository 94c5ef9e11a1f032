package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// TestChaos breaks a world for 20 s (with -soak for 60 s) in many ways. None of our clients may break a promise, or
// leave a goroutine behind.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes more than 20 s (.ci/run runs it, without -short)")
	}
	o := settings{lasts: 20 * time.Second}
	names := []string{"stream", "stream-http1", "position-chain", "mux-latest", "follow-limited", "killed-in-order",
		"killed-any-order", "killed-follow"}
	if seedtest.Soak() > 1 {
		o.lasts, names = time.Minute, nil
	}
	var err error
	if o.clients, err = selectClients(names, ""); err != nil {
		t.Fatal(err)
	}
	if loop := loopOfThePage(t); loop != nil {
		o.clients = append(o.clients, loop)
		t.Setenv("https_proxy", "http://127.0.0.1:9") // curl would use it for loopback, too
	}
	o.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for seed := range seedtest.Default(1).All(t) {
		o.seed, o.record = seed, t.TempDir()
		result, err := runSeed(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := newSummary(o.lasts.Seconds())
		s.add(result)
		var text strings.Builder
		s.print(&text)
		if s.broken() {
			s.printViolations(&text, false)
			t.Errorf("a promise is broken\n%s\n%s", strings.Join(result.left.stacks, "\n"), &text)
		} else {
			t.Log(&text)
		}
		checkRecorded(t, o.record, s.Clients)
		for _, v := range s.Clients {
			if p := v.Program; v.Live == 0 || p.Unreadable > 0 {
				t.Errorf("%s reported %d live changes, and wrote %d lines that can't be read, such as %s",
					v.Name, v.Live, p.Unreadable, p.Problem)
			}
		}
	}
}

// loopOfThePage returns the loop around curl of docs/judge.md: whoever follows the page writes such a client. It
// returns nil where its tools are missing, but in CI, which installs them.
func loopOfThePage(t *testing.T) client {
	page, err := os.ReadFile("../../../docs/judge.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```bash\n")
	text, _, closed := strings.Cut(text, "```\n")
	if !found || !closed {
		t.Fatal("docs/judge.md has no loop")
	}
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Logf("the loop of docs/judge.md is left out: %v", err)
			return nil
		}
	}
	path := filepath.Join(t.TempDir(), "curl-loop.sh")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := newProgram(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
