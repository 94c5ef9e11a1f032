package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// text describes an event of a watch.
func text(ev watch.Event) string {
	switch o := ev.Object.(type) {
	case *unstructured.Unstructured:
		if ev.Type == watch.Bookmark {
			marked := o.GetAnnotations()[metav1.InitialEventsAnnotationKey]
			return string(ev.Type) + " " + o.GetResourceVersion() + marked
		}
		return string(ev.Type) + " " + o.GetName()
	case *metav1.Status:
		return string(ev.Type) + " " + string(o.Reason)
	}
	return string(ev.Type)
}

// received returns what arrives on a channel in five minutes, and "closed" if it is closed.
func received(w watch.Interface) (texts []string) {
	timeout := time.After(5 * time.Minute)
	for {
		select {
		case ev, ok := <-w.ResultChan():
			if !ok {
				return append(texts, "closed")
			}
			texts = append(texts, text(ev))
		case <-timeout:
			return texts
		}
	}
}

// TestWatch has the behaviours of client-go's RetryWatcher.
func TestWatch(t *testing.T) {
	gap := func(t *testing.T, srv *streamtest.Server) {
		do(t, srv, "widgets silence")
		remove(t, srv, "door")
		srv.Put(widgets, "shop", "door")
		do(t, srv, "restart")
	}
	for _, tt := range []struct {
		why     string
		options stream.Options
		run     stream.Run
		act     func(t *testing.T, srv *streamtest.Server)
		want    []string
	}{
		{"events", stream.Options{}, stream.Run{}, func(t *testing.T, srv *streamtest.Server) {
			srv.Put(widgets, "shop", "door", "spec.n=1")
			remove(t, srv, "window")
		}, []string{"MODIFIED door", "DELETED window"}},
		{"raw objects are decoded", stream.Options{Objects: stream.Raw}, stream.Run{},
			func(t *testing.T, srv *streamtest.Server) {
				srv.Put(widgets, "shop", "roof")
			}, []string{"ADDED roof"}},
		{"the watch is closed", stream.Options{}, stream.Run{}, func(t *testing.T, srv *streamtest.Server) {
			do(t, srv, "widgets close watches")
			srv.Put(widgets, "shop", "roof")
		}, []string{"ADDED roof"}},
		{"a gap heals", stream.Options{}, stream.Run{}, gap, []string{"DELETED door", "ADDED door"}},
		{"FailOnGap", stream.Options{}, stream.Run{FailOnGap: true}, gap, []string{"ERROR Expired", "closed"}},
		{"a loss of history", stream.Options{}, stream.Run{Start: stream.After("1")}, gap,
			[]string{"ERROR Expired", "closed"}},
		{"a failure of the server is retried until GiveUpAfter",
			stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}}, stream.Run{},
			func(t *testing.T, srv *streamtest.Server) {
				if err := srv.Apply("any *: 503"); err != nil {
					t.Error(err)
				}
				do(t, srv, "restart")
			}, []string{"ERROR ServiceUnavailable", "closed"}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				w := informer.Watch(t.Context(), newStream(t, srv, &tt.options).With(tt.run))
				defer func() { w.Stop(); <-w.Done() }()
				if diff := cmp.Diff([]string{"ADDED door", "ADDED window"}, received(w)); diff != "" {
					t.Errorf("initial (-want +got):\n%s", diff)
				}
				tt.act(t, srv)
				if diff := cmp.Diff(tt.want, received(w)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestLossOfHistoryIsAnErrorAtOnce: what begins at a version ends at the 410, and does not wait for a list, which may
// be refused for ever. What knows all objects waits for one.
func TestLossOfHistoryIsAnErrorAtOnce(t *testing.T) {
	expired := []string{"ERROR Expired", "closed"}
	tests := []struct {
		watch func(t *testing.T, s *stream.Stream) watch.Interface
		want  []string
		why   string
	}{
		{func(t *testing.T, s *stream.Stream) watch.Interface {
			return informer.Watch(t.Context(), s.With(stream.Run{Start: stream.After("1")}))
		}, expired, "Watch after a version"},
		{func(t *testing.T, s *stream.Stream) watch.Interface {
			p := checkpoint.Position{Partial: true, ResourceVersions: map[string]string{"": "1"}}
			return informer.Watch(t.Context(), s.With(stream.Run{Start: stream.From(p)}))
		}, expired, "Watch from a position that lacks objects"},
		{func(t *testing.T, s *stream.Stream) watch.Interface {
			w, err := informer.NewListerWatcher(s).Watch(metav1.ListOptions{ResourceVersion: "1"})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}, expired, "a ListerWatcher at a version"},
		{func(t *testing.T, s *stream.Stream) watch.Interface { return informer.Watch(t.Context(), s) }, nil,
			"Watch of everything: the Stream finds out what was deleted, once it may list"},
	}
	for _, tt := range tests {
		inBubble(t, func(t *testing.T, srv *streamtest.Server) {
			w := tt.watch(t, newStream(t, srv, nil))
			defer func() {
				w.Stop()
				for range w.ResultChan() {
				}
			}()
			received(w)
			if err := srv.Apply("list *: 403\ninitial *: 403\nprobe *: 403"); err != nil {
				t.Fatal(err)
			}
			do(t, srv, "widgets silence")
			remove(t, srv, "door")
			do(t, srv, "restart")
			got := slices.DeleteFunc(received(w), func(ev string) bool { return strings.HasPrefix(ev, "BOOKMARK") })
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestWatchBookmarks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		w := informer.Watch(t.Context(),
			newStream(t, srv, &stream.Options{Namespaces: []string{"shop"}}).With(stream.Run{Bookmarks: true}))
		defer func() { w.Stop(); <-w.Done() }()
		received(w)
		do(t, srv, "bookmarks every 10s")
		other := srv.Put(widgets, "home", "bed").GetResourceVersion()
		got := received(w)
		if len(got) < 1 || got[0] != "BOOKMARK "+other {
			t.Errorf("got %v, want bookmarks", got)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	for _, tt := range []struct {
		why string
		end func(w *informer.Watcher, cancel func())
	}{
		{"Stop", func(w *informer.Watcher, _ func()) { w.Stop() }},
		{"Stop twice", func(w *informer.Watcher, _ func()) { w.Stop(); w.Stop() }},
		{"the context ends", func(_ *informer.Watcher, cancel func()) { cancel() }},
		{"Stop while an event waits for the receiver", func(w *informer.Watcher, _ func()) {
			time.Sleep(time.Hour)
			w.Stop()
		}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := informer.Watch(ctx, newStream(t, srv, nil))
				<-w.ResultChan()
				tt.end(w, cancel)
				<-w.Done()
				for ev := range w.ResultChan() {
					t.Errorf("after the end: %v", text(ev))
				}
			})
		})
	}
}

func TestWatchRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		failed := []string{"ERROR InternalError", "closed"}
		if diff := cmp.Diff(failed, received(informer.Watch(t.Context(), nil))); diff != "" {
			t.Errorf("nil (-want +got):\n%s", diff)
		}
		var none context.Context
		if diff := cmp.Diff(failed, received(informer.Watch(none, newStream(t, srv, nil)))); diff != "" {
			t.Errorf("no context (-want +got):\n%s", diff)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if diff := cmp.Diff([]string{"closed"}, received(informer.Watch(ended, nil))); diff != "" {
			t.Errorf("nil, and a context that has ended (-want +got):\n%s", diff)
		}
		(&informer.Watcher{}).Stop() // does nothing
		do(t, srv, "widgets forbid all")
		w := informer.Watch(t.Context(), newStream(t, srv, nil))
		if diff := cmp.Diff([]string{"ERROR Forbidden", "closed"}, received(w)); diff != "" {
			t.Errorf("forbidden (-want +got):\n%s", diff)
		}
		do(t, srv, "widgets allow")
		s := newStream(t, srv, nil)
		first := informer.Watch(t.Context(), s)
		<-first.ResultChan()
		if diff := cmp.Diff(failed, received(informer.Watch(t.Context(), s))); diff != "" {
			t.Errorf("busy (-want +got):\n%s", diff)
		}
		first.Stop()
		<-first.Done()
	})
}

func TestUntil(t *testing.T) {
	named := func(name string) watchtools.ConditionFunc {
		return func(ev watch.Event) (bool, error) { return text(ev) == "ADDED "+name, nil }
	}
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		time.AfterFunc(time.Minute, func() { srv.Put(widgets, "shop", "roof") })
		ev, err := watchtools.UntilWithoutRetry(t.Context(), informer.Watch(t.Context(), newStream(t, srv, nil)),
			named("window"), named("roof"))
		if err != nil || text(*ev) != "ADDED roof" {
			t.Errorf("UntilWithoutRetry: %v, %v", ev, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = watchtools.UntilWithoutRetry(ctx, informer.Watch(ctx, newStream(t, srv, nil)), named("nothing"))
		if err == nil {
			t.Error("UntilWithoutRetry returns no error at the end of its context")
		}

		rv := srv.ResourceVersion()
		time.AfterFunc(time.Minute, func() { srv.Put(widgets, "shop", "wall") })
		ev, err = watchtools.Until(t.Context(), rv, informer.NewListerWatcher(newStream(t, srv, nil)), named("wall"))
		if err != nil || text(*ev) != "ADDED wall" {
			t.Errorf("Until: %v, %v", ev, err)
		}
		synctest.Wait()
	})
	// Outside a bubble, because UntilWithSync has no resync period: see bubbles.NoResync.
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	synced := func(cache.Store) (bool, error) { srv.Put(widgets, "shop", "gate"); return false, nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ev, err := watchtools.UntilWithSync(ctx, informer.NewListerWatcher(newStream(t, srv, nil)),
		&unstructured.Unstructured{}, synced, named("gate"))
	if err != nil || text(*ev) != "ADDED gate" {
		t.Errorf("UntilWithSync: %v, %v", ev, err)
	}
}

func TestListAndWatch(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		why    string
		list   bool
		pause  time.Duration // between List and Watch
		watch  func(rv string) metav1.ListOptions
		remove bool // before the Watch
		want   []string
		runs   int
	}{
		{"at the version of the list", true, 0, at, true, []string{"DELETED window"}, 1},
		{"later than the run waits", true, time.Hour, at, true, []string{"DELETED window"}, 2},
		{"streaming list", false, 0, func(string) metav1.ListOptions {
			return metav1.ListOptions{SendInitialEvents: &yes}
		}, false, []string{"ADDED door", "ADDED window", "marked"}, 1},
		{"at any version", false, 0, func(string) metav1.ListOptions {
			return metav1.ListOptions{ResourceVersion: "0"}
		}, false, []string{"ADDED door", "ADDED window"}, 1},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				l := informer.NewListerWatcher(newStream(t, srv, nil))
				rv := ""
				if tt.list {
					list, err := l.ListWithContext(t.Context(), metav1.ListOptions{Limit: 1})
					if err != nil {
						t.Fatal(err)
					}
					u := list.(*unstructured.UnstructuredList)
					rv = u.GetResourceVersion()
					if len(u.Items) != 2 || u.GetKind() != "WidgetList" || rv != srv.ResourceVersion() {
						t.Errorf("got %v", u)
					}
					time.Sleep(tt.pause)
				}
				if tt.remove {
					remove(t, srv, "window")
				}
				w, err := l.WatchWithContext(t.Context(), tt.watch(rv))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, line := range received(w) {
					switch {
					case len(line) > 4 && line[len(line)-4:] == "true":
						got = append(got, "marked")
					case line[:8] != "BOOKMARK":
						got = append(got, line)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if _, err := l.WatchWithContext(t.Context(), tt.watch(rv)); !errors.Is(err, stream.ErrBusy) {
					t.Errorf("a second watch: got %v, want ErrBusy", err)
				}
				w.Stop()
				again, err := l.WatchWithContext(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				again.Stop()
				<-again.(*informer.Watcher).Done()
			})
		})
	}
}

