package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/stream"
)

// step returns an event from "TYPE NAME JSON", with the JSON of the fields beside metadata.
func step(t *testing.T, resource, text string) stream.Event {
	t.Helper()
	parts := strings.SplitN(text, " ", 3)
	ev := stream.Event{Type: stream.Type(parts[0]), Resource: newType(resource, "", true)}
	if len(parts) == 3 {
		name, created, _ := strings.Cut(parts[1], "@")
		fields := map[string]any{}
		if err := utiljson.Unmarshal([]byte(parts[2]), &fields); err != nil {
			ev.JSON = json.RawMessage(parts[2])
			return ev
		}
		metadata, _ := fields["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["name"], metadata["uid"] = name, name
		if created != "" {
			metadata["creationTimestamp"] = created
		}
		fields["metadata"] = metadata
		ev.JSON, _ = json.Marshal(fields)
	}
	return ev
}

// TestFilter: which events pass, by their index.
func TestFilter(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		why      string
		flags    filterFlags
		resource string
		events   []string
		want     string
	}{
		{"no flag", filterFlags{}, "pods", []string{"ADDED a {}", "MODIFIED a {}", "DELETED a {}", "SYNCED"},
			"0 1 2 3"},
		{"types, and control events always", filterFlags{types: []string{"deleted", "Added"}}, "pods",
			[]string{"ADDED a {}", "SYNCED", "MODIFIED a {}", "GAP", "DELETED a {}"}, "0 1 3 4"},
		{"a value that changes, appears and goes", filterFlags{changed: []string{".status.phase"}}, "pods", []string{
			`ADDED a {}`, `MODIFIED a {"x":1}`, `MODIFIED a {"status":{"phase":"P"}}`,
			`MODIFIED a {"status":{"phase":"P","x":2}}`,
			`MODIFIED a {"status":{"phase":"R"}}`, `MODIFIED a {"status":{}}`, `DELETED a {}`,
		}, "2 4 5"},
		{"an object that comes and goes with a value", filterFlags{changed: []string{"status.phase"}}, "pods", []string{
			`ADDED a {"status":{"phase":"P"}}`, `DELETED a {"status":{"phase":"P"}}`,
		}, "0 1"},
		{"nothing is known of an object that resumes", filterFlags{changed: []string{"{.spec.x}"}}, "pods", []string{
			`MODIFIED a {}`, `MODIFIED a {}`, `DELETED b {}`,
		}, "0 2"},
		{"a number that becomes a text", filterFlags{changed: []string{".x"}}, "pods",
			[]string{`ADDED a {"x":1}`, `MODIFIED a {"x":"1"}`}, "0 1"},
		{"one of two paths", filterFlags{changed: []string{".a", `.b[?(@.type=="Ready")].status`}}, "pods", []string{
			`ADDED a {}`, `MODIFIED a {"b":[{"type":"Ready","status":"True"},{"type":"X"}]}`,
			`MODIFIED a {"b":[{"type":"X","status":"y"},{"type":"Ready","status":"True"}]}`, `MODIFIED a {"a":[]}`,
		}, "1 3"},
		{"a type that is left out still counts as the state before",
			filterFlags{changed: []string{".x"}, types: []string{"MODIFIED"}}, "pods",
			[]string{`ADDED a {"x":1}`, `MODIFIED a {"x":1}`, `MODIFIED a {"x":2}`}, "2"},
		{"noise", filterFlags{ignore: []string{".status.conditions[*].lastHeartbeatTime"}}, "pods", []string{
			`ADDED a {"metadata":{"resourceVersion":"1"},
				"status":{"conditions":[{"type":"R","lastHeartbeatTime":"1"}]}}`,
			`MODIFIED a {"metadata":{"resourceVersion":"2","managedFields":[{}]},
				"status":{"conditions":[{"type":"R","lastHeartbeatTime":"2"}]}}`,
			`MODIFIED a {"status":{"conditions":[{"type":"R"}]}}`, `MODIFIED a {"metadata":{"labels":{"a":"b"}}}`,
			`DELETED a {}`,
		}, "0 3 4"},
		{"noise in what must change", filterFlags{changed: []string{".status"}, ignore: []string{".status.at"}}, "pods",
			[]string{`ADDED a {"status":{"at":1}}`, `MODIFIED a {"status":{"at":2}}`,
				`MODIFIED a {"status":{"at":2,"x":1}}`}, "0 2"},
		{"each object for itself", filterFlags{changed: []string{".x"}}, "pods",
			[]string{`ADDED a {"x":1}`, `ADDED b {"x":1}`, `MODIFIED a {"x":1}`, `DELETED a {}`, `ADDED a {"x":1}`},
			"0 1 3 4"},
		{"an object that is too deep for the path", filterFlags{changed: []string{"..x"}}, "pods", []string{
			`ADDED a {"s":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}`,
			`MODIFIED a {"s":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}`,
			`MODIFIED a {"s":1}`, `MODIFIED a {"s":2}`}, "0 1 2"},
		{"what can't be decoded", filterFlags{changed: []string{".x"}}, "pods", []string{`ADDED a {"x":`}, "0"},
		{"since: created", filterFlags{since: time.Hour}, "pods", []string{
			"ADDED a@2026-03-01T10:59:59Z {}", "ADDED a@2026-03-01T11:00:01Z {}", "MODIFIED a@2020-01-01T00:00:00Z {}",
			"DELETED a@2020-01-01T00:00:00Z {}", "ADDED a {}", "SYNCED",
		}, "1 2 3 4 5"},
		{"since: an old object that a selector begins to match", filterFlags{since: time.Hour}, "pods", []string{
			"ADDED a@2020-01-01T00:00:00Z {}", "SYNCED", "ADDED b@2020-01-01T00:00:00Z {}",
		}, "1 2"},
		{"since: Events by their observation", filterFlags{since: time.Hour}, "events", []string{
			`ADDED a@2026-03-01T11:59:00Z {"lastTimestamp":"2026-03-01T10:00:00Z"}`,
			`ADDED a@2026-03-01T10:00:00Z {"lastTimestamp":"2026-03-01T11:30:00Z"}`,
			`ADDED a@2026-03-01T10:00:00Z {"series":{"lastObservedTime":"2026-03-01T11:30:00.5Z"},
				"lastTimestamp":"2026-03-01T10:00:00Z"}`,
			`ADDED a@2026-03-01T11:59:00Z {"lastTimestamp":null,"eventTime":"2026-03-01T10:00:00.000000Z"}`,
			`ADDED a@2026-03-01T11:59:00Z {"eventTime":5}`, `ADDED a@2026-03-01T10:59:00Z {"series":[]}`,
		}, "1 2 4"},
	} {
		if err := tt.flags.check(); err != nil {
			t.Fatalf("%s: %v", tt.why, err)
		}
		f, err := tt.flags.newFilter(begin)
		if err != nil {
			t.Fatalf("%s: %v", tt.why, err)
		}
		var got []string
		for i, text := range tt.events {
			if _, ok := f.pass(step(t, tt.resource, text)); ok {
				got = append(got, fmt.Sprint(i))
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

// TestPaths: what is found at a path, and what remains without it.
func TestPaths(t *testing.T) {
	const object = `{"a":{"b":1,"c.d/e":2,"f":[{"g":1,"h":2},{"g":3},4]},"z":{}}`
	for _, tt := range []struct{ path, found, without, why string }{
		{".a.b", `[1]`, `{"a":{"c.d/e":2,"f":[{"g":1,"h":2},{"g":3},4]},"z":{}}`, "a field"},
		{"a.b", `[1]`, `{"a":{"c.d/e":2,"f":[{"g":1,"h":2},{"g":3},4]},"z":{}}`, "without the dot"},
		{"{.z}", `[{}]`, `{"a":{"b":1,"c.d/e":2,"f":[{"g":1,"h":2},{"g":3},4]}}`, "with braces, and a top-level field"},
		{"$.z", `[{}]`, `{"a":{"b":1,"c.d/e":2,"f":[{"g":1,"h":2},{"g":3},4]}}`, "with a dollar"},
		{`.a.c\.d/e`, `[2]`, `{"a":{"b":1,"f":[{"g":1,"h":2},{"g":3},4]},"z":{}}`, "dots in a name, as in kubectl"},
		{`.a['c\.d/e']`, `[2]`, `{"a":{"b":1,"f":[{"g":1,"h":2},{"g":3},4]},"z":{}}`, "dots in a name in brackets"},
		{".a.f[*].g", `[1,3]`, `{"a":{"b":1,"c.d/e":2,"f":[{"h":2},{},4]},"z":{}}`, "a field of each element"},
		{".a.f[0].g", `[1]`, `{"a":{"b":1,"c.d/e":2,"f":[{"h":2},{"g":3},4]},"z":{}}`, "a field of one element"},
		{".a.f[?(@.h==2)].g", `[1]`, `{"a":{"b":1,"c.d/e":2,"f":[{"h":2},{"g":3},4]},"z":{}}`, "a filter"},
		{".a.f[*]", `[{"g":1,"h":2},{"g":3},4]`, `{"a":{"b":1,"c.d/e":2,"f":[null,null,null]},"z":{}}`, "all elements"},
		{".z.*", `null`, object, "all fields of none"},
		{"..g", `[1,3]`, `{"a":{"b":1,"c.d/e":2,"f":[{"h":2},{},4]},"z":{}}`, "a field anywhere"},
		{".none.x", `null`, object, "nothing"},
		{".a.b.x", `null`, object, "a field of a number"},
		{".a.f[9].g", `null`, object, "an element beyond the end"},
	} {
		p, err := parsePath(tt.path)
		if err != nil || !p.removes() {
			t.Errorf("%s: %s: %v, removes: %v", tt.why, tt.path, err, p.removes())
			continue
		}
		var o map[string]any
		if err := utiljson.Unmarshal([]byte(object), &o); err != nil {
			t.Fatal(err)
		}
		values, _ := p.find(o)
		found, _ := json.Marshal(values)
		p.remove(o)
		rest, _ := json.Marshal(o)
		if diff := cmp.Diff([]string{tt.found, tt.without}, []string{string(found), string(rest)}); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.why, tt.path, diff)
		}
	}
}

// TestFilterMistakes: what the flags refuse, and how.
func TestFilterMistakes(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--types CREATED", "--types=CREATED: must be of ADDED, MODIFIED, DELETED, SYNCED and GAP"},
		{"--types=", "--types: must not be empty"},
		{"--since -1s", "--since=-1s: must not be negative"},
		{"--changed .a[", "--changed=.a[: "},
		{"--changed .", "--changed=.: must be a JSONPath"},
		{"--changed {range.a}", "--changed={range.a}: "},
		{"--ignore .a[0]", "--ignore=.a[0]: must end with the name of a field or with [*]"},
		{"--record-secrets", "--record-secrets: applies only to --record"},
		{"--record -", "--record=-: must be a file"},
		{"--record=", "--record: must not be empty"},
	} {
		status, stdout, stderr := runTool(t, append([]string{"watch", "boats"}, strings.Fields(tt.args)...)...)
		if status != 2 || stdout != "" || !strings.HasPrefix(stderr, "gvrwatch: "+tt.want) {
			t.Errorf("%s: status %d, want 2 with %q\n%s%s", tt.args, status, tt.want, stdout, stderr)
		}
	}
}

// TestFilteredRun: the flags in a run, with what is printed where, and what is counted.
func TestFilteredRun(t *testing.T) {
	s := newScripted(t, robotType)
	s.Put(robotType, "shop", "a", "spec.size=1", "status.beat=1")
	p := s.start("watch robots -A -o diff --ignore .status.beat --types MODIFIED,DELETED --summary --limit 3")
	p.awaitStderr("robots.v1.example.com: synced")
	s.Put(robotType, "shop", "a", "status.beat=2")
	s.Put(robotType, "shop", "a", "status.beat=3", "spec.size=2")
	s.Put(robotType, "home", "b", "spec.size=1")
	s.Put(robotType, "shop", "a", "status.beat=4", "spec.size=3")
	if _, err := s.Delete(robotType, "shop", "a"); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := p.wait(0)
	const want = "MODIFIED  robot shop/a  spec.size: 1 → 2\nMODIFIED  robot shop/a  spec.size: 2 → 3\n" +
		"DELETED   robot shop/a\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const summary = "TYPE                    NAMESPACE   ADDED   MODIFIED   DELETED\n" +
		"robots.v1.example.com   shop        0       2          1\n"
	if !strings.HasSuffix(stderr, summary) {
		t.Errorf("the summary is not\n%sbut\n%s", summary, stderr)
	}
	for types, want := range map[string]string{"ADDED": "ADDED", "added,synced": "ADDED SYNCED"} {
		_, stdout, stderr := runTool(t, "watch", "robots", "-A", "-o", "jsonpath={.type}", "--output-watch-events",
			"--until-synced", "--server", s.url, "--types", types)
		if strings.Join(strings.Fields(stdout), " ") != "ADDED" || !strings.Contains(stderr, "synced at") {
			t.Errorf("--types %s: a template got %q, stderr %q", types, stdout, stderr)
		}
		_, stdout, stderr = runTool(t, "watch", "robots", "-A", "-o", "json", "--until-synced", "--server", s.url,
			"--types", types)
		got := ""
		for line := range strings.Lines(stdout) {
			got += " " + strings.Split(line, `"`)[3]
		}
		if got != " "+want || strings.Contains(stderr, "synced at") == strings.Contains(want, "SYNCED") {
			t.Errorf("--types %s: got%s, want %s\nstderr: %s", types, got, want, stderr)
		}
	}
}
