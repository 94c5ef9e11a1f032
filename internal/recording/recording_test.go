package recording_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

var (
	pods = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind:                 "Pod", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true,
	}
	nodes = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: "Node",
	}
	began  = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	header = recording.Header{
		Program: "gvrwatch v1", Server: "https://here", Cluster: "c1", Start: recording.Snapshot,
		Selection: recording.Selection{Types: []string{"pods"}, Namespaces: []string{"web"}},
	}
)

// event returns an event of a Pod: event(stream.Added, "web/a", "uid", "7").
func event(t stream.Type, name, uid, version string) stream.Event {
	namespace, short, ok := strings.Cut(name, "/")
	r := pods
	if !ok {
		r, namespace, short = nodes, "", name
	}
	return stream.Event{Type: t, Resource: r, ResourceVersion: version, JSON: json.RawMessage(fmt.Sprintf(
		`{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q}}`, short, namespace, uid, version))}
}

func synced(r gvr.Resource, namespace string) stream.Event {
	return stream.Event{Type: stream.Synced, Resource: r, Namespace: namespace, ResourceVersion: "9"}
}

// write appends a run to a file.
func write(t *testing.T, path string, h recording.Header, events ...stream.Event) {
	t.Helper()
	w, err := recording.Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	for i, ev := range events {
		if err := w.Add(began.Add(time.Duration(i)*time.Second), ev, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// texts returns the events of a file, as texts.
func texts(t *testing.T, path string, changes bool) (all []string, err error) {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	entries := r.Entries()
	if changes {
		entries = recording.Changes(entries)
	}
	for e, err := range entries {
		switch {
		case err != nil:
			return all, err
		case e.Run != nil:
			all = append(all, "RUN "+string(e.Run.Start))
		case e.Event.Type != "":
			all = append(all, e.Event.String())
		}
	}
	return all, nil
}

// TestRoundTrip: everything of an event is read as it was written.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	hostile := event(stream.Modified, "web/a", "1", "8")
	hostile.JSON = json.RawMessage(`{"metadata":{"name":"a"},"data":"</script>\u2028\u0000","n":1e400}`)
	broken := event(stream.Modified, "web/b", "1", "8")
	broken.JSON = json.RawMessage(`{"metadata":{"name":"b"`)
	inferred := event(stream.Deleted, "web/a", "1", "9")
	inferred.Inferred, inferred.Namespace = true, "web"
	gap := stream.Event{Type: stream.Gap, Resource: pods, Namespace: "web", Gap: &stream.GapDetails{
		Reason: stream.GapExpired, From: "1", To: "9", Duration: 1500 * time.Millisecond, HistoryLost: true}}
	want := []stream.Event{
		event(stream.Added, "web/a", "1", "7"), hostile, broken, event(stream.Added, "n1", "2", "7"), gap, inferred,
		synced(pods, "web"), {Type: stream.Bookmark, Resource: pods, ResourceVersion: "12"},
	}
	columns, other := `[{"name":"Name"}]`, `[{"name":"Name"},{"name":"Age"}]`
	rows := []string{
		`{"columns":` + columns + `,"cells":["a"]}`, `{"columns":` + columns + `,"cells":["a2"]}`, "",
		`{"columns":` + other + `,"cells":["n1",1]}`, "", "", "", "",
	}
	w, err := recording.Create(path, header)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for i, ev := range want {
		var row json.RawMessage
		if rows[i] != "" {
			row = json.RawMessage(rows[i])
		}
		if err := w.Add(began.Add(time.Duration(i)*time.Second), ev, row, func() { written++ }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || written != len(want) {
		t.Fatalf("%d of %d events are written: %v", written, len(want), err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []stream.Event
	var gotRows []string
	for e, err := range r.Entries() {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Run != nil:
			wantRun := header
			wantRun.Format, wantRun.Began = 1, e.Time
			if diff := cmp.Diff(&wantRun, e.Run); diff != "" {
				t.Errorf("the run (-want +got):\n%s", diff)
			}
		case e.Event.Type != "":
			if want := began.Add(time.Duration(len(got)) * time.Second); !e.Time.Equal(want) {
				t.Errorf("event %d is at %v, want %v", len(got), e.Time, want)
			}
			got, gotRows = append(got, e.Event), append(gotRows, string(e.Row))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rows, gotRows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read the file: %v, %v", info.Mode(), err)
	}
}

// TestKilledWriter: a file that is cut anywhere has a beginning of the events, and a run can be appended. After that
// gunzip reads all of it.
func TestKilledWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.rec")
		write(t, path, header, event(stream.Added, "web/first", "1", "1"))
		w, err := recording.Create(path, header)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			name := fmt.Sprintf("web/p%d", i)
			if err := w.Add(began, event(stream.Added, name, fmt.Sprint(i), "2"), nil, nil); err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				time.Sleep(time.Second) // it is flushed
			}
		}
		time.Sleep(time.Second)
		killed, err := os.ReadFile(path) // before the end of the run
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all, err := texts(t, path, false)
		if err != nil || len(all) != 23 {
			t.Fatalf("%d lines, %v", len(all), err)
		}
		for n := 0; n < len(killed); n += 3 {
			if err := os.WriteFile(path, killed[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			before, err := texts(t, path, false)
			if len(before) > len(all) || !slices.Equal(all[:len(before)], before) {
				t.Fatalf("cut at %d: %v, %v", n, before, err)
			}
			if err != nil && len(before) > 0 {
				t.Fatalf("cut at %d: %v", n, err)
			}
			write(t, path, header, event(stream.Added, "web/last", "9", "9"))
			after, err := texts(t, path, false)
			if err != nil || len(after) < len(before)+2 ||
				!slices.Equal(all[:len(after)-2], after[:len(after)-2]) || after[len(after)-1] != "ADDED web/last@9" {
				t.Fatalf("cut at %d, and another run: %v, %v", n, after, err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(f)
			if err == nil {
				_, err = io.Copy(io.Discard, z)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatalf("cut at %d, and another run: gunzip: %v", n, err)
			}
		}
		if err := os.WriteFile(path, killed, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := texts(t, path, false); err != nil || len(got) != len(all) {
			t.Errorf("killed after a flush: %d of %d lines: %v", len(got), len(all), err)
		}
	})
}

// TestIdleWriter: a writer to which nothing happens says each minute that it is there, and events are in the file after
// half a second.
func TestIdleWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.rec")
		begin := time.Now()
		w, err := recording.Create(path, header)
		if err != nil {
			t.Fatal(err)
		}
		written := false
		first := event(stream.Added, "web/a", "1", "1")
		if err := w.Add(time.Now(), first, nil, func() { written = true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, err := texts(t, path, false); err != nil || len(got) != 2 || !written {
			t.Errorf("after a second: %v, %v, written is %v", got, err, written)
		}
		time.Sleep(10 * time.Minute)
		last := func() (at time.Duration, n int) {
			r, err := recording.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for e, err := range r.Entries() {
				if err != nil {
					t.Fatal(err)
				}
				at, n = e.Time.Sub(begin), n+1
			}
			return at, n
		}
		if at, n := last(); at < 9*time.Minute || n > 13 {
			t.Errorf("the writer was there until %v, in %d lines", at, n)
		}
		time.Sleep(30 * time.Second)
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Error(err)
		}
		if at, _ := last(); at != 10*time.Minute+31*time.Second {
			t.Errorf("the run ended at %v", at)
		}
		if err := w.Add(time.Now(), synced(pods, ""), nil, nil); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestNoRecording: files that are no recording are refused, by a reader and by a writer, and stay as they are.
func TestNoRecording(t *testing.T) {
	run := `{"type":"RUN","time":"2026-03-01T03:00:00Z","run":{"format":1,"cluster":"c1","selection":{}}}` + "\n"
	const pod = `{"version":"v1","plural":"pods","kind":"Pod"}`
	define := `{"type":"RESOURCE","resource":"pods.v1","definition":` + pod + "}\n"
	for _, tt := range []struct {
		why, text, want string
	}{
		{"an empty file", "", "it is empty"},
		{"a text", "hello, world", "begins like no gzip and no JSON"},
		{"other JSON", `{"kind":"Pod"}` + "\n", "line 1: its type is unknown"},
		{"no run first", define, "line 1: the first line must have the type RUN"},
		{"a newer format", strings.Replace(run, `"format":1`, `"format":2`, 1), "its format is 2"},
		{"a resource nobody has defined", run + `{"type":"SYNCED","resource":"pods.v1"}` + "\n",
			"line 2: its resource is not defined"},
		{"an event without an object", run + define + `{"type":"ADDED","resource":"pods.v1"}` + "\n",
			"line 3: a line of the type ADDED must have an object"},
		{"a GAP without a gap", run + define + `{"type":"GAP","resource":"pods.v1"}` + "\n", "must have a gap"},
		{"SYNCED with an object", run + define + `{"type":"SYNCED","resource":"pods.v1","object":{}}` + "\n",
			"only ADDED, MODIFIED and DELETED"},
		{"a line that is no JSON", run + "{]\n", "line 2: it is no JSON"},
		{"a resource without a kind", run + `{"type":"RESOURCE","definition":{}}` + "\n",
			"must have a definition"},
	} {
		path := filepath.Join(t.TempDir(), "a.rec")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := texts(t, path, false)
		var invalid *recording.Error
		if !errors.As(err, &invalid) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.why, err, tt.want)
		}
		if w, err := recording.Create(path, header); tt.text != "" && err == nil { // a writer writes only gzip
			t.Errorf("%s: a writer appends to it: %v", tt.why, w.Close())
		}
		if b, err := os.ReadFile(path); tt.text != "" && (err != nil || string(b) != tt.text) {
			t.Errorf("%s: the file has changed: %v", tt.why, err)
		}
	}
}

// TestForeignFiles: a writer does not touch what another program has written, not even a part of its gzip.
func TestForeignFiles(t *testing.T) {
	var backup bytes.Buffer
	z := gzip.NewWriter(&backup)
	if _, err := z.Write(bytes.Repeat([]byte("backup of something\n"), 1000)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a")
	for _, content := range []string{
		"x", "hello", "\x1f\x8b\x08\x08\x00", backup.String()[:60], backup.String()[:backup.Len()-4], backup.String(),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := recording.Create(path, header)
		var invalid *recording.Error
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "nothing can be appended to it") {
			t.Errorf("%d bytes: %v", len(content), err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != content {
			t.Errorf("%d bytes: the file has changed: %v", len(content), err)
		}
	}
}

// TestDamagedFile: a file with another byte somewhere is an error, or has the same events until then.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	write(t, path, header, event(stream.Added, "web/a", "1", "1"), event(stream.Added, "web/b", "2", "1"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := 10; i < len(whole); i++ {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 0x55
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := texts(t, path, false); err != nil {
			failed++
		}
	}
	if failed < len(whole)/2 {
		t.Errorf("%d of %d damages are seen", failed, len(whole))
	}
}

func TestWritersExcludeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	w, err := recording.Create(path, header)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Create(path, header); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	other := header
	other.Cluster = "c2"
	if _, err := recording.Create(path, other); err == nil || !strings.Contains(err.Error(), "use another file") {
		t.Errorf("another cluster: %v", err)
	}
	write(t, path, header)
}

// TestChanges: the runs of a recording become one history.
func TestChanges(t *testing.T) {
	type run struct {
		start  recording.Start
		types  string
		events []stream.Event
	}
	a1, b1 := event(stream.Added, "web/a", "u1", "1"), event(stream.Added, "web/b", "u2", "2")
	a3 := event(stream.Modified, "web/a", "u1", "3")
	gone := event(stream.Deleted, "web/b", "u2", "4")
	for _, tt := range []struct {
		why  string
		runs []run
		want []string
	}{
		{"one run", []run{{recording.Snapshot, "pods", []stream.Event{a1, b1, synced(pods, ""), a3, gone}}},
			[]string{"RUN snapshot", "ADDED web/a@1", "ADDED web/b@2", "SYNCED @9", "MODIFIED web/a@3",
				"DELETED web/b@4"}},
		{"another snapshot of the same", []run{
			{recording.Snapshot, "pods", []stream.Event{a1, b1, synced(pods, "")}},
			{recording.Snapshot, "pods", []stream.Event{a1, event(stream.Added, "web/b", "u2", "5"), synced(pods, "")}},
		}, []string{"RUN snapshot", "ADDED web/a@1", "ADDED web/b@2", "SYNCED @9",
			"RUN snapshot", "MODIFIED web/b@5 inferred", "SYNCED @9"}},
		{"what is missing in a snapshot is deleted once it is complete", []run{
			{recording.Snapshot, "pods", []stream.Event{a1, b1, synced(pods, "")}},
			{recording.Snapshot, "pods", []stream.Event{a1}},
			{recording.Snapshot, "pods", []stream.Event{
				synced(pods, "shop"), synced(nodes, ""), b1, synced(pods, "web")}},
		}, []string{"RUN snapshot", "ADDED web/a@1", "ADDED web/b@2", "SYNCED @9", "RUN snapshot", "RUN snapshot",
			"SYNCED @9 in shop", "SYNCED @9", "DELETED web/a@1 inferred", "SYNCED @9 in web"}},
		{"another object of the name", []run{
			{recording.Snapshot, "pods", []stream.Event{a1, synced(pods, "")}},
			{recording.Snapshot, "pods", []stream.Event{event(stream.Added, "web/a", "u3", "7"), synced(pods, "")}},
		}, []string{"RUN snapshot", "ADDED web/a@1", "SYNCED @9", "RUN snapshot", "DELETED web/a@1 inferred",
			"ADDED web/a@7", "SYNCED @9"}},
		{"a run that resumes", []run{
			{recording.Snapshot, "pods", []stream.Event{a1, b1, synced(pods, "")}},
			{recording.Resumed, "pods", []stream.Event{a3, synced(pods, ""), gone}},
		}, []string{"RUN snapshot", "ADDED web/a@1", "ADDED web/b@2", "SYNCED @9", "RUN resumed", "MODIFIED web/a@3",
			"SYNCED @9", "DELETED web/b@4"}},
		{"another selection says nothing of the objects before", []run{
			{recording.Snapshot, "pods", []stream.Event{a1, synced(pods, "")}},
			{recording.Snapshot, "pods,nodes", []stream.Event{b1, synced(pods, "")}},
		}, []string{"RUN snapshot", "ADDED web/a@1", "SYNCED @9", "RUN snapshot", "ADDED web/b@2", "SYNCED @9"}},
		{"only later changes", []run{
			{recording.Snapshot, "pods", []stream.Event{a1, synced(pods, "")}},
			{recording.Later, "pods", []stream.Event{synced(pods, ""), a3, gone}},
		}, []string{"RUN snapshot", "ADDED web/a@1", "SYNCED @9", "RUN later", "SYNCED @9", "MODIFIED web/a@3",
			"DELETED web/b@4"}},
	} {
		path := filepath.Join(t.TempDir(), "a.rec")
		for _, r := range tt.runs {
			h := header
			h.Start, h.Selection.Types = r.start, strings.Split(r.types, ",")
			write(t, path, h, r.events...)
		}
		got, err := texts(t, path, true)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.why, err, diff)
		}
	}
}

// FuzzEntries: whatever a file has, reading it ends, with entries that have what they must.
func FuzzEntries(f *testing.F) {
	f.Add([]byte(`{"type":"RUN","run":{"format":1}}` + "\n" +
		`{"type":"RESOURCE","resource":"a","definition":{"version":"v1","plural":"a","kind":"A"}}` + "\n" +
		`{"type":"ADDED","resource":"a","columns":[],"cells":[],"object":{"metadata":{"name":"x"}}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "a.rec")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := recording.Open(path)
		if err != nil {
			return
		}
		defer r.Close()
		for e, err := range recording.Changes(r.Entries()) {
			if err == nil && e.Event.Type == stream.Gap && e.Event.Gap == nil {
				t.Error("a GAP without details")
			}
			if err == nil && e.Event.Type == stream.Added && !e.Event.HasObject() {
				t.Error("ADDED without an object")
			}
		}
	})
}
