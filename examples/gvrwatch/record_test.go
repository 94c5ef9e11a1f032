package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/recording"
)

// TestReplayIsLikeWatch: replay prints what watch has printed while it recorded, in each output.
func TestReplayIsLikeWatch(t *testing.T) {
	dir := t.TempDir()
	c := newBoats(t, "quay")
	for _, name := range []string{"vasa", "mary-rose"} {
		launch(t, c, name)
		defer sink(t, c, name)
	}
	ages := regexp.MustCompile(`\b[0-9]+[smh]([0-9]+[sm])?\b`)
	for i, output := range []string{
		"", "wide", "name", "json", "yaml", "diff", "jsonpath={.metadata.name}", "go-template={{.kind}}",
		"custom-columns=N:.metadata.name", "jsonpath-as-json={.spec}",
	} {
		file := filepath.Join(dir, string(rune('a'+i)))
		args := []string{"watch", "boats", "-n", "quay", "-o", output, "--until-synced", "--record", file}
		status, want, stderr := runTool(t, args...)
		if status != 0 || want == "" {
			t.Fatalf("-o %s: status %d: %s", output, status, stderr)
		}
		status, got, replayed := runTool(t, "replay", file, "-n", "quay", "-o", output)
		want, got = ages.ReplaceAllString(want, "N"), ages.ReplaceAllString(got, "N")
		if diff := cmp.Diff(want, got); status != 0 || diff != "" {
			t.Errorf("-o %s: status %d, %s (-watch +replay):\n%s", output, status, replayed, diff)
		}
		if diff := cmp.Diff(stderr, replayed); diff != "" {
			t.Errorf("-o %s: stderr (-watch +replay):\n%s", output, diff)
		}
	}
}

// TestRecordedObjects: the file has whole objects with managedFields, and -o json prints them without.
func TestRecordedObjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.rec")
	args := []string{"watch", "boats", "-n", "harbour", "-o", "json", "--limit", "1"}
	_, plain, _ := runTool(t, args...)
	status, stdout, stderr := runTool(t, append(args, "--record", file)...)
	if status != 0 || parse(t, []byte(stdout)) == nil || strings.Contains(stdout, "managedFields") {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	if diff := cmp.Diff(parse(t, []byte(plain)), parse(t, []byte(stdout))); diff != "" {
		t.Errorf("with --record another object is printed (-without +with):\n%s", diff)
	}
	_, stdout, stderr = runTool(t, "watch", "boats", "-n", "harbour", "--limit", "1", "--exec", "cat", "--record", file)
	if diff := cmp.Diff(parse(t, []byte(plain)), parse(t, []byte(stdout))); diff != "" {
		t.Errorf("with --record a command gets another object (-without +with):\n%s%s", diff, stderr)
	}
	for flag, has := range map[string]bool{"": false, "--show-managed-fields": true} {
		_, stdout, _ = runTool(t, slices.DeleteFunc([]string{"replay", file, "-o", "json", flag}, func(s string) bool {
			return s == ""
		})...)
		if strings.Contains(stdout, "managedFields") != has || strings.Contains(stdout, "gvrwatch-") {
			t.Errorf("replay %s: %s", flag, stdout)
		}
	}
	text := lines(t, file)
	for _, part := range []string{
		`"managedFields":[{`, `"cells":["bounty"`, `"types":["boats"]`, `"namespaces":["harbour"]`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the recording lacks %s:\n%s", part, text)
		}
	}
}

