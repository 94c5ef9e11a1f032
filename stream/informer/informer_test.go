package informer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestHandlers has the behaviours of client-go's shared informers, reflectors and controllers that concern a source,
// and those that a Stream adds.
//
// The behaviours are those that client-go 0.37 tests, where they apply:
//
//   - tools/cache/shared_informer_test.go. Here: WatchDisruption (TestHandlers, TestRunThatGivesUp), ErrorHandling
//     (TestErrorsReachTheHandler), Transformer (TestTransformErrors, TestTransformMayReturnAnyType). In package
//     factory: Shutdown (TestShutdownWaits). Not: Indexer, resync periods, adding and removing handlers before, during
//     and after a run, HandlerAbuse, EventPanics, StartRace, InitializationRace. That code is client-go's, and a Stream
//     only feeds it.
//   - controller_test.go. Here: Update, TransformingInformer, ReplaceEvents (TestRunThatGivesUp). Not, likewise:
//     HammerController, RunUntil, PanicPropagated, ResetWatch, ProcessDeltasInBatch, StoreResourceVersion, keys.
//   - reflector_test.go. Here: ListAndWatch and its errors (TestReflector, TestListErrors), HandleWatch* and StopWatch
//     (TestWatchEnds), FullListIfExpired (TestListAndWatch), RespectStoreTransformer, ReplacesStoreOnUnsafeDelete
//     (an ERROR frame, TestRandomInformer). Not: backoff, TooManyRequests, InternalError, page sizes,
//     resourceVersion 0, ExactResourceVersion, FullListIfTooLarge, WatchTimeout: the Stream makes the requests, and its
//     own tests have these cases. Not: expected types and tables, which a Stream cannot deliver.
//   - reflector_watchlist_test.go. Here: the marker (TestListAndWatch). Not: servers without streaming lists, tickers.
//   - tools/watch/retrywatcher_test.go. Here: TestWatch, TestWatchBookmarks, TestWatchEnds, TestSlowReceiver. Not: the
//     delay between two watches, events without a resourceVersion: the Stream's tests. until_test.go: TestUntil.
//     informerwatcher_test.go: not, its code is client-go's.
//   - dynamic/dynamicinformer/informer_test.go. In package factory: TestFactory, TestFakeClient. Instead of
//     TweakListOptions: TestFactoryOptions. Not: WatchListSemantics, because an informer on a Stream always lists, then
//     watches.
func TestHandlers(t *testing.T) {
	for _, tt := range []struct {
		why     string
		options stream.Options
		act     func(t *testing.T, srv *streamtest.Server)
		want    []string
		lists   int // requests for a list or initial events, with those of the start
	}{
		{"live events", stream.Options{}, func(t *testing.T, srv *streamtest.Server) {
			srv.Put(widgets, "shop", "roof")
			srv.Put(widgets, "shop", "door", "spec.n=1")
			remove(t, srv, "window")
		}, []string{"add roof 1", "update door 1", "delete window 1"}, 1},
		{"raw objects are decoded", stream.Options{Objects: stream.Raw}, func(t *testing.T, srv *streamtest.Server) {
			srv.Put(widgets, "shop", "roof")
		}, []string{"add roof 1"}, 1},
		{"metadata", stream.Options{Objects: stream.Metadata}, func(t *testing.T, srv *streamtest.Server) {
			remove(t, srv, "window")
		}, []string{"delete window 1"}, 1},
		{"a watch that ends is resumed without a list", stream.Options{}, func(t *testing.T, srv *streamtest.Server) {
			do(t, srv, "widgets close watches")
			srv.Put(widgets, "shop", "roof")
		}, []string{"add roof 1"}, 1},
		{"recreated while watched", stream.Options{}, func(t *testing.T, srv *streamtest.Server) {
			remove(t, srv, "door")
			srv.Put(widgets, "shop", "door")
		}, []string{"delete door 1", "add door 2"}, 1},
		{"deleted and recreated in a gap", stream.Options{}, func(t *testing.T, srv *streamtest.Server) {
			do(t, srv, "widgets silence")
			remove(t, srv, "door")
			srv.Put(widgets, "shop", "door")
			remove(t, srv, "window")
			do(t, srv, "restart")
		}, []string{"delete door 1", "add door 2", "delete window 1"}, 2},
		{"an expired version delivers only the difference", stream.Options{},
			func(t *testing.T, srv *streamtest.Server) {
				do(t, srv, "widgets silence")
				srv.Put(widgets, "shop", "door", "spec.n=1")
				do(t, srv, "restart")
			}, []string{"update door 1"}, 2},
		{"the type goes away and returns", stream.Options{}, func(t *testing.T, srv *streamtest.Server) {
			do(t, srv, "widgets delete crd")
			time.Sleep(time.Hour)
			do(t, srv, "widgets create crd")
			srv.Put(widgets, "shop", "door")
		}, []string{"delete door 1", "delete window 1", "add door 2"}, -1},
		{"several namespaces", stream.Options{Namespaces: []string{"shop", "home"}},
			func(t *testing.T, srv *streamtest.Server) {
				srv.Put(widgets, "home", "bed")
				srv.Put(widgets, "garden", "tree")
				time.Sleep(time.Second)
				do(t, srv, "widgets expire")
				remove(t, srv, "door")
			}, []string{"add bed 1", "delete door 1"}, -1},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				r := start(t, newStream(t, srv, &tt.options), nil)
				defer r.stop()
				if diff := cmp.Diff([]string{"add door 1", "add window 1"}, r.take()); diff != "" {
					t.Errorf("initial (-want +got):\n%s", diff)
				}
				tt.act(t, srv)
				time.Sleep(5 * time.Minute)
				if diff := cmp.Diff(tt.want, r.take()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if tt.lists >= 0 {
					if got := snapshots(srv); got != tt.lists {
						t.Errorf("%d snapshots, want %d", got, tt.lists)
					}
				}
				if errs := r.errors(); len(errs) > 0 {
					t.Errorf("the error handler received %v", errs)
				}
			})
		})
	}
}

