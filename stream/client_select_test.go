package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

func (s *script) ours(o *stream.ClientOptions) dynamic.Interface {
	c, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: s, QPS: -1}, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// widgetEvent is a frame as a server writes it; the uid goes by the name.
func widgetEvent(kind, name, rv, labels string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q,"namespace":"default","uid":"6f7b6c1e-0000-4000-8000-0000000000%02x","resourceVersion":%q,"labels":{%s}},"spec":{"n":1}}}`+"\n", kind, name, name[0], rv, labels)
}

func isRed(m stream.Meta) bool { return m.GetLabels()["c"] == "red" }

// fully is what a Stream tells, with the objects, and where it is at each event.
func fully(t *testing.T, s *stream.Stream, d time.Duration) (got []string) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errTimeUp)
	defer cancel()
	for ev, err := range s.Events(ctx) {
		if err != nil {
			if !errors.Is(err, errTimeUp) {
				got = append(got, err.Error())
			}
			break
		}
		line := text(ev)
		if ev.Object != nil {
			line += fmt.Sprint(" ", ev.Object.Object)
		}
		p := s.Position()
		got = append(got, line+" st="+s.Status().ResourceVersion+" pos="+fmt.Sprint(p.ResourceVersions))
		ev.Ack()
	}
	got = append(got, "end st="+s.Status().ResourceVersion+" pos="+fmt.Sprint(s.Position().ResourceVersions))
	return got
}

// bothTell is what a Stream tells on client-go's client and on ours.
func bothTell(t *testing.T, o stream.Options, co *stream.ClientOptions, check bool, ex func() []exchange) (want, got []string) {
	t.Helper()
	run := func(ours bool) (out []string) {
		synctest.Test(t, func(t *testing.T) {
			o := o
			if check {
				store := checkpoint.NewMemory()
				tr, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				o.Checkpoint = tr
			}
			sc := &script{t: t, exchanges: ex()}
			var c dynamic.Interface
			if ours {
				c = sc.ours(co)
			} else {
				c = sc.client()
			}
			out = fully(t, newStream(t, c, &o), 30*time.Second)
		})
		return out
	}
	want, got = run(false), run(true)
	return want, got
}

// TestSelectTellsWholeObjects: what was read ahead for a checkpoint is not in the
// index yet, but its end has to be told with all that it had.
func TestSelectTellsWholeObjects(t *testing.T) {
	want, got := bothTell(t, stream.Options{Select: isRed}, nil, true, func() []exchange {
		return []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+
			widgetEvent("ADDED", "a", "6", `"c":"red"`)+widgetEvent("ADDED", "b", "7", `"c":"red"`)+widgetEvent("MODIFIED", "b", "8", `"c":"blue"`), "open")}}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestSelectAndRepeatedLabels: what could not be seen without decoding is no answer.
func TestSelectAndRepeatedLabels(t *testing.T) {
	want, got := bothTell(t, stream.Options{Select: isRed}, nil, false, func() []exchange {
		return []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+widgetEvent("ADDED", "a", "6", `"c":"blue","c":"red"`), "open")}}
	})
	if d := cmp.Diff(want, got); d != "" || !strings.Contains(strings.Join(got, "\n"), "ADDED") {
		t.Errorf("%q %s", got, d)
	}
}

// TestSelectAndOldVersions: an event of the past passes nothing by.
func TestSelectAndOldVersions(t *testing.T) {
	want, got := bothTell(t, stream.Options{Select: isRed}, nil, false, func() []exchange {
		return []exchange{{"list", list("5", "")}, {"watch 5", watch(
			"raw "+widgetEvent("ADDED", "h", "6", `"c":"blue"`), "wait 1s",
			"raw "+widgetEvent("ADDED", "a", "7", `"c":"red"`), "wait 1s",
			"raw "+widgetEvent("ADDED", "b", "07", `"c":"red"`), "wait 1s",
			"raw "+widgetEvent("ADDED", "c", "20", `"c":"red"`), "wait 1s",
			"raw "+widgetEvent("MODIFIED", "h", "15", `"c":"blue"`), "wait 1s", "open")}}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestSelectSeesNothingDropped: neither in a list nor in a watch, or the one would
// contradict the other.
func TestSelectSeesNothingDropped(t *testing.T) {
	for _, drop := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}} {
		o := stream.Options{Select: isRed}
		if drop[1] == "annotations" {
			o.Select = func(m stream.Meta) bool { return m.GetAnnotations()["c"] == "red" }
		}
		red := strings.Replace(strings.TrimSuffix(widgetEvent("ADDED", "a", "6", `"c":"red"`), "\n"), `"labels"`, `"`+drop[1]+`"`, 1)
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+red+"\n", "wait 3s", "ERROR 410 Expired")},
				{"list", func(r *http.Request) (*http.Response, error) {
					o := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a", "namespace": "default", "uid": "6f7b6c1e-0000-4000-8000-000000000061", "resourceVersion": "6", drop[1]: map[string]any{"c": "red"}}}
					return respondJSON(200, map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList", "items": []any{o}, "metadata": map[string]any{"resourceVersion": "9"}})
				}}, {"watch 9", watch("open")}}}
			got := record(t, newStream(t, sc.ours(&stream.ClientOptions{Drop: [][]string{drop}}), &o), 20*time.Second)
			for _, line := range got {
				if strings.Contains(line, "DELETED") {
					t.Errorf("%v: nothing was deleted, nor changed: %q", drop, got)
				}
			}
		})
	}
}

// TestSelectAndFrames: what was passed by was a frame all the same.
func TestSelectAndFrames(t *testing.T) {
	counts := map[bool][]int{}
	for _, ours := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@1")}, {"watch 5", watch(
				"raw "+widgetEvent("ADDED", "h", "6", `"c":"blue"`)+widgetEvent("MODIFIED", "h", "7", `"c":"blue"`)+widgetEvent("MODIFIED", "h", "8", `"c":"blue"`), "wait 3s")}, {"watch 8", watch("open")}}}
			c := sc.client()
			if ours {
				c = sc.ours(nil)
			}
			o := stream.Options{Select: isRed, Trace: &stream.Trace{WatchClosed: func(e stream.WatchEnd) { counts[ours] = append(counts[ours], e.Frames) }}}
			record(t, newStream(t, c, &o), 20*time.Second)
		})
	}
	if d := cmp.Diff(counts[false], counts[true]); d != "" {
		t.Error(d)
	}
}

// TestSelectKeepsMeta: who does so against the rules sees nothing there.
func TestSelectKeepsMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []stream.Meta
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+
			widgetEvent("ADDED", "a", "6", `"c":"red"`)+widgetEvent("ADDED", "b", "7", `"c":"red"`), "open")}}}
		o := stream.Options{Select: func(m stream.Meta) bool { kept = append(kept, m); return isRed(m) }}
		record(t, newStream(t, sc.ours(nil), &o), 20*time.Second)
		for i, m := range kept {
			if m.GetName() != "" {
				t.Errorf("%d: what was kept against the rules shows %q (its Decoder is in the pool, or another watch's)", i, m.GetName())
			}
		}
	})
}

// endless sends unwanted events without an end.
func endless(known bool) answer {
	return func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		go func() {
			for n := 10; ; n++ {
				name := "h"
				if !known {
					name = fmt.Sprint("h", n)
				}
				if _, err := io.WriteString(pw, widgetEvent("MODIFIED", name, fmt.Sprint(n), `"c":"blue"`)); err != nil {
					return
				}
			}
		}()
		return respond(200, pr)
	}
}

// TestSelectInFlood: a flood of what is not wanted ends when it is to.
func TestSelectInFlood(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, check := range []bool{false, true} {
			for _, how := range []string{"stop", "cancel", "deadline"} {
				var s *stream.Stream
				o := stream.Options{Select: isRed, InitialList: stream.ListPaged}
				if check {
					tr, err := checkpoint.NewTracker(checkpoint.NewMemory(), &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
					if err != nil {
						t.Fatal(err)
					}
					defer tr.Close()
					o.Checkpoint = tr
				}
				sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", endless(known)}}}
				s = newStream(t, sc.ours(nil), &o)
				ctx, cancel := context.WithCancel(t.Context())
				if how == "deadline" {
					ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
				}
				time.AfterFunc(100*time.Millisecond, func() {
					switch how {
					case "stop":
						s.Stop()
					case "cancel":
						cancel()
					}
				})
				for range s.Events(ctx) {
				}
				cancel()
			}
		}
	}
}

// TestSelectThenSilence: IdleTimeout counts from the last event, wanted or not, and a
// GAP begins there.
func TestSelectThenSilence(t *testing.T) {
	var raw string
	for n := 6; n < 3000; n++ {
		raw += widgetEvent("MODIFIED", "h", fmt.Sprint(n), `"c":"blue"`)
	}
	want, got := bothTell(t, stream.Options{Select: isRed, IdleTimeout: 10 * time.Second}, nil, false, func() []exchange {
		return []exchange{{"list", list("5", "")},
			{"watch 5", watch("raw "+raw, "wait 5s", "raw "+widgetEvent("MODIFIED", "h", "3000", `"c":"blue"`), "open")},
			{"probe", list("3000", "")}, {"watch 3000", watch("ERROR 410 Expired")}, {"list", list("4000", "")}, {"watch 4000", watch("open")}}
	})
	if d := cmp.Diff(want, got); d != "" || !strings.Contains(strings.Join(got, "\n"), "GAP expired from 3000 to 4000") {
		t.Errorf("%q %s", got, d)
	}
}

// TestSelectPanics: the loop passes it on, and leaves nothing behind.
func TestSelectPanics(t *testing.T) {
	for _, o := range []stream.Options{{}, {Namespaces: []string{"default", "two"}}} {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("the loop panicked with %v", p)
				}
			}()
			sc := &script{t: t, exchanges: []exchange{{"", func(r *http.Request) (*http.Response, error) {
				if describe(r) == "list" {
					return list("5", "")(r)
				}
				return endless(true)(r)
			}}}}
			o.InitialList = stream.ListPaged
			o.Select = func(m stream.Meta) bool {
				if m.GetResourceVersion() == "1000" {
					panic("mine")
				}
				return false
			}
			for range newStream(t, sc.ours(nil), &o).Events(t.Context()) {
			}
		})
	}
}

// TestSelectAndOddOrder: a server whose objects seldom have managedFields, and not
// at the end of their metadata.
func TestSelectAndOddOrder(t *testing.T) {
	want, got := bothTell(t, stream.Options{Select: isRed}, nil, false, func() []exchange {
		var raw string
		for n := 6; n < 46; n++ {
			raw += widgetEvent("MODIFIED", "a", fmt.Sprint(n), `"c":"red"`)
		}
		raw += `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"default","uid":"6f7b6c1e-0000-4000-8000-000000000061","resourceVersion":"46","managedFields":[{"manager":"m"}],"labels":{"c":"red"}}}}` + "\n"
		return []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+raw, "open")}}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
