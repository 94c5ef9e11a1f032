package configmap

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var widgets = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	Kind:                 "Widget", Namespaced: true, Verbs: []string{"list", "watch"},
}

// run is a program that watches widgets with a checkpoint in the ConfigMap.
type run struct {
	*checkpoint.Tracker
	stream *stream.Stream
	events []stream.Event
	cancel context.CancelFunc
	ended  chan struct{}
}

// start begins a run, which acks the first events: so many, and all if acks is negative.
func start(t *testing.T, srv *streamtest.Server, holder string, acks int) *run {
	t.Helper()
	tracker, err := checkpoint.NewTracker(open(t, srv.Client(), holder), &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "c1"}, Interval: 10 * time.Second, NoWriteAhead: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.New(srv.Client(), widgets, &stream.Options{Requests: stream.Requests{PageSize: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{Tracker: tracker, stream: s, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for ev, err := range s.With(stream.Run{Checkpoint: tracker}).Events(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			if acks < 0 || len(r.events) < acks {
				ev.Ack()
			}
			r.events = append(r.events, ev)
		}
	}()
	return r
}

// end stops watching and commits what was acked. It returns what Close does.
func (r *run) end() error {
	r.cancel()
	<-r.ended
	return r.Close()
}

// texts are those of events about objects, and of GAPs.
func (r *run) texts() []string {
	synctest.Wait()
	var texts []string
	for _, ev := range r.events {
		switch {
		case ev.Type == stream.Gap && ev.Gap.HistoryLost:
			texts = append(texts, "GAP, history lost")
		case ev.Type == stream.Gap:
			texts = append(texts, "GAP")
		case ev.Object != nil:
			texts = append(texts, string(ev.Type)+" "+ev.Object.GetName())
		}
	}
	return texts
}

func TestNextRunContinuesFromTheCommit(t *testing.T) {
	tests := []struct {
		acks    int // of the first run, which receives ADDED for a, b and c, and then SYNCED
		compact bool
		want    []string
		why     string
	}{
		{-1, false, []string{"MODIFIED a", "DELETED b", "ADDED d"}, "the server knows what has happened"},
		{-1, true, []string{"GAP, history lost", "ADDED a", "ADDED d"}, "it does not: the end of b is not reported"},
		{2, false, []string{"GAP, history lost", "ADDED a", "ADDED c", "ADDED d"}, "within a snapshot: a comes again"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(configMapResource, widgets)
			for _, name := range []string{"a", "b", "c"} {
				srv.Put(widgets, "ns", name)
			}
			first := start(t, srv, "first", tt.acks)
			time.Sleep(time.Minute)
			if err := first.end(); err != nil {
				t.Errorf("%s: %v", tt.why, err)
			}
			srv.Put(widgets, "ns", "a", "spec.size=2")
			if _, err := srv.Delete(widgets, "ns", "b"); err != nil {
				t.Fatal(err)
			}
			srv.Put(widgets, "ns", "d")
			if tt.compact {
				srv.Compact(srv.ResourceVersion())
			}
			second := start(t, srv, "second", -1)
			time.Sleep(time.Minute)
			if err := second.end(); err != nil {
				t.Errorf("%s: %v", tt.why, err)
			}
			if d := cmp.Diff(tt.want, second.texts()); d != "" {
				t.Errorf("%s: %s", tt.why, d)
			}
		})
	}
}

// The first owner can commit no more.
func TestSecondOwnerContinuesFromTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(configMapResource, widgets)
		first := start(t, srv, "first", -1)
		srv.Put(widgets, "ns", "a")
		time.Sleep(time.Minute)
		second := start(t, srv, "second", -1)
		srv.Put(widgets, "ns", "b")
		time.Sleep(time.Hour)
		fencedBy(t, first.stream.Status().Checkpoint.Err, "second")
		fencedBy(t, first.end(), "second")
		srv.Put(widgets, "ns", "c")
		time.Sleep(time.Minute)
		if d := cmp.Diff([]string{"ADDED b", "ADDED c"}, second.texts()); d != "" {
			t.Errorf("the second owner: %s", d)
		}
		if err := second.end(); err != nil {
			t.Error(err)
		}
		third := start(t, srv, "third", -1)
		time.Sleep(time.Minute)
		if err := third.end(); err != nil || len(third.texts()) > 0 {
			t.Errorf("the third owner has received %v, and ended with %v", third.texts(), err)
		}
	})
}
