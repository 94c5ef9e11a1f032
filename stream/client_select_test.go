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

// widgetEvent is a frame as a server writes it; the uid goes by the name.
func widgetEvent(kind, name, rv, labels string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"example.com/v1","kind":"Widget",`+
		`"metadata":{"name":%q,"namespace":"default","uid":"6f7b6c1e-0000-4000-8000-0000000000%02x",`+
		`"resourceVersion":%q,"labels":{%s}},"spec":{"n":1}}}`+"\n", kind, name, name[0], rv, labels)
}

const red, blue = `"c":"red"`, `"c":"blue"`

func isRed(m stream.Meta) bool { return m.GetLabels()["c"] == "red" }

// events are so many of an object that is not wanted, from a version on.
func events(n, from int) string {
	var b strings.Builder
	for rv := range n {
		b.WriteString(widgetEvent("MODIFIED", "h", fmt.Sprint(from+rv), blue))
	}
	return b.String()
}

// TestSelectAsStock: what a Stream delivers is the same on client-go's client, where
// Select is asked about objects, and on ours, where it is asked about metadata.
func TestSelectAsStock(t *testing.T) {
	turned := func(rv int) string { // the labels come last
		ev := widgetEvent("MODIFIED", "a", fmt.Sprint(rv), red)
		return strings.Replace(ev, `"labels"`, `"managedFields":[{"manager":"m"}],"labels"`, 1)
	}
	late := widgetEvent("ADDED", "r", "100", red)
	for _, tt := range []struct {
		why, want string
		sent      []string
		more      []exchange
	}{
		{"an object that was read ahead of the index ends with all that it had", "DELETED b/",
			[]string{widgetEvent("ADDED", "a", "6", red) +
				widgetEvent("ADDED", "b", "7", red) + widgetEvent("MODIFIED", "b", "8", blue)}, nil},
		{"repeated labels, of which the metadata view knows nothing", "ADDED a/",
			[]string{widgetEvent("ADDED", "a", "6", blue+","+red)}, nil},
		{"repeated labels of what was passed by", "ADDED h/",
			[]string{events(1, 6), widgetEvent("MODIFIED", "h", "7", blue+","+red)}, nil},
		{"versions of the past, and one that is none", "ADDED c/",
			[]string{events(1, 6), widgetEvent("ADDED", "a", "7", red), widgetEvent("ADDED", "b", "07", red),
				widgetEvent("ADDED", "c", "20", red), widgetEvent("MODIFIED", "h", "15", blue)}, nil},
		{"two on a line", "ADDED r/", []string{events(40, 6) + strings.TrimSuffix(events(1, 50), "\n") + late}, nil},
		{"one on two lines", "ADDED r/", []string{events(40, 6) +
			strings.Replace(events(1, 50), `{"n":1}}}`, `{"n":{"a":1}}`+"\n"+`,"status":{}}}`, 1) + late}, nil},
		{"one on two lines that come one after the other", "ADDED r/",
			[]string{events(40, 6) + strings.Replace(events(1, 50), `,"spec"`, "\n", 1)[:150],
				events(1, 50)[150:] + late}, nil},
		{"fields in another order, now and then", "MODIFIED a/6f7b6c1e-0000-4000-8000-000000000061@47",
			[]string{turned(6) + strings.ReplaceAll(events(40, 7), blue, red) + turned(47)}, nil},
		{"watches that end", "ADDED r/", []string{events(3, 6)},
			[]exchange{{"watch 8", watch("raw "+events(1, 9), "wait 1s")}, {"watch 9", watch("raw "+late, "open")}}},
		{"silence, which counts from the last event that came", "GAP expired from 3000 to 4000",
			[]string{events(2990, 6), events(1, 3000)}, []exchange{
				{"watch 3000", watch("ERROR 410 Expired")}, {"list", list("4000", "")}, {"watch 4000", watch("open")}}},
	} {
		for _, checked := range []bool{false, true} {
			got := runTwins(t, func() *twin {
				var words []string
				for _, text := range tt.sent {
					words = append(words, "raw "+text, "wait 2s")
				}
				if tt.more == nil || len(tt.sent) > 1 {
					words = append(words, "open")
				}
				w := &twin{how: tt.why, o: stream.Options{Select: isRed, IdleTimeout: 10 * time.Second,
					Trace: &stream.Trace{}}}
				w.RoundTripper = &script{t: t, exchanges: append([]exchange{{"list", list("5", "")},
					{"watch 5", watch(words...)}},
					tt.more...)}
				if checked {
					w.store = checkpoint.NewMemory()
				}
				return w
			}, variants()[0], 29*time.Second)
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s (checkpoint: %v): want %s, got %.1000s", tt.why, checked, tt.want, got)
			}
		}
	}
}

// TestSelectKeepsMeta: who does so against the rules sees nothing there.
func TestSelectKeepsMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []stream.Meta
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")},
			{"watch 5", watch("raw "+widgetEvent("ADDED", "a", "6", red)+widgetEvent("ADDED", "b", "7", red), "open")}}}
		o := stream.Options{Select: func(m stream.Meta) bool { kept = append(kept, m); return isRed(m) }}
		record(t, newStream(t, variants()[0].client(t, sc), &o), 20*time.Second)
		for i, m := range kept {
			if m.GetName() != "" {
				t.Errorf("%d: what was kept against the rules shows %q (its Decoder is in the pool,"+
					" or another watch's)", i, m.GetName())
			}
		}
	})
}

// endless sends unwanted events without an end.
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

// TestSelectInFlood: a flood of what is not wanted ends when it is to, also by a panic
// in Select, which the loop passes on.
func TestSelectInFlood(t *testing.T) {
	for n := range 16 {
		known, checked, several, how := n&1 > 0, n&2 > 0, n&4 > 0, []string{"stop", "panic"}[n>>3]
		var asked atomic.Int64
		var s *stream.Stream
		o := stream.Options{InitialList: stream.ListPaged, Select: func(m stream.Meta) bool {
			if asked.Add(1) == 1000 {
				if how == "panic" {
					panic("mine")
				}
				go s.Stop()
			}
			return false
		}}
		if several {
			o.Namespaces = []string{"default", "two"}
		}
		if checked {
			o.Checkpoint = newTracker(t, checkpoint.NewMemory(), checkpoint.Options{})
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
