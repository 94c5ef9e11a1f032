package main

import (
	"log/slog"
	"os"
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
	o.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for seed := range seedtest.Default(1).All(t) {
		o.seed = seed
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
		for _, v := range s.Clients {
			if v.Live == 0 {
				t.Errorf("%s reported nothing live: the seed shows nothing", v.Name)
			}
		}
	}
}
