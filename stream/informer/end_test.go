package informer_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Run of an informer returns when the run of its Stream has ended.
func TestRunWaitsForTheStream(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		var slow atomic.Bool
		s := newStream(t, srv, &stream.Options{Select: func(stream.Meta) bool {
			if slow.Load() {
				time.Sleep(time.Hour)
			}
			return true
		}})
		r := start(t, s, nil)
		slow.Store(true)
		srv.Put(widgets, "shop", "roof")
		time.Sleep(time.Second)
		r.stop()
		if got := s.Status().State; got != stream.Stopped {
			t.Errorf("the Stream is %s, want Stopped", got)
		}
		r.RunWithContext(t.Context()) // client-go logs a warning, and returns
	})
}

// The end of the context is no error for a receiver that waits.
func TestNoErrorAtTheEnd(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, srv *streamtest.Server) {
			ctx, cancel := context.WithCancel(t.Context())
			w := informer.Watch(ctx, newStream(t, srv, nil))
			time.AfterFunc(time.Minute, cancel)
			if diff := cmp.Diff([]string{"ADDED door", "ADDED window", "closed"}, received(w)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Only the first SYNCED of a streaming list ends the initial events.
func TestInitialEventsEndOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		yes := true
		l := informer.NewListerWatcher(newStream(t, srv, nil))
		w, err := l.Watch(metav1.ListOptions{SendInitialEvents: &yes})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { w.Stop(); <-w.(*informer.Watcher).Done() }()
		time.Sleep(time.Second) // until SYNCED
		do(t, srv, "widgets silence")
		remove(t, srv, "door")
		do(t, srv, "restart")
		rv := srv.ResourceVersion()
		want := []string{"ADDED door", "ADDED window", "BOOKMARK 3true", "DELETED door", "BOOKMARK " + rv}
		// The server's bookmarks repeat the version each minute.
		if diff := cmp.Diff(want, slices.Compact(received(w))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A reflector watches again at the last version after some errors. Where that version is no common point of what was
// delivered, it must list again.
func TestErrorsWhereNoVersionIsKnown(t *testing.T) {
	for _, tt := range []struct {
		why     string
		options stream.Options
		fault   string
		want    string
	}{
		{"one namespace, up to date", stream.Options{}, "any *: 429", "ERROR TooManyRequests"},
		{"between a GAP and SYNCED", stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: 1}},
			"page *: 429", "ERROR Expired"},
		{"several namespaces", stream.Options{Namespaces: []string{"home", "shop"}}, "any *: 429", "ERROR Expired"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				tt.options.Requests.GiveUpAfter = time.Minute
				yes := true
				l := informer.NewListerWatcher(newStream(t, srv, &tt.options))
				w, err := l.Watch(metav1.ListOptions{SendInitialEvents: &yes})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if err := srv.Apply(tt.fault); err != nil {
					t.Fatal(err)
				}
				do(t, srv, "widgets silence")
				srv.Put(widgets, "shop", "door", "spec.n=1")
				do(t, srv, "restart")
				got := received(w)
				if n := len(got); n < 2 || got[n-2] != tt.want {
					t.Errorf("got %v, want %s at the end", got, tt.want)
				}
			})
		})
	}
}
