package informer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// listed returns the version of a List.
func listed(ctx context.Context, t *testing.T, l *informer.ListerWatcher) string {
	t.Helper()
	list, err := l.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.(*unstructured.UnstructuredList).GetResourceVersion()
}

// The list of several namespaces has no version. A reflector that can't continue its run must list again.
func TestListWithoutAVersion(t *testing.T) {
	both := stream.Options{Namespaces: []string{"shop", "home"}}
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		l := informer.NewListerWatcher(newStream(t, srv, &both))
		rv := listed(t.Context(), t, l)
		time.Sleep(time.Minute)
		remove(t, srv, "window")
		if _, err := l.Watch(at(rv)); !apierrors.IsResourceExpired(err) {
			t.Errorf("a Watch after the run has ended: %v, want Expired", err)
		}
		rv = listed(t.Context(), t, l)
		w, err := l.Watch(at(rv))
		if err != nil {
			t.Fatal(err)
		}
		remove(t, srv, "door")
		if diff := cmp.Diff([]string{"DELETED door"}, received(w)); diff != "" {
			t.Errorf("a Watch that continues, without bookmarks that have no version (-want +got):\n%s", diff)
		}
		w.Stop()
	})
	inBubble(t, func(t *testing.T, srv *streamtest.Server) { // client-go's informer
		s := newStream(t, srv, &both)
		l := informer.NewListerWatcher(s)
		i := cache.NewSharedIndexInformer(l, &unstructured.Unstructured{}, bubbles.NoResync, nil)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(done); i.Run(stop) }()
		time.Sleep(time.Second)
		s.Stop()
		remove(t, srv, "door")
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"shop/window"}, i.GetStore().ListKeys()); diff != "" {
			t.Errorf("the store (-want +got):\n%s", diff)
		}
		close(stop)
		<-done
	})
}

func TestWatchAfterAList(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		l := informer.NewListerWatcher(newStream(t, srv, nil))
		old := srv.ResourceVersion()
		srv.Put(widgets, "shop", "roof")
		listed(t.Context(), t, l)
		w, err := l.Watch(at(old))
		if err != nil {
			t.Fatal(err)
		}
		if got := received(w); len(got) < 2 || got[1] != "ADDED roof" {
			t.Errorf("at an older version than the list's: %v, want what has changed since", got)
		}
		w.Stop()
	})
	for _, pause := range []func(){func() {}, synctest.Wait} {
		inBubble(t, func(t *testing.T, srv *streamtest.Server) {
			watchAfterTheListsContext(t, srv, pause)
		})
	}
}

func watchAfterTheListsContext(t *testing.T, srv *streamtest.Server, pause func()) {
	l := informer.NewListerWatcher(newStream(t, srv, nil))
	ctx, cancel := context.WithCancel(t.Context())
	rv := listed(ctx, t, l)
	cancel()
	pause()
	w, err := l.Watch(at(rv))
	if err != nil {
		t.Fatal(err)
	}
	srv.Put(widgets, "shop", "roof")
	if got := received(w); len(got) < 2 || got[1] != "ADDED roof" {
		t.Errorf("after the List's context has ended: %v", got)
	}
	w.Stop()
}

// client-go's reflector does not stop a watch whose initial events its store refuses (watchList in reflector.go): it
// lists.
func TestListEndsAWatchThatNobodyHasStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		l := informer.NewListerWatcher(newStream(t, srv, nil))
		yes := true
		left, err := l.Watch(metav1.ListOptions{SendInitialEvents: &yes})
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Watch(at(listed(t.Context(), t, l)))
		if err != nil {
			t.Fatal(err)
		}
		for ev := range left.ResultChan() { // until it is closed
			if ev.Type == watch.Error {
				t.Errorf("the watch ended with %v, want no ERROR", ev.Object)
			}
		}
		remove(t, srv, "window")
		if got := received(w); !slices.Contains(got, "DELETED window") {
			t.Errorf("the watch after the list: %v, want the deletion", got)
		}
		w.Stop()
	})
	inBubble(t, func(t *testing.T, srv *streamtest.Server) { // client-go's informer, which transforms such events twice
		l := informer.NewListerWatcher(newStream(t, srv, nil))
		i := cache.NewSharedIndexInformer(l, &unstructured.Unstructured{}, bubbles.NoResync, nil)
		_ = i.SetTransform(func(obj any) (any, error) {
			o := obj.(*unstructured.Unstructured)
			if o.GetLabels()["transformed"] != "" {
				return nil, errors.New("transformed already")
			}
			o.SetLabels(map[string]string{"transformed": "yes"})
			return o, nil
		})
		r := startInformer(t, i)
		defer r.stop()
		time.Sleep(time.Hour)
		if got := i.GetStore().ListKeys(); len(got) != 2 {
			t.Errorf("the store has %v, want both objects", got)
		}
	})
}

