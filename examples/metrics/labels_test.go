package metrics_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/metrics"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestStreamsOfOneResourceShareTheirSeries: two Streams, one of two namespaces, are one value of the label.
func TestStreamsOfOneResourceShareTheirSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods)
		defer srv.Close()
		srv.Put(pods, "a", "one")
		srv.Put(pods, "c", "two")
		m := metrics.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		both := newStream(t, m, srv, pods, &stream.Options{Namespaces: []string{"a", "b"}})
		rest := newStream(t, m, srv, pods, &stream.Options{Namespaces: []string{"c"}, LabelSelector: "no=such"})
		x, err := mux.New(nil, rest)
		if err != nil {
			t.Fatal(err)
		}
		m.Watch(both)
		remove := m.Watch(x)
		go drain(m.Count(both.Events(ctx)))
		go drain(m.Count(x.Events(ctx)))
		synctest.Wait()
		for _, want := range []struct{ metric, value string }{
			{`gvrwatch_state{resource="pods",state="Streaming"}`, "3"},
			{`gvrwatch_objects{resource="pods"}`, "1"},
			{`gvrwatch_synced{resource="pods"}`, "1"},
			{`gvrwatch_events_total{resource="pods",type="SYNCED"}`, "2"},
			{`reflector_watches_total{resource="pods"}`, "3"},
			{`gvrwatch_queued_events{resource="pods"}`, "0"},
		} {
			if got := value(t, m, want.metric); got != want.value {
				t.Errorf("%s is %q, want %q", want.metric, got, want.value)
			}
		}
		x.Remove(rest.Key())
		if got := value(t, m, `gvrwatch_state{resource="pods",state="Streaming"}`); got != "2" {
			t.Errorf("%q watches after a Stream was removed, want 2", got)
		}
		remove()
		if got := value(t, m, `gvrwatch_queued_events{resource="pods"}`); got != "" {
			t.Errorf("the queue of a Mux that is no longer watched: %q", got)
		}
		if got := value(t, m, `reflector_watches_total{resource="pods"}`); got != "3" {
			t.Errorf("the counter of watches is %q after Streams were removed, want 3", got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestTraceOfTheCallerIsCalled: Instrument keeps the callbacks of the caller, and sets no FrameReceived.
func TestTraceOfTheCallerIsCalled(t *testing.T) {
	var got []string
	mine := &stream.Trace{RequestDone: func(r stream.Request) { got = append(got, r.Verb) }}
	m := metrics.New()
	o := m.Instrument(pods, &stream.Options{Requests: stream.Requests{PageSize: 7}, Trace: mine})
	o.Trace.RequestDone(stream.Request{Verb: "watch"})
	o.Trace.WatchClosed(stream.Request{Verb: "watch"})
	if diff := cmp.Diff([]string{"watch"}, got); diff != "" || o.Requests.PageSize != 7 {
		t.Errorf("page size %d, (-want +got):\n%s", o.Requests.PageSize, diff)
	}
	if mine.WatchClosed != nil {
		t.Error("the caller's Trace was changed")
	}
	for _, metric := range []string{"reflector_watches_total", "reflector_short_watches_total"} {
		if v := value(t, m, metric+`{resource="pods"}`); v != "1" {
			t.Errorf("%s is %q, want 1", metric, v)
		}
	}
	if m.Instrument(pods, nil).Trace.FrameReceived != nil {
		t.Error("FrameReceived is set, which makes a Stream with Select slower")
	}
}

// TestLabelsAreBounded: neither the number of values nor their text depends on what others define.
func TestLabelsAreBounded(t *testing.T) {
	m := metrics.New()
	for i := range 3000 {
		r := resource("example.com", fmt.Sprint("r", i), "R")
		m.Instrument(r, nil).Trace.RequestDone(stream.Request{Verb: "list"})
	}
	ev := stream.Event{Type: "NEW", Gap: &stream.GapDetails{Reason: "new"}}
	x, err := mux.New(nil, delivering{"\xff" + strings.Repeat("é", 1000), ev})
	if err != nil {
		t.Fatal(err)
	}
	drain(m.Count(x.Events(t.Context())))
	all := text(t, m)
	if n := strings.Count(all, "\nreflector_lists_total{"); n != 2001 {
		t.Errorf("%d values of the label, want 2,000 and other", n)
	}
	for _, want := range []string{
		`gvrwatch_events_total{resource="other",type="other"} 1`,
		`gvrwatch_gaps_total{history_lost="false",reason="other",resource="other"} 1`,
		`reflector_lists_total{resource="other"} 1000`,
	} {
		if !strings.Contains(all, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	m = metrics.New()
	drain(m.Count(x.Events(t.Context())))
	if n := strings.Count(text(t, m), "é"); n != 3*159 {
		t.Errorf("%d letters of the key in three metrics, want 159 in each", n)
	}
}

// delivering is a mux.Source without a Status. It delivers one event.
type delivering struct {
	key   string
	event stream.Event
}

func (d delivering) Key() string { return d.key }

func (d delivering) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) { yield(d.event, nil) }
}

// TestHostileSources: nil, zero and unknown sources cause no panic, and are not ready.
func TestHostileSources(t *testing.T) {
	for _, test := range []struct {
		why    string
		source metrics.Source
	}{
		{"nil", nil},
		{"a nil Stream", (*stream.Stream)(nil)},
		{"a nil Sequence", (*stream.Sequence)(nil)},
		{"a nil Mux", (*mux.Mux)(nil)},
		{"a nil Mux of package follow", (*follow.Mux)(nil)},
		{"a zero Stream", &stream.Stream{}},
		{"a zero Mux", &mux.Mux{}},
		{"a zero Sequence", &stream.Sequence{}},
		{"a type without Status", delivering{}},
	} {
		t.Run(test.why, func(t *testing.T) {
			m := metrics.New()
			m.Watch(test.source)
			text(t, m)
			if got := get(m.Readyz()); !strings.HasPrefix(got, "503 not ready\n") {
				t.Error(got)
			}
			if got := get(m.Healthz(0)); got != "200 live\n" {
				t.Error(got)
			}
		})
	}
	for _, err := range metrics.New().Count(nil) {
		if err == nil {
			t.Error("a nil sequence has an event")
		}
	}
}

// TestCountPassesEverythingOn: Count yields each event and error, and stops when the loop does.
func TestCountPassesEverythingOn(t *testing.T) {
	types := []stream.Type{stream.Gap, stream.Added, stream.Synced}
	var seq iter.Seq2[stream.Event, error] = func(yield func(stream.Event, error) bool) {
		for _, k := range types {
			if !yield(stream.Event{Type: k, Resource: gvr.Resource{}}, nil) {
				return
			}
		}
		yield(stream.Event{}, context.Canceled)
	}
	var got []stream.Type
	for ev, err := range metrics.New().Count(seq) {
		if err != nil {
			break
		}
		got = append(got, ev.Type)
	}
	if !slices.Equal(types, got) {
		t.Errorf("got %q, want %q", got, types)
	}
	for range metrics.New().Count(seq) {
		break
	}
}
