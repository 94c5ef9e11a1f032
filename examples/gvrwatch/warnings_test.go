package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// TestWarningsArePrintedOnce: those of discovery, lists and watches, whichever client has received them.
func TestWarningsArePrintedOnce(t *testing.T) {
	s := newScripted(t, robotType)
	s.Put(robotType, "default", "a")
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := "discovery"
		switch {
		case r.URL.Query().Get("watch") != "":
			what = "a watch"
		case strings.HasSuffix(r.URL.Path, "/robots"):
			what = "a list"
		}
		w.Header().Add("Warning", `299 - "`+what+` is deprecated"`)
		w.Header().Add("Warning", `199 - "no warning of the API"`)
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { hs.CloseClientConnections(); hs.Close() })
	s.url = hs.URL
	for _, c := range []struct{ why, args, want string }{
		{"a streaming list", "get robots -o name", "discovery, a watch"},
		{"JSON comes through another client", "get robots,robots -o json", "discovery, a watch"},
		{"resources has no lists", "resources -o name", "discovery"},
	} {
		_, stderr := s.start(c.args).wait(0)
		got := strings.NewReplacer("Warning: ", "", " is deprecated\n", ", ").Replace(stderr)
		if diff := cmp.Diff(c.want, strings.TrimSuffix(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
	s.do("robots forbid watch")
	_, stderr := s.start("get robots -o name").wait(0)
	if !strings.Contains(stderr, "Warning: a list is deprecated\n") {
		t.Errorf("a list has warnings, too:\n%s", stderr)
	}
	_, stdout, stderr := runTool(t, "__complete", "get", "robots", "--server", s.url, "")
	if !strings.HasPrefix(stdout, "a\n") || strings.Contains(stderr, "Warning") {
		t.Errorf("a completion has no warnings:\n%s%s", stdout, stderr)
	}
}

// TestHostileWarnings: a server chooses the texts, and how many there are.
func TestHostileWarnings(t *testing.T) {
	var errOut bytes.Buffer
	p := &warningPrinter{w: screen.New(&bytes.Buffer{}, &errOut, nil).ErrOut}
	p.HandleWarningHeader(299, "-", hostile+strings.Repeat("x", 1<<20))
	checkSafe(t, "a warning", errOut.String())
	if n := strings.Count(errOut.String(), "\n"); n != 1 || errOut.Len() > 20<<10 {
		t.Errorf("a warning has %d lines and %d bytes", n, errOut.Len())
	}
	for range 2 {
		for i := range 1000 {
			p.HandleWarningHeader(299, "-", fmt.Sprint(i))
		}
	}
	const last = "Warning: 98\nWarning: the server has more warnings, which are not shown\n"
	if !strings.HasSuffix(errOut.String(), last) || len(p.printed) > 101 {
		t.Errorf("%d warnings are remembered, at the end %s", len(p.printed), errOut.String()[errOut.Len()-100:])
	}
}
