package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDemo: the demo shows an event of each type of both kinds, ends at a signal, and leaves nothing behind.
func TestDemo(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, signal := context.WithTimeout(t.Context(), time.Minute)
	defer signal()
	out := &watched{seen: signal}
	if err := run(ctx, out, time.Hour); err != nil {
		t.Errorf("%v after a signal", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the temporary folder must be empty: %v, %v", left, err)
	}
	for _, want := range []string{"is ready after", "SYNCED ", "battery 100 -> 71", "job=", "Seen: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestDemoEndsAfterItsDuration(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out, 100*time.Millisecond)
	if err != nil || !strings.Contains(out.String(), "is ready after") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// watched collects what the demo prints, and calls seen when each kind had an event of each type.
type watched struct {
	mu   sync.Mutex
	b    strings.Builder
	seen func()
}

var events = regexp.MustCompile(`(ADDED|MODIFIED|DELETED) +(Robot|Planet) `)

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(b)
	types := map[string]bool{}
	for _, m := range events.FindAllStringSubmatch(w.b.String(), -1) {
		types[m[1]+m[2]] = true
	}
	if len(types) == 6 {
		w.seen()
	}
	return len(b), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}
