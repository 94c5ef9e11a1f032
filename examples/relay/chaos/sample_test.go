package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStatusSample: only what the hostile cluster's tenant does is no problem of the relay.
func TestStatusSample(t *testing.T) {
	const skipped = `hostile/boats.chaos.example.com: 3 events are skipped: the log of r1 says which`
	for _, c := range []struct {
		why, script string
		well        bool
	}{
		{"all is well", `echo '{}'`, true},
		{"hostile objects are skipped", `echo '{"problems":["` + skipped + `"]}'; exit 1`, true},
		{"and something else", `echo '{"problems":["` + skipped + `","no relay runs"]}'; exit 1`, false},
		{"real objects are skipped", `echo '{"problems":["real/boats.x: 3 events are skipped: x"]}'; exit 1`, false},
		{"no answer", `exit 1`, false},
		{"problems, but the exit status says that all is well", `echo '{"problems":["no relay runs"]}'`, true},
	} {
		s := &sampler{status: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, "sh", "-c", c.script)
		}}
		if got := s.ofStatus(t.Context()); got.well != c.well {
			t.Errorf("%s: %s", c.why, got)
		}
	}
}

// TestReplicaSample: an answer counts if the replica is not stopped, and was not just before.
func TestReplicaSample(t *testing.T) {
	code := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(code)
		}
	}))
	defer srv.Close()
	log := filepath.Join(t.TempDir(), "r1.log")
	line := `msg="serving /metrics, /readyz and /healthz" address=` + strings.TrimPrefix(srv.URL, "http://") + "\n"
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sampler{replicas: map[string]*probe{}}
	s.add("r1", log)
	for _, c := range []struct {
		why      string
		code     int
		stopped  bool
		since    time.Duration // ago
		well, ok bool
	}{
		{"ready", http.StatusOK, false, time.Hour, true, true},
		{"not ready", http.StatusServiceUnavailable, false, time.Hour, false, true},
		{"just continued", http.StatusOK, false, 0, true, false},
		{"stopped meanwhile", http.StatusOK, true, time.Hour, true, false},
	} {
		code = c.code
		s.replicas["r1"].stopped, s.replicas["r1"].since = c.stopped, time.Now().Add(-c.since)
		if got, ok := s.ofReplica(t.Context(), "r1"); ok != c.ok || got.well != c.well {
			t.Errorf("%s: %s, %t", c.why, got, ok)
		}
	}
	if _, ok := s.ofReplica(t.Context(), "r2"); ok {
		t.Error("a replica that has ended answers")
	}
}