// A transform may take longer than the run of a plain List waits. There is one object at a time, because client-go
// before 0.36 locks its queue meanwhile: if the queue held another one, its reader would wait for the lock, and the
// bubble's time would stand still.
func TestSlowTransform(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		remove(t, srv, "window")
		r := start(t, newStream(t, srv, nil), func(i cache.SharedIndexInformer) {
			_ = i.SetTransform(func(obj any) (any, error) {
				time.Sleep(40 * time.Second)
				return obj, nil
			})
		})
		defer r.stop()
		time.Sleep(10 * time.Minute)
		srv.Put(widgets, "shop", "roof")
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"add door 1", "add roof 1"}, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := snapshots(srv); n != 1 || len(r.errors()) != 0 {
			t.Errorf("%d snapshots, errors %v", n, r.errors())
		}
	})
}

// Handlers receive no deletion of an object that the transform has refused.
func TestDeletionOfAnObjectThatNeverWasAdded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, nil), func(i cache.SharedIndexInformer) {
			_ = i.SetTransform(failingFor("bad"))
		})
		defer r.stop()
		srv.Put(widgets, "shop", "roof", "labels.bad=1")
		time.Sleep(time.Second)
		do(t, srv, "widgets silence")
		remove(t, srv, "roof")
		remove(t, srv, "door")
		do(t, srv, "restart")
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"add door 1", "add window 1", "delete door 1"}, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A recreated object that the list of a later run left out is added once, and not again after a gap.
func TestRecreatedInARelistThenAGap(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, &stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}}), nil)
		defer r.stop()
		if err := srv.Apply("any *: 503"); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "restart")
		remove(t, srv, "door")
		srv.Put(widgets, "shop", "door")
		time.Sleep(time.Hour)
		do(t, srv, "heal")
		time.Sleep(time.Hour)
		r.take()
		srv.Put(widgets, "shop", "door", "spec.n=1")
		do(t, srv, "widgets silence")
		srv.Put(widgets, "shop", "window", "spec.n=1")
		do(t, srv, "restart")
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"update door 2", "update window 1"}, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestZeroValues(t *testing.T) {
	for name, l := range map[string]*informer.ListerWatcher{
		"a nil Stream":         informer.NewListerWatcher(nil),
		"a zero Stream":        informer.NewListerWatcher(&stream.Stream{}),
		"a zero ListerWatcher": {},
	} {
		for _, rv := range []string{"", "0", "5"} {
			_, err := l.Watch(at(rv))
			if err == nil || err.Error() != "gvrwatch: invalid Stream: must be made with stream.New" {
				t.Errorf("%s: Watch at %q returned %v", name, rv, err)
			}
		}
		if _, err := l.List(metav1.ListOptions{}); err == nil {
			t.Errorf("%s: List returned no error", name)
		}
	}
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		want := []string{"ERROR InternalError", "closed"}
		if diff := cmp.Diff(want, received(informer.Watch(t.Context(), &stream.Stream{}))); diff != "" {
			t.Errorf("a zero Stream (-want +got):\n%s", diff)
		}
		tracker, err := checkpoint.NewTracker(&checkpoint.Memory{},
			&checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		s := newStream(t, srv, nil).With(stream.Run{Checkpoint: tracker})
		if diff := cmp.Diff(want, received(informer.Watch(t.Context(), s))); diff != "" {
			t.Errorf("a checkpoint (-want +got):\n%s", diff)
		}
	})
}
