package changes_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
	"github.com/gvrwatch/gvrwatch/stream"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := utiljson.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestCompare(t *testing.T) {
	type fields = []changes.Field
	for _, c := range []struct {
		why, before, after string
		want               fields
	}{
		{"equal objects", `{"a":1}`, `{"a":1}`, nil},
		{"values of all types", `{"a":1,"b":"x","c":true,"d":null,"e":1.5}`, `{"a":2,"b":"y z","c":false,"d":0,"e":2}`,
			fields{{"a", "1", "2"}, {"b", "x", "y z"}, {"c", "true", "false"}, {"d", "null", "0"}, {"e", "1.5", "2"}}},
		{"texts that look like other values", `{"a":"5","b":"","c":"1\n2"}`, `{"a":5,"b":" x","c":"1"}`,
			fields{{"a", `"5"`, "5"}, {"b", `""`, `" x"`}, {"c", `"1\n2"`, `"1"`}}},
		{"fields that come and go", `{"a":{"b":1}}`, `{"a":{"c":[1]}}`, fields{{"a.b", "1", ""}, {"a.c", "", "[1]"}}},
		{"an object becomes a text", `{"a":{"b":1}}`, `{"a":"x"}`, fields{{"a", `{"b":1}`, "x"}}},
		{"metadata, spec, others, status", `{"status":{"a":1},"data":{"a":1},"spec":{"a":1},"metadata":{"name":"a"}}`,
			`{"status":{"a":2},"data":{"a":2},"spec":{"a":2},"metadata":{"name":"b"}}`,
			fields{{"metadata.name", "a", "b"}, {"spec.a", "1", "2"}, {"data.a", "1", "2"}, {"status.a", "1", "2"}}},
		{"what changes with each write is hidden",
			`{"metadata":{"resourceVersion":"1","generation":1,"managedFields":[],
				"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"}}}`,
			`{"metadata":{"resourceVersion":"2","generation":2,"managedFields":[{}],
				"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"y"}}}`, nil},
		{"labels with dots and slashes", `{"metadata":{"labels":{"example.com/a":"1"}}}`,
			`{"metadata":{"labels":{"example.com/a":"2"}}}`, fields{{"metadata.labels[example.com/a]", `"1"`, `"2"`}}},
		{"elements with a name", `{"l":[{"type":"A","s":1},{"type":"B","s":1}]}`,
			`{"l":[{"type":"C","s":0},{"type":"B","s":2},{"type":"A","s":1}]}`,
			fields{{"l[B].s", "1", "2"}, {"l[C]", "", `{"s":0,"type":"C"}`}}},
		{"elements in another order", `{"l":[{"name":"a"},{"name":"b"}]}`, `{"l":[{"name":"b"},{"name":"a"}]}`,
			fields{{"l", "", "(other order)"}}},
		{"elements without a name of their own", `{"l":[{"name":"a","x":1},{"name":"a","x":2}]}`,
			`{"l":[{"name":"a","x":1},{"name":"a","x":3}]}`, fields{{"l[1].x", "2", "3"}}},
		{"plain elements, as many as before", `{"l":[1,2]}`, `{"l":[1,3]}`, fields{{"l[1]", "2", "3"}}},
		{"plain elements, more or less than before", `{"l":["a","b","c"]}`, `{"l":["b","c","d","e"]}`,
			fields{{"l", "a", ""}, {"l", "", "d"}, {"l", "", "e"}}},
		{"plain elements that are repeated", `{"l":[1,1]}`, `{"l":[1]}`, fields{{"l[1]", "1", ""}}},
		{"a text with an arrow", `{"a":"1 → 2"}`, `{"a":"3"}`, fields{{"a", `"1 → 2"`, `"3"`}}},
		{"all elements go", `{"l":[{"name":"a"}]}`, `{"l":[]}`, fields{{"l[a]", `{"name":"a"}`, ""}}},
		{"values of Secrets are not shown", `{"kind":"Secret","apiVersion":"v1","data":{"a":"YWJj","b":"YQ=="}}`,
			`{"kind":"Secret","apiVersion":"v1","data":{"a":"eHl6","b":"YWI=","c":"YQ=="}}`, fields{
				{"data.a", "(3 bytes)", "(3 bytes) (changed)"}, {"data.b", "(1 bytes)", "(2 bytes)"},
				{"data.c", "", "(1 bytes)"}}},
		{"nor are what is no map, annotations, and fields that no Secret has",
			`{"kind":"Secret","apiVersion":"v1","data":"SECRET","type":"a","x":{"y":"SECRET"},
				"metadata":{"annotations":{"kapp.k14s.io/original":"SECRET",
				"objectset.rio.cattle.io/applied":"SECRET","a":"SECRET"}}}`,
			`{"kind":"Secret","apiVersion":"v1","data":["SECRET"],"type":"b","x":{"y":"SECRET2"},
				"stringData":{"a":"SECRET"},"metadata":{"x":"SECRET","labels":{"a":"b"},"annotations":{
				"kapp.k14s.io/original":"SECRET2","objectset.rio.cattle.io/applied":"TERCES","b":["SECRET"]}}}`, fields{
				{"metadata.annotations.a", "(6 bytes)", ""}, {"metadata.annotations.b", "", "(hidden)"},
				{"metadata.annotations[kapp.k14s.io/original]", "(6 bytes)", "(7 bytes)"},
				{"metadata.annotations[objectset.rio.cattle.io/applied]", "(6 bytes)", "(6 bytes) (changed)"},
				{"metadata.labels", "", `{"a":"b"}`}, {"metadata.x", "", "(6 bytes)"},
				{"data", "(3 bytes)", "(hidden)"}, {"stringData", "", `{"a":"(6 bytes)"}`}, {"type", "a", "b"},
				{"x", "(hidden)", "(hidden) (changed)"}}},
		{"values of what was a Secret", `{"kind":"Secret","apiVersion":"v1","data":{"a":"SECRET"}}`,
			`{"data":{"a":"x"}}`,
			fields{{"apiVersion", "v1", ""}, {"data.a", "(3 bytes)", "(0 bytes)"}, {"kind", "Secret", ""}}},
	} {
		got := changes.Compare(object(t, c.before), object(t, c.after))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

func event(kind stream.Type, uid, rest string) stream.Event {
	return stream.Event{Type: kind, JSON: json.RawMessage(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"` + uid + `"` + rest)}
}

func TestDiffer(t *testing.T) { synctest.Test(t, testDiffer) }

func testDiffer(t *testing.T) {
	d := changes.NewDiffer()
	const kubectl, kubelet = `{"manager":"kubectl","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{}}`,
		`{"manager":"kubelet","operation":"Update","subresource":"status","time":"2026-01-01T00:00:02Z","fieldsV1":{}}`
	both := `,"managedFields":[` + kubectl + "," + kubelet + `]}`
	later := strings.ReplaceAll(both, "00:00:01Z", "00:01:00Z")
	lost := strings.Replace(strings.ReplaceAll(later, "00:00:02Z", "00:02:00Z"), "{}", `{"f:x":{}}`, 1)
	other := event(stream.Added, "", `},"x":2}`)
	other.JSON = bytes.Replace(other.JSON, []byte(`"name":"a"`), []byte(`"name":"b"`), 1)
	for _, c := range []struct {
		why   string
		ev    stream.Event
		want  changes.Change
		err   bool
		pause time.Duration // before it
	}{
		{"the first event of an object", event(stream.Added, "1", both+`,"x":1}`),
			changes.Change{By: []string{"kubelet (status)"}}, false, 0},
		{"a change", event(stream.Modified, "1", later+`,"x":2}`), changes.Change{
			Fields: []changes.Field{{Path: "x", Old: "1", New: "2"}}, By: []string{"kubectl"}, Known: true}, false, 0},
		{"an object that can't be decoded", event(stream.Modified, "1", later+`,"x":1e999}`), changes.Change{}, true,
			0},
		{"again within the same second", event(stream.Modified, "1", later+`,"x":3}`), changes.Change{
			Fields: []changes.Field{{Path: "x", Old: "2", New: "3"}}, By: []string{"kubectl"}, Known: true}, false, 0},
		{"another manager removes a field", event(stream.Modified, "1", later+`}`), changes.Change{
			Fields: []changes.Field{{Path: "x", Old: "3"}}, Known: true}, false, time.Minute},
		{"a manager loses a field to another", event(stream.Modified, "1", lost+`,"x":4}`), changes.Change{
			Fields: []changes.Field{{Path: "x", New: "4"}}, By: []string{"kubelet (status)"}, Known: true},
			false, time.Minute},
		{"another object of the name", event(stream.Added, "2", `}}`), changes.Change{}, false, 0},
		{"a deletion", event(stream.Deleted, "1", `}}`), changes.Change{Known: true}, false, 0},
		{"nothing is kept of a deleted object", event(stream.Deleted, "1", `}}`), changes.Change{}, false, 0},
		{"an object without a uid", event(stream.Added, "", `},"x":1}`), changes.Change{}, false, 0},
		{"another one without a uid", other, changes.Change{}, false, 0},
	} {
		time.Sleep(c.pause)
		got, err := d.Compare(c.ev)
		if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.err {
			t.Errorf("%s: %v (-want +got):\n%s", c.why, err, diff)
		}
	}
}

// TestCompareAt: a replay at once still knows that two changes were far apart.
func TestCompareAt(t *testing.T) {
	const managed = `,"managedFields":[{"manager":"kubectl","time":"2026-01-01T00:00:01Z"}]}`
	for _, c := range []struct {
		why   string
		later time.Duration
		want  []string
	}{
		{"within a second, the manager may have written again", time.Second, []string{"kubectl"}},
		{"a minute later, another one has removed fields", time.Minute, nil},
	} {
		d, at := changes.NewDiffer(), time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
		if _, err := d.CompareAt(event(stream.Added, "1", managed+`,"x":1}`), at); err != nil {
			t.Fatal(err)
		}
		got, err := d.CompareAt(event(stream.Modified, "1", managed+`}`), at.Add(c.later))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.By); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestDifferHidesSecrets: an object is a Secret if it is one of the resource, whatever it says of itself.
func TestDifferHidesSecrets(t *testing.T) {
	d := changes.NewDiffer()
	var got changes.Change
	for _, value := range []string{"SECRET", "SECRET2"} {
		ev := stream.Event{Type: stream.Modified}
		ev.JSON = json.RawMessage(`{"metadata":{"name":"a","uid":"u"},"x":"` + value + `"}`)
		ev.Resource.Resource = "secrets"
		var err error
		if got, err = d.Compare(ev); err != nil {
			t.Fatal(err)
		}
	}
	want := []changes.Field{{Path: "x", Old: "(6 bytes)", New: "(7 bytes)"}}
	if diff := cmp.Diff(want, got.Fields); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzCompare: two states differ if and only if Compare returns a field.
func FuzzCompare(f *testing.F) {
	f.Add(`{"a":[{"name":"b","c":1}]}`, `{"a":[{"name":"b","c":2}]}`)
	f.Add(`{"metadata":{"labels":{"":""}}}`, `{"metadata":{"labels":null}}`)
	f.Add(`{"l":[{"name":"1"},{"name":1}]}`, `{"l":[{"name":1},{"name":"1"}]}`)
	f.Add(`{"kind":"Secret","apiVersion":"v1","data":5}`, `{"kind":"Secret","apiVersion":"v1","data":{"a":6}}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var before, after map[string]any
		if utiljson.Unmarshal([]byte(a), &before) != nil || utiljson.Unmarshal([]byte(b), &after) != nil {
			return
		}
		if _, ok := before["metadata"]; ok {
			return // its hidden fields are tested in TestCompare
		}
		if _, ok := after["metadata"]; ok {
			return
		}
		fields := changes.Compare(before, after)
		equal := len(before) == len(after) && (len(before) == 0 || reflect.DeepEqual(before, after))
		if equal != (len(fields) == 0) {
			t.Errorf("equal is %v, but the fields are %q", equal, fields)
		}
	})
}

// TestCompareIsBounded: an author of objects chooses how deep they are, how long a key is, and how much changes.
func TestCompareIsBounded(t *testing.T) {
	for _, tt := range []struct {
		why, begin, value, end string
		n, want                int
	}{
		{"a long list, deep within", strings.Repeat(`{"a":`, 98), `{}`, strings.Repeat(`}`, 98), 20_000, 1},
		{"a long list of named elements, deep within", strings.Repeat(`[{"name":"a","a":`, 49), `{}`,
			strings.Repeat(`}]`, 49), 20_000, 1},
		{"many changes", "", `VERSION`, "", 100_000, 1001},
		{"many changes behind a long key", `{"` + strings.Repeat("k", 1<<20) + `":`, `VERSION`, `}`, 500, 501},
	} {
		of := func(version string) (o map[string]any) {
			list := "[" + strings.ReplaceAll(strings.Repeat(tt.value+",", tt.n), "VERSION", version) + version + "]"
			return object(t, `{"metadata":{},"spec":`+tt.begin+list+tt.end+`}`)
		}
		one, two := of("1"), of("2")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := changes.Compare(one, two)
		runtime.ReadMemStats(&after)
		if len(got) != tt.want {
			t.Errorf("%s: want %d fields, got %d", tt.why, tt.want, len(got))
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 40 {
			t.Errorf("%s: it took %d MB", tt.why, mb)
		}
	}
}
