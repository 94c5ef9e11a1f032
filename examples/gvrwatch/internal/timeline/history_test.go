package timeline

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

var robots = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "robots"},
	Kind:                 "Robot", Namespaced: true,
}

func at(seconds int) time.Time { return three.Add(time.Duration(seconds) * time.Second) }

func run(seconds int, start recording.Start, types ...string) recording.Entry {
	return recording.Entry{Time: at(seconds), Run: &recording.Header{
		Server: "https://a:6443", Start: start, Selection: recording.Selection{Types: types},
	}}
}

// robot is an event of a robot in the namespace shop, whose manager wrote when it has its version.
func robot(seconds int, t stream.Type, name string, version, battery int) recording.Entry {
	return recording.Entry{Time: at(seconds), Event: stream.Event{
		Type: t, Resource: robots, ResourceVersion: fmt.Sprint(version), JSON: fmt.Appendf(nil,
			`{"apiVersion":"demo.example.com/v1","kind":"Robot","metadata":{"name":%q,"namespace":"shop","uid":%q,
			"resourceVersion":"%d","managedFields":[{"manager":"m%d","time":"2026-01-01T00:00:%02dZ"}]},
			"spec":{"battery":%d}}`, name, "uid-"+name, version, version, version, battery),
	}}
}

func control(seconds int, t stream.Type, gap *stream.GapDetails) recording.Entry {
	return recording.Entry{Time: at(seconds), Event: stream.Event{Type: t, Resource: robots, Gap: gap}}
}

func inferredOf(e recording.Entry) recording.Entry {
	e.Event.Inferred = true
	return e
}