func at(rv string) metav1.ListOptions { return metav1.ListOptions{ResourceVersion: rv} }

// A bubble ends only if no goroutine is left.
func TestListThatNobodyWatches(t *testing.T) {
	for _, tt := range []struct {
		why string
		end func(cancel func(), l *informer.ListerWatcher)
	}{
		{"the bound", func(func(), *informer.ListerWatcher) { time.Sleep(31 * time.Second) }},
		{"the context ends", func(cancel func(), _ *informer.ListerWatcher) { cancel() }},
		{"another list", func(cancel func(), l *informer.ListerWatcher) {
			if _, err := l.List(metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
			time.Sleep(31 * time.Second)
		}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := newStream(t, srv, nil)
				l := informer.NewListerWatcher(s)
				if _, err := l.ListWithContext(ctx, metav1.ListOptions{}); err != nil {
					t.Fatal(err)
				}
				tt.end(cancel, l)
				synctest.Wait()
				if got := s.Status().State; got != stream.Stopped {
					t.Errorf("the Stream is %s, want Stopped", got)
				}
			})
		})
	}
}

// A context that ends once the list has arrived does not end the watch that continues the list.
func TestWatchOutlivesTheContextOfItsList(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		l := informer.NewListerWatcher(newStream(t, srv, nil))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		list, err := l.ListWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Watch(at(list.(*unstructured.UnstructuredList).GetResourceVersion()))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Second)
		srv.Put(widgets, "shop", "roof")
		got := received(w)
		if len(got) < 2 || got[1] != "ADDED roof" {
			t.Errorf("got %v", got)
		}
		w.Stop()
	})
}

func TestListErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		l := informer.NewListerWatcher(newStream(t, srv, &stream.Options{LabelSelector: "a=b,c=d"}))
		for _, tt := range []struct {
			options metav1.ListOptions
			want    metav1.StatusReason
		}{
			{metav1.ListOptions{LabelSelector: "c=d, a=b"}, ""},
			{metav1.ListOptions{LabelSelector: "a=b"}, metav1.StatusReasonBadRequest},
			{metav1.ListOptions{LabelSelector: "!!"}, metav1.StatusReasonBadRequest},
			{metav1.ListOptions{FieldSelector: "metadata.name=x"}, metav1.StatusReasonBadRequest},
		} {
			_, err := l.List(tt.options)
			if got := reason(err); got != tt.want {
				t.Errorf("%v: got %v, want %q", tt.options, err, tt.want)
			}
		}
		var invalid *stream.OptionsError
		if _, err := informer.NewListerWatcher(nil).List(metav1.ListOptions{}); !errors.As(err, &invalid) {
			t.Errorf("nil: got %v", err)
		}
		if _, err := informer.NewListerWatcher(nil).Watch(metav1.ListOptions{}); !errors.As(err, &invalid) {
			t.Errorf("nil: got %v", err)
		}
		hung := streamtest.NewServer(widgets)
		if err := hung.Apply("any *: hang"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := informer.NewListerWatcher(newStream(t, hung, nil)).ListWithContext(ctx, metav1.ListOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context has ended: got %v", err)
		}
		time.Sleep(time.Minute)
	})
}