// snapshots counts the snapshots that were requested.
func snapshots(srv *streamtest.Server) (n int) {
	for _, q := range srv.Requests() {
		if q.SendInitialEvents || q.Verb == "list" && !q.IsProbe() {
			n++
		}
	}
	return n
}

func TestDeletionInAGapHandsOverTheLastState(t *testing.T) {
	for _, tt := range []struct {
		why       string
		transform cache.TransformFunc
	}{
		{"without a transform", nil},
		{"with one that changes the object", func(obj any) (any, error) {
			obj.(*unstructured.Unstructured).SetAnnotations(map[string]string{"seen": "true"})
			return obj, nil
		}},
		{"with one that copies the object", func(obj any) (any, error) {
			return obj.(*unstructured.Unstructured).DeepCopy(), nil
		}},
		{"with one that fails once the object is gone", failingFor("gone")},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				r := start(t, newStream(t, srv, nil), func(i cache.SharedIndexInformer) {
					if err := i.SetTransform(tt.transform); err != nil {
						t.Error(err)
					}
				})
				defer r.stop()
				srv.Put(widgets, "shop", "door", "spec.n=7")
				time.Sleep(time.Second)
				last, _, _ := r.GetIndexer().GetByKey("shop/door")
				do(t, srv, "widgets silence")
				remove(t, srv, "door")
				do(t, srv, "restart")
				time.Sleep(5 * time.Minute)
				r.stop()
				if len(r.deleted) != 1 || r.deleted[0] != last || last == nil {
					t.Errorf("OnDelete received %v, want what the indexer had: %v", r.deleted, last)
				}
			})
		})
	}
}

// failingFor returns a transform that fails for objects with the label.
func failingFor(label string) cache.TransformFunc {
	return func(obj any) (any, error) {
		if obj.(*unstructured.Unstructured).GetLabels()[label] != "" {
			return nil, errors.New("refused")
		}
		return obj, nil
	}
}

// client-go drops what a transform fails for: an object of a watch alone, a list as a whole.
func TestTransformErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, nil), func(i cache.SharedIndexInformer) {
			if err := i.SetTransform(failingFor("bad")); err != nil {
				t.Error(err)
			}
		})
		srv.Put(widgets, "shop", "roof", "labels.bad=1")
		srv.Put(widgets, "shop", "door", "labels.bad=1")
		srv.Put(widgets, "shop", "window", "spec.n=1")
		time.Sleep(time.Second)
		remove(t, srv, "door")
		time.Sleep(time.Second)
		want := []string{"add door 1", "add window 1", "update window 1", "delete door 1"}
		if diff := cmp.Diff(want, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := r.SetTransform(nil); err == nil {
			t.Error("SetTransform works after the start")
		}
		r.stop()

		again := start(t, newStream(t, srv, nil), func(i cache.SharedIndexInformer) {
			_ = i.SetTransform(failingFor("bad"))
		})
		defer again.stop()
		if again.HasSynced() || len(again.errors()) == 0 {
			t.Errorf("synced: %v, errors: %v; want an error for the list", again.HasSynced(), again.errors())
		}
	})
}

func TestTransformMayReturnAnyType(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		i, err := informer.NewSharedIndexInformer(newStream(t, srv, nil), cache.SharedIndexInformerOptions{
			ResyncPeriod: bubbles.NoResync,
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = i.SetTransform(func(obj any) (any, error) {
			o := obj.(*unstructured.Unstructured)
			return &small{o}, nil
		})
		var deleted []any
		_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			DeleteFunc: func(o any) { deleted = append(deleted, o) },
		})
		done := make(chan struct{})
		stop := make(chan struct{})
		go func() { defer close(done); i.Run(stop) }()
		time.Sleep(time.Second)
		do(t, srv, "widgets silence")
		remove(t, srv, "door")
		do(t, srv, "restart")
		time.Sleep(5 * time.Minute)
		close(stop)
		<-done
		if len(deleted) != 1 {
			t.Fatalf("OnDelete received %v", deleted)
		}
		if _, ok := deleted[0].(*small); !ok {
			t.Errorf("OnDelete received a %T", deleted[0])
		}
	})
}

