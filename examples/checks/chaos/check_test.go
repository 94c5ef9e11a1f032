package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writeFile writes a file of a test and returns its path.
func writeFile(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeText(t *testing.T, name, text string) string {
	return writeFile(t, name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// checkFiles writes a truth and the reports of a client to files, and checks that these are judged as before, also if
// the client's file does not say that it is complete.
func checkFiles(t *testing.T, s subject, h *history, reports []report, want *verdict) {
	t.Helper()
	var faults []fault
	for _, f := range s.Denied {
		f.To = f.To.Add(-rightsBack)
		faults = append(faults, f)
	}
	truth := writeFile(t, "history.jsonl", func(w io.Writer) error { return writeHistory(w, h, faults) })
	client := writeFile(t, "client.jsonl", func(w io.Writer) error {
		return writeRecord(w, s, "", reports, time.Unix(2000, 0))
	})
	complete, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.Replace(complete, []byte(`{"type":"END"`), []byte(`{"type":"ALIVE"`), 1)
	for _, path := range []string{client, writeText(t, "cut.jsonl", string(cut))} {
		got, err := checkHistory(path, truth, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(everyCount(want), everyCount(got.summary.Clients[0])); diff != "" {
			t.Errorf("%s (-judge +files):\n%s%s\n%s", filepath.Base(path), diff, texts(got.summary.Clients[0]), complete)
		}
	}
}

// everyCount returns all that a verdict counts.
func everyCount(v *verdict) string {
	return fmt.Sprintf("%+v of %d, %d in %d runs, contents %d %d %d, GAPs %v",
		countsOf(v), v.Changes, v.Reports, v.Runs,
		v.Contents.Compared, v.Contents.Wrong, v.Contents.Apart, v.Gaps)
}

var _ = strings.Cut
