package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// terminalOf is a stdout with a width.
type terminalOf struct {
	bytes.Buffer
	columns int
}

func (t *terminalOf) Size() (columns, rows int) { return t.columns, 24 }

// rowsOf are the rows that a server sends for a resource.
type rowsOf map[string]struct {
	columns []string // NAME first
	rows    [][]string
}

// listing answers lists as Tables; watches are forbidden.
func (of rowsOf) listing(t *testing.T, s *scripted) {
	t.Helper()
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		table, ok := of[resource]
		if !ok || !strings.Contains(r.Header.Get("Accept"), "as=Table") || r.URL.Query().Has("watch") {
			s.ServeHTTP(w, r)
			return
		}
		columns := []any{}
		for i, name := range table.columns {
			format := map[bool]string{true: "name"}[i == 0]
			columns = append(columns, map[string]any{"name": name, "type": "string", "format": format})
		}
		rows := []any{}
		for _, cells := range table.rows {
			rows = append(rows, map[string]any{"cells": cells, "object": map[string]any{
				"metadata": map[string]any{
					"name": cells[0], "namespace": "default", "resourceVersion": "1", "uid": cells[0],
				},
			}})
		}
		w.Header().Set("Content-Type", "application/json")
		err := json.NewEncoder(w).Encode(map[string]any{
			"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": "5"},
			"columnDefinitions": columns, "rows": rows,
		})
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(func() { hs.CloseClientConnections(); hs.Close() })
	s.url = hs.URL
}

// TestMessagesBesideOtherTypes: an Event's MESSAGE is printed in full, as it is without other types.
func TestMessagesBesideOtherTypes(t *testing.T) {
	t.Setenv("TERM", "dumb")
	eventType := newType("events", "", true)
	s := newScripted(t, robotType, eventType)
	s.do("robots forbid watch", "events forbid watch")
	message := strings.TrimSpace(strings.Repeat("ten words. ", 10))
	rowsOf{
		"robots": {[]string{"Name", "Job"}, [][]string{{"r", strings.Repeat("j", 100)}}},
		"events": {[]string{"Name", "Last Seen", "Reason", "Message"}, [][]string{{"e", "5m", "Because", message}}},
	}.listing(t, s)
	for _, args := range []string{"robots,events", "events,robots"} {
		stdout := &terminalOf{columns: 60}
		if status, stderr := runToolTo(t, stdout, "get", args, "--server", s.url); status != 0 {
			t.Fatal(stderr)
		}
		var lines []string
		for line := range strings.Lines(stdout.String()) {
			if strings.HasPrefix(line, "r") || strings.HasPrefix(line, "e") {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
		}
		slices.Sort(lines)
		want := []string{
			`event/e <unknown> LAST-SEEN=5m REASON=Because MESSAGE="` + message + `"`,
			"robot/r <unknown> JOB=" + strings.Repeat("j", 35) + "…",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

// TestKeysOfDetails: NAME=VALUE can be read back.
func TestKeysOfDetails(t *testing.T) {
	for name, want := range map[string]string{
		"STATUS": "STATUS", "NOMINATED NODE": "NOMINATED-NODE", "READINESS  GATES": "READINESS-GATES",
		`A "B"`: `"A-\"B\""`, "A=B": `"A=B"`, "": `""`,
	} {
		if got := keyOf(name); got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
}

// TestPipedTablesKeepTheirColumns: what exists is one table, also of several types, whose SYNCED come one by one.
func TestPipedTablesKeepTheirColumns(t *testing.T) {
	s := newScripted(t, robotType, roverType)
	for _, name := range []string{"a", "a-name-that-is-longer", "b"} {
		s.Put(robotType, "default", name)
		s.Put(roverType, "default", name)
	}
	for _, args := range []string{
		"get robots", "get robots,rovers", "get r*", "watch robots,rovers --until-synced", "watch robots --timeout 1s",
		"get robots -o custom-columns=NAME:.metadata.name,KIND:.kind",
	} {
		stdout, stderr := s.start(args).wait(0)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		at := map[int]bool{}
		for _, line := range lines {
			for _, age := range []string{"AGE", "KIND", "<unknown>", "Robot"} {
				if i := strings.Index(line, age); i >= 0 {
					at[i] = true
				}
			}
		}
		if len(lines) < 4 || len(at) != 1 {
			t.Errorf("%s: columns move:\n%s%s", args, stdout, stderr)
		}
	}
}