// small has an object's metadata.
type small struct{ *unstructured.Unstructured }

func TestErrorsReachTheHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		do(t, srv, "widgets forbid all")
		r := start(t, newStream(t, srv, nil), nil)
		defer r.stop()
		if errs := r.errors(); len(errs) == 0 || !apierrors.IsForbidden(errs[0]) {
			t.Errorf("got %v, want Forbidden", errs)
		}
		do(t, srv, "widgets allow")
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff([]string{"add door 1", "add window 1"}, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// An informer whose run ends with an error compares a new list with what it has.
func TestRunThatGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, &stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}}), nil)
		defer r.stop()
		r.take()
		if err := srv.Apply("any *: 429"); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "restart")
		remove(t, srv, "door")
		srv.Put(widgets, "shop", "door")
		remove(t, srv, "window")
		srv.Put(widgets, "shop", "roof")
		time.Sleep(time.Hour)
		if len(r.errors()) == 0 {
			t.Error("the error handler received nothing")
		}
		do(t, srv, "heal")
		time.Sleep(time.Hour)
		want := []string{"delete unknown door 1", "delete unknown window 1", "add roof 1", "add door 2"}
		if diff := cmp.Diff(sorted(want), sorted(r.take())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// outage restarts the server, and lets it fail for five minutes.
func outage(t *testing.T, srv *streamtest.Server) {
	t.Helper()
	if err := srv.Apply("any *: 503"); err != nil {
		t.Fatal(err)
	}
	do(t, srv, "restart")
	time.Sleep(5 * time.Minute)
	do(t, srv, "heal")
}

// A list that the informer refuses changes nothing of what handlers receive later.
func TestListThatTheTransformRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		s := newStream(t, srv, &stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}})
		r := start(t, s, func(i cache.SharedIndexInformer) { _ = i.SetTransform(failingFor("bad")) })
		defer r.stop()
		r.take()
		do(t, srv, "widgets silence")
		remove(t, srv, "door")
		srv.Put(widgets, "shop", "door")
		srv.Put(widgets, "shop", "roof", "labels.bad=1")
		outage(t, srv)
		time.Sleep(5 * time.Minute)
		if got, errs := r.take(), r.errors(); len(got) > 0 || len(errs) == 0 {
			t.Errorf("handlers received %v, the error handler %v; want nothing, and errors", got, errs)
		}
		remove(t, srv, "roof")
		time.Sleep(5 * time.Minute)
		want := []string{"delete unknown door 1", "update window 1", "add door 2"}
		if diff := cmp.Diff(want, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A type that goes away costs few requests, and no error handler is called.
func TestTypeThatGoesAwayIsQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, nil), nil)
		defer r.stop()
		do(t, srv, "widgets delete crd")
		time.Sleep(time.Minute)
		before := len(srv.Requests())
		time.Sleep(time.Hour)
		if n := len(srv.Requests()) - before; n > 400 || len(r.errors()) > 0 {
			t.Errorf("%d requests in an hour, errors %v", n, r.errors())
		}
		if !r.HasSynced() || len(r.GetStore().List()) != 0 {
			t.Errorf("the store has %v", r.GetStore().ListKeys())
		}
	})
}

// Bookmarks move the version of an informer whose objects do not change.
func TestBookmarksMoveTheVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, &stream.Options{Namespaces: []string{"shop"}}), nil)
		defer r.stop()
		srv.Put(widgets, "home", "bed")
		time.Sleep(5 * time.Minute)
		if got := r.LastSyncResourceVersion(); got != srv.ResourceVersion() {
			t.Errorf("synced at %s, want %s", got, srv.ResourceVersion())
		}
	})
}

// client-go's informer has no map to add to, unless its options have one.
func TestIndexersThatAreAddedLater(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		i, err := informer.NewSharedIndexInformer(newStream(t, srv, nil), cache.SharedIndexInformerOptions{
			ResyncPeriod: bubbles.NoResync,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := i.AddIndexers(cache.Indexers{"by namespace": cache.MetaNamespaceIndexFunc}); err != nil {
			t.Fatal(err)
		}
		r := startInformer(t, i)
		defer r.stop()
		found, err := i.GetIndexer().ByIndex("by namespace", "shop")
		if len(found) != 2 || err != nil {
			t.Errorf("got %d objects and error %v, want 2", len(found), err)
		}
	})
}

func TestRefusedOptions(t *testing.T) {
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	for _, f := range []func() error{
		func() error {
			_, err := informer.NewSharedIndexInformer(nil, cache.SharedIndexInformerOptions{})
			return err
		},
		func() error {
			o := cache.SharedIndexInformerOptions{ResyncPeriod: -1}
			_, err := informer.NewSharedIndexInformer(newStream(t, srv, nil), o)
			return err
		},
	} {
		var invalid *stream.OptionsError
		if err := f(); !errors.As(err, &invalid) {
			t.Errorf("got %v, want an OptionsError", err)
		}
	}
}