// client-go's reflectors and informers work on a ListerWatcher.
func TestReflector(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		l := informer.NewListerWatcher(newStream(t, srv, nil))
		r := cache.NewReflector(l, &unstructured.Unstructured{}, store, bubbles.NoResync)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.RunWithContext(ctx) }()
		time.Sleep(time.Second)
		do(t, srv, "widgets silence")
		remove(t, srv, "door")
		srv.Put(widgets, "shop", "roof")
		do(t, srv, "restart")
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"shop/roof", "shop/window"}, sorted(store.ListKeys())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := r.LastSyncResourceVersion(); got != srv.ResourceVersion() {
			t.Errorf("synced at %s, want %s", got, srv.ResourceVersion())
		}
		cancel()
		<-done
	})
}

// A watch from a version does not know what existed there, so a gap would miss deletions.
func TestWatchAtAVersionEndsAtAGap(t *testing.T) {
	for _, tt := range []struct {
		why     string
		options stream.Options
	}{
		{"the cluster", stream.Options{}},
		{"several namespaces have no common version", stream.Options{Namespaces: []string{"home", "shop"}}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *streamtest.Server) {
				l := informer.NewListerWatcher(newStream(t, srv, &tt.options))
				rv := srv.ResourceVersion()
				srv.Put(widgets, "shop", "roof")
				w, err := l.Watch(at(rv))
				if len(tt.options.Namespaces) > 1 {
					if reason(err) != metav1.StatusReasonExpired {
						t.Errorf("got %v, want Expired", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { w.Stop(); <-w.(*informer.Watcher).Done() }()
				time.Sleep(time.Second)
				do(t, srv, "widgets silence")
				remove(t, srv, "door")
				do(t, srv, "restart")
				got := received(w)
				if n := len(got); n < 3 || got[n-2] != "ERROR Expired" || got[n-1] != "closed" {
					t.Errorf("got %v, want ERROR Expired at the end", got)
				}
			})
		})
	}
}

// The Stream waits for a slow receiver, which misses nothing.
func TestSlowReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		w := informer.Watch(t.Context(), newStream(t, srv, nil))
		defer func() { w.Stop(); <-w.Done() }()
		var want, got []string
		for range 2 {
			<-w.ResultChan()
		}
		for n := range 300 {
			name := fmt.Sprint("n", n)
			srv.Put(widgets, "shop", name)
			want = append(want, "ADDED "+name)
		}
		for range want {
			time.Sleep(10 * time.Second)
			got = append(got, text(<-w.ResultChan()))
		}
		if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A panic of the caller's function is client-go's to handle, and leaves nothing running.
func TestPanickingSelect(t *testing.T) {
	utilruntime.ReallyCrash = false
	defer func() { utilruntime.ReallyCrash = true }()
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		s := newStream(t, srv, &stream.Options{Select: func(stream.Meta) bool { panic("mine") }})
		w := informer.Watch(t.Context(), s)
		if diff := cmp.Diff([]string{"closed"}, received(w)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := informer.NewListerWatcher(s).List(metav1.ListOptions{}); err == nil {
			t.Error("List returns no error")
		}
	})
}
