package stream_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// widgetEvent returns a frame as a server writes it. The uid follows from the first letter of name.
func widgetEvent(kind, name, rv, labels string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"example.com/v1","kind":"Widget",`+
		`"metadata":{"name":%q,"namespace":"default","uid":"6f7b6c1e-0000-4000-8000-0000000000%02x",`+
		`"resourceVersion":%q,"labels":{%s}},"spec":{"n":1}}}`+"\n", kind, name, name[0], rv, labels)
}

const red, blue = `"c":"red"`, `"c":"blue"`

func isRed(m stream.Meta) bool { return m.GetLabels()["c"] == "red" }

// rejectedEvents returns n events of one object that isRed rejects, with ascending versions.
func rejectedEvents(n, from int) string {
	var b strings.Builder
	for rv := range n {
		b.WriteString(widgetEvent("MODIFIED", "h", fmt.Sprint(from+rv), blue))
	}
	return b.String()
}

// TestSelectDeliversTheSameOnAllClients: a Stream delivers the same on client-go's client, where Select sees decoded
// objects, and on one of NewClient, where Select sees metadata before the object is decoded.
func TestSelectDeliversTheSameOnAllClients(t *testing.T) {
	labelsLast := func(rv int) string {
		ev := widgetEvent("MODIFIED", "a", fmt.Sprint(rv), red)
		return strings.Replace(ev, `"labels"`, `"managedFields":[{"manager":"m"}],"labels"`, 1)
	}
	late := widgetEvent("ADDED", "r", "100", red)
	for _, tt := range []struct {
		why, want string
		sent      []string
		more      []exchange
	}{
		{"an object that is read before the index has it, and then rejected", "DELETED b/",
			[]string{widgetEvent("ADDED", "a", "6", red) +
				widgetEvent("ADDED", "b", "7", red) + widgetEvent("MODIFIED", "b", "8", blue)}, nil},
		{"duplicate label keys, which the metadata view can't show", "ADDED a/",
			[]string{widgetEvent("ADDED", "a", "6", blue+","+red)}, nil},
		{"duplicate label keys of an object whose events were skipped", "ADDED h/",
			[]string{rejectedEvents(1, 6), widgetEvent("MODIFIED", "h", "7", blue+","+red)}, nil},
		{"older versions, and one with a leading zero", "ADDED c/",
			[]string{rejectedEvents(1, 6), widgetEvent("ADDED", "a", "7", red), widgetEvent("ADDED", "b", "07", red),
				widgetEvent("ADDED", "c", "20", red), widgetEvent("MODIFIED", "h", "15", blue)}, nil},
		{"two events on one line", "ADDED r/",
			[]string{rejectedEvents(40, 6) + strings.TrimSuffix(rejectedEvents(1, 50), "\n") + late}, nil},
		{"one event on two lines", "ADDED r/", []string{rejectedEvents(40, 6) +
			strings.Replace(rejectedEvents(1, 50), `{"n":1}}}`, `{"n":{"a":1}}`+"\n"+`,"status":{}}}`, 1) + late}, nil},
		{"one event on two lines, which arrive separately", "ADDED r/",
			[]string{rejectedEvents(40, 6) + strings.Replace(rejectedEvents(1, 50), `,"spec"`, "\n", 1)[:150],
				rejectedEvents(1, 50)[150:] + late}, nil},
		{"some events have their fields in another order", "MODIFIED a/6f7b6c1e-0000-4000-8000-000000000061@47",
			[]string{labelsLast(6) + strings.ReplaceAll(rejectedEvents(40, 7), blue, red) + labelsLast(47)}, nil},
		{"watches close after skipped events", "ADDED r/", []string{rejectedEvents(3, 6)}, []exchange{
			{"watch 8", watch("raw "+rejectedEvents(1, 9), "wait 1s")}, {"watch 9", watch("raw "+late, "open")}}},
		{"IdleTimeout counts from the last event, skipped or not", "GAP expired from 3000 to 4000",
			[]string{rejectedEvents(2990, 6), rejectedEvents(1, 3000)}, []exchange{
				{"watch 3000", watch("ERROR 410 Expired")}, {"list", list("4000", "")}, {"watch 4000", watch("open")}}},
	} {
		for _, checkpointed := range []bool{false, true} {
			got := runTwins(t, func() *twin {
				var frames []string
				for _, text := range tt.sent {
					frames = append(frames, "raw "+text, "wait 2s")
				}
				if tt.more == nil || len(tt.sent) > 1 {
					frames = append(frames, "open")
				}
				w := &twin{settings: tt.why, o: setup{Options: stream.Options{Select: isRed, Trace: &stream.Trace{},
					Requests: stream.Requests{PagedLists: true, IdleTimeout: 10 * time.Second}}}}
				exchanges := []exchange{{"list", list("5", "")}, {"watch 5", watch(frames...)}}
				w.RoundTripper = &script{t: t, exchanges: append(exchanges, tt.more...)}
				if checkpointed {
					w.store = &checkpoint.Memory{}
				}
				return w
			}, variants()[0], 29*time.Second)
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s (checkpoint: %v): want %s, got %.1000s", tt.why, checkpointed, tt.want, got)
			}
		}
	}
}

// TestMetaIsEmptyAfterSelect: a Meta that Select retains, against its contract, shows no metadata of any object.
func TestMetaIsEmptyAfterSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var retained []stream.Meta
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")},
			{"watch 5", watch("raw "+widgetEvent("ADDED", "a", "6", red)+widgetEvent("ADDED", "b", "7", red), "open")}}}
		o := setup{Options: stream.Options{Select: func(m stream.Meta) bool {
			retained = append(retained, m)
			return isRed(m)
		}}}
		record(t, newStream(t, variants()[0].client(t, sc), &o), 20*time.Second)
		for i, m := range retained {
			if m.GetName() != "" {
				t.Errorf("%d: a retained Meta shows the name %q", i, m.GetName())
			}
		}
	})
}

// endless answers a watch with rejected events until the client closes it: all of one object if known, each of a new
// one otherwise.
func endless(known bool) answer {
	return func(r *http.Request) (*http.Response, error) {
		if describe(r) == "list" {
			return list("5", "")(r)
		}
		pr, pw := io.Pipe()
		go func() {
			for n := 10; ; n++ {
				name := "h"
				if !known {
					name = fmt.Sprint("h", n)
				}
				if _, err := io.WriteString(pw, widgetEvent("MODIFIED", name, fmt.Sprint(n), blue)); err != nil {
					return
				}
			}
		}()
		return respond(200, pr)
	}
}

// Stop ends a run even while the watch sends nothing else, and a panic in Select reaches the caller.
func TestStopEndsEndlessRejectedEvents(t *testing.T) {
	for n := range 16 {
		known, checkpointed, several, how := n&1 > 0, n&2 > 0, n&4 > 0, []string{"stop", "panic"}[n>>3]
		var asked atomic.Int64
		var s *running
		o := setup{Options: stream.Options{Select: func(m stream.Meta) bool {
			if asked.Add(1) == 1000 {
				if how == "panic" {
					panic("mine")
				}
				go s.Stop()
			}
			return false
		}, Requests: stream.Requests{PagedLists: true}}}
		if several {
			o.Namespaces = []string{"default", "two"}
		}
		if checkpointed {
			o.Checkpoint = newTracker(t, &checkpoint.Memory{}, checkpoint.Options{})
			defer o.Checkpoint.Close()
		}
		s = newStream(t, variants()[0].client(t, &script{t: t, exchanges: []exchange{{"", endless(known)}}}), &o)
		panicked := recoverFrom(func() {
			for range s.Events(t.Context()) {
			}
		})
		if (panicked == "mine") != (how == "panic") {
			t.Errorf("%s: the loop panicked with %v", how, panicked)
		}
	}
}