// lines returns the text of a recording.
func lines(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSecretsAreRedacted: values of Secrets, and annotations that may repeat them, are not in the file.
func TestSecretsAreRedacted(t *testing.T) {
	secretType, mapType := newType("secrets", "", true), newType("configmaps", "", true)
	s := newScripted(t, secretType, mapType)
	put := func(value string) {
		s.Put(secretType, "shop", "s", "data.password="+value, "type=Opaque",
			"annotations.last={\"password\":\""+value+"\"}")
		s.Put(mapType, "shop", "m", "data.motto="+value)
	}
	put("aHVudGVyMg==")
	dir := t.TempDir()
	redacted, whole := filepath.Join(dir, "redacted"), filepath.Join(dir, "whole")
	p := s.start("watch secrets -A -o diff --limit 2 --record " + redacted)
	p.awaitStderr("secrets.v1: synced")
	put("aHVudGVyMw==")
	p.wait(0)
	runTool(t, "watch", "configmaps", "-A", "--until-synced", "--server", s.url, "--record", redacted)
	text := lines(t, redacted)
	if strings.Count(text, `"password":"REDACTED`) != 2 || strings.Count(text, "aHVudGVy") != 1 ||
		!strings.Contains(text, `"secrets":"redacted"`) {
		t.Errorf("the recording has\n%s", text)
	}
	_, stdout, _ := runTool(t, "replay", redacted, "secrets", "-o", "diff", "--types", "MODIFIED")
	if !strings.Contains(stdout, "data.password: (12 bytes) → (12 bytes) (changed)") {
		t.Errorf("the change of a value does not show: %s", stdout)
	}
	runTool(t, "watch", "secrets", "-A", "--until-synced", "--server", s.url, "--record", whole, "--record-secrets")
	if text := lines(t, whole); !strings.Contains(text, `"password":"aHVudGVyMw=="`) ||
		!strings.Contains(text, `"secrets":"included"`) {
		t.Errorf("with --record-secrets the recording has\n%s", text)
	}
}

func TestRecordedServerHasNoPassword(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:secret@host:6443/path": "https://host:6443/path", "https://host:6443": "https://host:6443",
		"host:6443": "host:6443",
	} {
		if got := withoutUser(in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// TestAckAfterRecord: an event is acked once it is printed and in the file of --record.
func TestAckAfterRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.rec")
	w, err := recording.Create(file, recording.Header{})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{file: w}
	acked := 0
	printed, err := r.add(step(t, "pods", "ADDED a {}"), nil, func() { acked++ })
	if err != nil {
		t.Fatal(err)
	}
	printed()
	if acked != 0 {
		t.Error("acked before the file has the event")
	}
	second, err := r.add(step(t, "pods", "ADDED b {}"), nil, func() { acked++ })
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if acked != 1 {
		t.Errorf("%d of 2 are acked, but one is not printed", acked)
	}
	if second(); acked != 2 {
		t.Errorf("%d of 2 are acked", acked)
	}
	if _, err := r.add(step(t, "pods", "ADDED c {}"), nil, func() {}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("an event that can't be recorded: %v", err)
	}
}

// TestRecordMistakes: files to which nothing can be recorded.
func TestRecordMistakes(t *testing.T) {
	dir := t.TempDir()
	text, busy := filepath.Join(dir, "text"), filepath.Join(dir, "busy")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := recording.Create(busy, recording.Header{Cluster: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ file, want string }{
		{text, "nothing can be appended to it"}, {dir, "is a directory"}, {busy, "another process writes it"},
		{filepath.Join(dir, "none", "a"), "no such file"},
	} {
		status, stdout, stderr := runTool(t, "watch", "boats", "--until-synced", "--record", tt.file)
		if status != 1 || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("status %d, want 1 with %q\n%s%s", status, tt.want, stdout, stderr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := runTool(t, "watch", "boats", "--until-synced", "--record", busy); status != 1 ||
		!strings.Contains(stderr, "it is of the cluster other") || !strings.Contains(stderr, "use another file") {
		t.Errorf("a recording of another cluster: status %d: %s", status, stderr)
	}
}

// TestRecordResumes: with a checkpoint the runs are one history; without one each begins with what exists.
func TestRecordResumes(t *testing.T) {
	s := newScripted(t, robotType)
	s.Put(robotType, "shop", "a")
	s.Put(robotType, "shop", "b")
	dir := t.TempDir()
	file := filepath.Join(dir, "a.rec")
	run := func(flags ...string) {
		t.Helper()
		args := []string{"watch", "robots", "-A", "--until-synced", "--server", s.url, "--record", file}
		if status, _, stderr := runTool(t, append(args, flags...)...); status != 0 {
			t.Fatal(stderr)
		}
	}
	db := filepath.Join(dir, "db")
	run("--checkpoint", db)
	if _, err := s.Delete(robotType, "shop", "a"); err != nil {
		t.Fatal(err)
	}
	run("--checkpoint", db)
	s.Put(robotType, "shop", "b", "spec.x=1")
	run()
	run("--watch-only", "--until-synced=false", "--timeout", "100ms")
	r, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for e, err := range recording.Changes(r.Entries()) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Run != nil:
			got = append(got, string(e.Run.Start))
		case e.Event.HasObject():
			got = append(got, string(e.Event.Type)+" "+e.Event.Meta().GetName())
		}
	}
	want := []string{"snapshot", "ADDED a", "ADDED b", "resumed", "DELETED a", "snapshot", "MODIFIED b", "later"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, _, stderr := runTool(t, "replay", file)
	if strings.Contains(stderr, "nobody recorded") {
		t.Errorf("less than a second between two runs is worth no line: %s", stderr)
	}
}

// plainRecording is a recording without compression.
const plainRecording = "testdata/recording.jsonl"

func TestReplay(t *testing.T) {
	clock := regexp.MustCompile(`(--at|--from|--to) ([0-9:]+)( |$)`) // in UTC; the flags take local time
	local := func(args string) string {
		return clock.ReplaceAllStringFunc(args, func(flag string) string {
			parts := clock.FindStringSubmatch(flag)
			at, err := time.Parse("15:04:05", (parts[2] + ":00")[:8])
			if err != nil {
				t.Fatal(err)
			}
			at = time.Date(2026, 3, 1, at.Hour(), at.Minute(), at.Second(), 0, time.UTC).Local()
			return parts[1] + " " + at.Format("15:04:05") + parts[3]
		})
	}
	const file = plainRecording
	const none = "the objects are those that were known then"
	for _, tt := range []struct{ why, args, stdout, stderr string }{
		{"everything", "-o name", "pod/a pod/b node/n pod/a pod/b deleted",
			"nobody recorded from 2026-03-01T03:30:00Z to"},
		{"a type", "po -o name", "pod/a pod/b pod/a pod/b deleted", ""},
		{"a pattern", "n* -o name", "node/n", ""},
		{"an object", "pods/a -o name", "pod/a pod/a", ""},
		{"an object by type and name", "pods b -o name", "pod/b pod/b deleted", ""},
		{"a namespace", "-n shop -o name", "pod/b node/n pod/b deleted", ""},
		{"a label", "-l app=x -o name", "pod/a pod/a", ""},
		{"a type of event", "--types deleted -o name", "pod/b deleted", ""},
		{"a value that changed", "--changed .x -o name", "pod/a pod/a", ""},
		{"a change compared with a state before --from", "--changed .x --from 03:05 -o name", "pod/a", ""},
		{"a diff with a state before --from", "-o diff --from 03:05 --to 03:15", "MODIFIED pod web/a x: 1 → 2", ""},
		{"a span", "--from +5m --to 2026-03-01T03:15:00Z -o name", "pod/a", ""},
		{"a span from the end", "--from -51m -o name", "pod/b deleted", ""},
		{"some", "--limit 2 -o name", "pod/a pod/b", ""},
		{"times of the recording", "pods/a --timestamps -o jsonpath={.time} --output-watch-events",
			"2026-03-01T03:00:00Z 2026-03-01T03:10:00Z", ""},
		{"a state", "pods --at 03:15 -o name", "pod/b pod/a", ""},
		{"a state with values", "--at 03:15 pods/a -o jsonpath={.x}", "2", ""},
		{"a state of events", "--at 03:15 pods/a -o jsonpath={.type} --output-watch-events", "ADDED", ""},
		{"a state in which not all is synced", "--at +1s pods -o name", "pod/b pod/a",
			"pods.v1: not synced yet: " + none},
		{"a resource that was never synced", "--at 03:15 nodes -o name", "node/n", "nodes.v1: not synced yet: " + none},
		{"a state within a gap", "--at 03:20:00 pods -o name", "pod/b pod/a",
			"pods.v1: within a gap since 2026-03-01T03:20:00Z: " + none},
		{"a state that nobody recorded", "--at 03:45 pods -o name", "pod/a",
			"the recording: nobody recorded from 2026-03-01T03:30:00Z to 2026-03-01T04:00:00Z: " + none},
		{"what was gone when another run was synced", "--at 04:05 pods -o name", "", ""},
		{"a state with its age then", "--at 03:15 nodes", "NAME AGE n 15m", "nodes.v1: not synced yet: " + none},
		{"a state after the end", "--at 2026-03-01T05:00:00Z nodes -o name", "node/n", "ends at 2026-03-01T04:10:00Z"},
		{"a summary", "pods --summary -o name --limit 1", "pod/a", "pods.v1 web 1 0 0"},
	} {
		status, stdout, stderr := runTool(t, append([]string{"replay", file}, strings.Fields(local(tt.args))...)...)
		got := strings.Join(strings.Fields(stdout), " ")
		if diff := cmp.Diff(tt.stdout, got); status != 0 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s%s", tt.why, status, diff, stderr)
		}
		if got := strings.Join(strings.Fields(stderr), " "); !strings.Contains(got, tt.stderr) ||
			strings.Contains(tt.args, "--at") && tt.stderr == "" && stderr != "" {
			t.Errorf("%s: want %q on stderr, got %q", tt.why, tt.stderr, got)
		}
	}
	for _, tt := range []struct {
		args, want string
		status     int
	}{
		{"", "missing FILE", 2},
		{file + " --speed 0", "--speed=0: must be a number over 0", 2},
		{file + " --speed x", "--speed=x: must be a number over 0", 2},
		{file + " --at noon", "--at=noon: must be a time", 2},
		{file + " --from 5m", "--from=5m: must be a time", 2},
		{file + " --at 03:00 --speed 1", "--at: prints the state at one time", 2},
		{file + " --at 03:00 -o diff", "--at and --output=diff exclude each other", 2},
		{file + " --at 2026-03-01T02:00:00Z", "the recording begins only at 2026-03-01T03:00:00Z", 1},
		{file + " boats", `the recording has no resource "boats": it has nodes.v1, pods.v1`, 1},
		{filepath.Join(t.TempDir(), "none"), "no such file", 1},
		{os.DevNull, "it is empty", 1},
		{"../../go.mod", "begins like no gzip and no JSON", 1},
	} {
		status, stdout, stderr := runTool(t, append([]string{"replay"}, strings.Fields(tt.args)...)...)
		if status != tt.status || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("replay %s: status %d, want %d with %q\n%s%s", tt.args, status, tt.status, tt.want, stdout, stderr)
		}
	}
}

// TestReplayOfParts: what a recording does not know is said, and what a selection leaves out changes nothing else.
func TestReplayOfParts(t *testing.T) {
	const run, resumed = "snapshot", "resumed"
	const header = `{"type":"RUN","time":"2026-03-01T03:TIMEZ",` +
		`"run":{"format":1,"selection":{},"start":"START"}}` + "\n" +
		`{"type":"RESOURCE","resource":"pods.v1",` +
		`"definition":{"version":"v1","plural":"pods","kind":"Pod","namespaced":true}}`
	line := func(at, text string) string {
		typ, name, _ := strings.Cut(text, " ")
		name, label, _ := strings.Cut(name, "=")
		ns, name, _ := strings.Cut(name, "/")
		rest := map[string]string{
			"SYNCED": `"namespace":"` + ns + `"`, "GAP": `"namespace":"` + ns + `","gap":{"seconds":60}`,
		}[typ]
		if rest == "" {
			rest = `"namespace":"` + ns + `","object":{"metadata":{"namespace":"` + ns + `","name":"` + name +
				`","uid":"` + name + `","labels":{"app":"` + label + `"}}}`
		}
		return `{"type":"` + typ + `","time":"2026-03-01T03:` + at + `Z","resource":"pods.v1",` + rest + `}`
	}
	begin := func(at, start string) string {
		return strings.NewReplacer("TIME", at, "START", start).Replace(header)
	}
	for _, tt := range []struct {
		why            string
		lines          []string
		args           string
		stdout, stderr string
	}{
		{"a second run that is not synced", []string{begin("00:00", run), line("00:01", "ADDED web/a"),
			line("00:02", "SYNCED"), begin("10:00", run), line("11:00", "SYNCED")}, "--at 03:10:30", "pod/a",
			"pods.v1: not synced yet since 2026-03-01T03:10:00Z"},
		{"and one that is", []string{begin("00:00", run), line("00:01", "ADDED web/a"), line("00:02", "SYNCED"),
			begin("10:00", resumed), line("10:01", "SYNCED"), line("11:00", "SYNCED")}, "--at 03:10:30", "pod/a", ""},
		{"a first run that resumes knows no objects before it", []string{begin("00:00", resumed),
			line("00:01", "SYNCED"), line("00:02", "MODIFIED web/a"), line("01:00", "SYNCED")}, "--at 03:00:30",
			"pod/a",
			"pods.v1: only changes were recorded since 2026-03-01T03:00:00Z"},
		{"nor does a second one", []string{begin("00:00", resumed), line("00:01", "SYNCED"),
			begin("00:02", resumed), line("00:03", "SYNCED"), line("01:00", "SYNCED")}, "--at 03:00:30", "",
			"pods.v1: only changes were recorded since 2026-03-01T03:00:00Z"},
		{"a gap that is delivered later", []string{begin("00:00", run), line("00:01", "SYNCED"), line("10:00", "GAP"),
			line("10:01", "SYNCED")}, "--at 03:09:30", "", "pods.v1: within a gap since 2026-03-01T03:09:00Z"},
		{"a gap that begins later", []string{begin("00:00", run), line("00:01", "SYNCED"), line("10:00", "GAP"),
			line("10:01", "SYNCED")}, "--at 03:08:59", "", ""},
		{"a namespace that is not synced", []string{begin("00:00", run), line("00:01", "SYNCED web"),
			line("00:01", "ADDED shop/a"), line("10:01", "SYNCED shop")}, "--at 03:01", "pod/a",
			"pods.v1 in the namespace shop: not synced yet"},
		{"a gap of one namespace", []string{begin("00:00", run), line("00:01", "SYNCED"), line("02:00", "GAP web"),
			line("02:01", "SYNCED shop"), line("10:01", "SYNCED web")}, "--at 03:03", "",
			"pods.v1 in the namespace web: within a gap since 2026-03-01T03:01:00Z"},
		{"some of a state", []string{begin("00:00", run), line("00:01", "ADDED web/a"), line("00:01", "ADDED web/b"),
			line("00:02", "SYNCED"), line("10:01", "SYNCED")}, "--at 03:03 --limit 1", "pod/a", ""},
		{"a removal without labels", []string{begin("00:00", run), line("00:01", "ADDED web/a=x"),
			line("00:01", "ADDED web/b=y"), line("00:02", "DELETED web/a"), line("00:02", "DELETED web/b")}, "-l app=x",
			"pod/a pod/a deleted", ""},
		{"a change of what is selected", []string{begin("00:00", run), line("00:01", "ADDED web/a=x"),
			line("00:02", "MODIFIED web/a=y"), line("00:03", "MODIFIED web/a=z")}, "-l app=x", "pod/a pod/a", ""},
		{"another run delivers the old objects again", []string{begin("00:00", run), line("00:01", "SYNCED"),
			line("00:02", "ADDED web/a"), begin("10:00", run), line("10:01", "ADDED web/a")},
			"--since 1h --changed .x", "", "nobody recorded"},
		{"what is ignored may be the name, and is left out of a diff only", []string{begin("00:00", run),
			line("00:01", "ADDED web/a"), line("00:02", "MODIFIED web/a=x")}, "--ignore .metadata", "pod/a", ""},
	} {
		file := filepath.Join(t.TempDir(), "a.jsonl")
		if err := os.WriteFile(file, []byte(strings.Join(tt.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"replay", file, "-o", "name"}, strings.Fields(tt.args)...)
		status, stdout, stderr := runTool(t, args...)
		got := strings.Join(strings.Fields(stdout), " ")
		if diff := cmp.Diff(tt.stdout, got); status != 0 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s%s", tt.why, status, diff, stderr)
		}
		if !strings.Contains(stderr, tt.stderr) ||
			strings.Contains(tt.args, "--at") && tt.stderr == "" && stderr != "" {
			t.Errorf("%s: want %q on stderr, got %q", tt.why, tt.stderr, stderr)
		}
	}
}

// TestIgnoredIsPrinted: --ignore says what is no change. An object is printed with it, but not in -o diff.
func TestIgnoredIsPrinted(t *testing.T) {
	for _, tt := range []struct{ output, want string }{
		{"jsonpath={.x} {.metadata.name}", "1 a 2 a"}, {"diff", "ADDED pod web/a MODIFIED pod web/a x: 1 → 2"},
	} {
		_, stdout, stderr := runTool(t, "replay", plainRecording, "pods/a", "--ignore", ".metadata", "-o", tt.output)
		if got := strings.Join(strings.Fields(stdout), " "); got != tt.want {
			t.Errorf("-o %s: want %q, got %q\n%s", tt.output, tt.want, got, stderr)
		}
	}
}

// TestReplaySpeed: events are printed with the pauses of the recording, and a signal ends them.
func TestReplaySpeed(t *testing.T) {
	r := &replay{speed: 60}
	begin := time.Now()
	err := r.pause(t.Context(), begin, begin.Add(6*time.Second))
	if took := time.Since(begin); err != nil || took < 100*time.Millisecond {
		t.Errorf("a pause of 6s at 60x took %v: %v", took, err)
	}
	begin = time.Now()
	status, stdout, stderr := runTool(t, "replay", plainRecording, "pods/a", "--to", "03:10", "--speed", "2000x", "-o",
		"name")
	if took := time.Since(begin); status != 0 || strings.Count(stdout, "pod/a") != 2 || took < 300*time.Millisecond {
		t.Errorf("10 minutes at 2000x, without the other objects, took %v: %q %s", took, stdout, stderr)
	}
	p := start(t, "replay", plainRecording, "-o", "name", "--speed", "1000x")
	p.awaitStdout("node/n")
	if stdout, _ := p.end(); strings.Count(stdout, "pod/a") != 1 {
		t.Errorf("printed %q", stdout)
	}
}

// TestReplayIsSafe: a recording is from anywhere. What it has is printed as escapes, and columns that are not those
// of the server are no panic.
func TestReplayIsSafe(t *testing.T) {
	odd := oddObject("default")
	object, err := json.Marshal(odd.Object)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("BAD", string(bad), "OBJECT", string(object)).Replace(`
{"type":"RUN","time":"2026-03-01T03:00:00Z","run":{"format":1,"cluster":BAD}}
{"type":"RESOURCE","resource":"r","definition":{"version":BAD,"plural":BAD,"kind":BAD}}
{"type":"ADDED","resource":"r","columns":[{"name":BAD}],"cells":[BAD,1,2],"object":OBJECT}
{"type":"ADDED","resource":"r","columns":{},"cells":{},"object":OBJECT}
{"type":"MODIFIED","resource":"r","cells":5,"object":[]}
{"type":"MODIFIED","resource":"r","cells":[],"object":"x"}
{"type":"DELETED","resource":"r","text":"{\u001b"}
{"type":"GAP","resource":"r","gap":{"reason":BAD,"from":BAD}}
`)
	text = strings.TrimPrefix(text, "\n")
	file := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"", "-o wide", "-o json", "-o yaml", "-o name", "-o diff", "-o custom-columns=A:.metadata", "--at +1s",
		"--changed .metadata", "--ignore .metadata.name", "--since 1s", "--summary", "-l a=b", "-n x",
	} {
		status, stdout, stderr := runTool(t, append([]string{"replay", file}, strings.Fields(args)...)...)
		checkSafe(t, args, stdout+stderr)
		if status != 0 {
			t.Errorf("%s: status %d: %s", args, status, stderr)
		}
	}
}