func entries(list ...recording.Entry) iter.Seq2[recording.Entry, error] {
	return func(yield func(recording.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestOf(t *testing.T) {
	battery := func(old, now string) []changes.Field {
		return []changes.Field{{Path: "spec.battery", Old: old, New: now}}
	}
	rows := func(marks ...[]Mark) (list []Object) {
		for i, m := range marks {
			list = append(list, Object{"robots.demo.example.com", "shop", string(rune('a' + i)), m})
		}
		return list
	}
	const snapshot, synced, added, modified, deleted = recording.Snapshot, stream.Synced, stream.Added, stream.Modified,
		stream.Deleted
	page := func(to int, gaps []Gap, objects []Object) Page {
		return Page{"x.rec", "https://a:6443", "robots", at(0), at(to), gaps, objects}
	}
	compared := "Nobody recorded. What had changed was seen by a comparison afterwards."
	for _, c := range []struct {
		why     string
		options Options
		entries []recording.Entry
		want    Page
	}{
		{"what is in the first snapshot existed before, what is added later is created", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), control(2, synced, nil), robot(3, added, "b", 2, 6),
			robot(4, modified, "a", 3, 7), robot(5, deleted, "b", 4, 6), {Time: at(60)},
		}, page(60, nil, rows(
			[]Mark{{Time: at(1)}, {Time: at(4), Kind: Changed, Fields: battery("5", "7"), By: []string{"m3"}}},
			[]Mark{{Time: at(3), Kind: Created, By: []string{"m2"}}, {Time: at(5), Kind: Deleted}}))},
		{"between runs nobody recorded: a snapshot is compared with what was known", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), robot(1, added, "b", 1, 5), control(2, synced, nil),
			run(100, snapshot, "robots"), robot(101, added, "a", 2, 6), robot(101, added, "c", 3, 7),
			control(102, synced, nil), robot(103, added, "d", 4, 1),
		}, page(103, []Gap{{From: at(2), To: at(100), Reason: compared}}, rows(
			[]Mark{{Time: at(1)},
				{Time: at(101), Kind: Changed, Inferred: true, Fields: battery("5", "6"), By: []string{"m2"}}},
			[]Mark{{Time: at(1)}, {Time: at(102), Kind: Deleted, Inferred: true}},
			[]Mark{{Time: at(101), Kind: Created, Inferred: true, By: []string{"m3"}}},
			[]Mark{{Time: at(103), Kind: Created, By: []string{"m4"}}}))},
		{"a run that resumes has all events, delivered later", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), control(2, synced, nil),
			run(100, recording.Resumed, "robots"), control(100, synced, nil), robot(101, added, "a", 2, 6),
		}, page(101, []Gap{{From: at(2), To: at(100),
			Reason: "Nobody recorded. What happened was delivered afterwards."}},
			rows([]Mark{{Time: at(101), Kind: Created, By: []string{"m2"}}}))},
		{"a run with later changes only does not know the state before", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), control(2, synced, nil),
			run(100, recording.Later, "robots"), control(100, synced, nil), robot(101, modified, "b", 2, 6),
			robot(102, added, "c", 2, 6),
		}, page(102, []Gap{{From: at(2), To: at(100), Forgets: true,
			Reason: "Nobody recorded. What happened until then is not known."}},
			rows([]Mark{{Time: at(1)}},
				[]Mark{{Time: at(101), Kind: Changed, Note: "Its state before is not known.", By: []string{"m2"}}},
				[]Mark{{Time: at(102), Kind: Created, By: []string{"m2"}}}))},
		{"what another selection has in its snapshot existed, or has changed", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), robot(1, added, "b", 1, 5), control(2, synced, nil),
			run(100, snapshot, "robots", "planets"), robot(101, added, "a", 2, 6), robot(101, added, "b", 1, 5),
			robot(101, added, "c", 3, 5),
		}, Page{"x.rec", "https://a:6443", "robots, then robots,planets", at(0), at(101), []Gap{{
			From: at(2), To: at(100), Forgets: true,
			Reason: "Nobody recorded. Afterwards something else was watched, so what was deleted until then " +
				"is not known.",
		}},
			rows([]Mark{{Time: at(1)},
				{Time: at(101), Kind: Changed, Inferred: true, Fields: battery("5", "6"), By: []string{"m2"}}},
				[]Mark{{Time: at(1)}, {Time: at(101)}}, []Mark{{Time: at(101)}})}},
		{"a gap begins when the stream last was up to date, and ends with SYNCED", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), control(2, synced, nil), control(100, stream.Gap, &stream.GapDetails{
				Reason: stream.GapExpired, Duration: 10 * time.Second, HistoryLost: true,
			}), inferredOf(robot(105, added, "a", 2, 6)), control(110, synced, nil), {Time: at(111)},
		}, page(111, []Gap{{From: at(90), To: at(110), Type: "robots.demo.example.com",
			Reason: "Events are lost: the server no longer had the events (expired). Only differences are known. " +
				"What was deleted is not known."}},
			rows([]Mark{{Time: at(105), Kind: Created, Inferred: true, By: []string{"m2"}}}))},
		{"an event of which nothing is shown, and an object that can't be decoded", Options{}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), control(2, synced, nil),
			robot(3, modified, "a", 1, 5),
			func() recording.Entry {
				e := robot(4, modified, "a", 2, 5)
				e.Event.JSON = []byte(`{"metadata":{"name":"a","namespace":"shop","uid":"uid-a"},"x":1e999}`)
				return e
			}(),
		}, page(4, nil, rows([]Mark{{Time: at(1)},
			{Time: at(3), Kind: Changed, Note: "No change but its resourceVersion."},
			{Time: at(4), Kind: Changed, Note: "The server sent an object that can't be decoded."}}))},
		{"only some events", Options{Only: "a", Keep: func(ev stream.Event) bool { return ev.Meta().GetName() == "a" }},
			[]recording.Entry{
				run(0, snapshot, "robots"), robot(1, added, "b", 1, 5), robot(1, added, "a", 1, 5),
				control(2, stream.Gap, &stream.GapDetails{Reason: stream.GapExpired}),
			}, Page{
				"x.rec", "https://a:6443", "robots, of that only a", at(0), at(2), nil, rows([]Mark{{Time: at(1)}}),
			}},
		{"only objects that were deleted, and when they existed", Options{Kinds: []Kind{Deleted}}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), robot(1, added, "b", 1, 5), control(2, synced, nil),
			robot(60, modified, "a", 2, 6), robot(61, deleted, "a", 3, 6),
		}, page(61, nil, rows([]Mark{{Time: at(1)}, {Time: at(61), Kind: Deleted}}))},
		{"only objects that changed", Options{Kinds: []Kind{Changed}}, []recording.Entry{
			run(0, snapshot, "robots"), robot(1, added, "a", 1, 5), robot(1, added, "b", 1, 5), control(2, synced, nil),
			robot(60, modified, "a", 2, 6),
		}, page(60, nil, rows(
			[]Mark{{Time: at(1)}, {Time: at(60), Kind: Changed, Fields: battery("5", "6"), By: []string{"m2"}}}))},
		{"no events", Options{}, []recording.Entry{run(0, snapshot, "robots"), {Time: at(9)}}, page(9, nil, nil)},
	} {
		c.options.Title = "x.rec"
		got, err := Of(recording.Changes(entries(c.entries...)), c.options)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestOfKeepsLittle: values are cut when they arrive, not when the page is written.
func TestOfKeepsLittle(t *testing.T) {
	list := []recording.Entry{run(0, recording.Snapshot, "robots"), robot(1, stream.Added, "a", 1, 5)}
	e := robot(2, stream.Modified, "a", 2, 6)
	e.Event.JSON = fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":"shop","uid":"uid-a"},"x":%q,"y":%q}`,
		make([]byte, 1000), make([]byte, 1000))
	p, err := Of(entries(append(list, e)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Objects[0].Marks[1].Fields {
		if len(f.New) > 2*maxValue {
			t.Errorf("%s has %d bytes", f.Path, len(f.New))
		}
	}
}

func TestOfReturnsErrors(t *testing.T) {
	broken := func(yield func(recording.Entry, error) bool) { yield(recording.Entry{}, errFull) }
	if _, err := Of(broken, Options{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

// TestSelection: the page's title says what was watched.
func TestSelection(t *testing.T) {
	got := selectionOf(recording.Selection{Types: []string{"pods", "*.example.com"}, Exclude: []string{"gadgets"},
		Namespaces: []string{"a", "b"}, LabelSelector: "x=y", FieldSelector: "z=1", MetadataOnly: true})
	want := "pods,*.example.com without gadgets in a,b labels x=y fields z=1, metadata only"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
