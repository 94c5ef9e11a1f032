package stream_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/stream"
)

func fakeClient(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets().GroupVersionResource: "WidgetList"}, objects...)
}

func widget(namespace, name, colour string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"colour": colour},
	}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{"colour": colour})
	return o
}

// onSynced ranges over s until the time is up, calling f after the nth SYNCED.
func onSynced(t *testing.T, s *stream.Stream, n int, f func()) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for ev, err := range s.Events(ctx) {
		if err != nil {
			break
		}
		got = append(got, text(ev))
		if ev.Type == stream.Synced {
			if n--; n == 0 {
				go f()
			}
		}
	}
	return got
}

// must drops the result of a client's call, which here can't fail.
func must(t *testing.T) func(*unstructured.Unstructured, error) {
	return func(_ *unstructured.Unstructured, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFake(t *testing.T) {
	tests := []struct {
		rv   string
		uid  types.UID
		want []string
		why  string
	}{
		{"", "", []string{"ADDED a@", "ADDED b@", "SYNCED 3", "ADDED c@", "MODIFIED a@", "DELETED b@"},
			"the fake gives objects no versions"},
		{"1", "u", []string{"ADDED a/u@1", "ADDED b/u@1", "SYNCED 3", "ADDED c/u@1", "MODIFIED a/u@1", "DELETED b/u@1"},
			"objects from a cluster or a file have versions, which the fake never changes"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			of := func(namespace, name, colour string) *unstructured.Unstructured {
				o := widget(namespace, name, colour)
				o.SetResourceVersion(tt.rv)
				o.SetUID(tt.uid)
				return o
			}
			c := fakeClient(of("default", "a", "red"), of("other", "b", "red"))
			w := c.Resource(widgets().GroupVersionResource)
			got := onSynced(t, newStream(t, c, nil), 1, func() {
				synctest.Wait()
				must(t)(w.Namespace("default").Create(t.Context(), of("default", "c", "red"), metav1.CreateOptions{}))
				must(t)(w.Namespace("default").Update(t.Context(), of("default", "a", "blue"), metav1.UpdateOptions{}))
				must(t)(nil, w.Namespace("other").Delete(t.Context(), "b", metav1.DeleteOptions{}))
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestFakeWatchCloses(t *testing.T) {
	// The fake's events have no versions, so there is no going on from them: the
	// differences must come from a list, compared by content.
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(widget("default", "a", "red"), widget("default", "b", "red"), widget("default", "c", "red"))
		w := c.Resource(widgets().GroupVersionResource).Namespace("default")
		var open apiwatch.Interface
		c.PrependWatchReactor("widgets", func(action clienttesting.Action) (bool, apiwatch.Interface, error) {
			var err error
			open, err = c.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
			return true, open, err
		})
		lists := 0
		c.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if lists++; lists == 2 {
				// The wait that follows ends when all the changes have been made.
				return true, nil, errors.New("not yet")
			}
			return false, nil, nil
		})
		got := onSynced(t, newStream(t, c, nil), 1, func() {
			synctest.Wait()
			must(t)(w.Update(t.Context(), widget("default", "a", "blue"), metav1.UpdateOptions{}))
			synctest.Wait()
			open.Stop()
			must(t)(nil, w.Delete(t.Context(), "b", metav1.DeleteOptions{}))
			must(t)(w.Update(t.Context(), widget("default", "c", "green"), metav1.UpdateOptions{}))
		})
		want := []string{"ADDED a@", "ADDED b@", "ADDED c@", "SYNCED 4", "MODIFIED a@",
			"GAP unversioned from 4 to 6", "MODIFIED c@ inferred", "DELETED b@ inferred", "SYNCED 6"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFakeKeepsItsObjects(t *testing.T) {
	// The fake hands out its own objects when it replays: changing an event's
	// object must not change what it stores.
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient()
		w := c.Resource(widgets().GroupVersionResource).Namespace("default")
		once := true
		c.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if once {
				once = false // between the list and the watch: it will be replayed
				go func() { must(t)(w.Create(t.Context(), widget("default", "a", "red"), metav1.CreateOptions{})) }()
			}
			return false, nil, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ev, err := range newStream(t, slowWatch{c}, nil).Events(ctx) {
			if err == nil && ev.Object != nil {
				ev.Object.SetName("changed")
			}
		}
		if _, err := w.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		got, err := w.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(got.Items) != 1 || got.Items[0].GetName() != "a" {
			t.Errorf("the fake now holds %+v, %v", got, err)
		}
	})
}

// slowWatch lets others go first before each watch.
type slowWatch struct{ dynamic.Interface }

func (s slowWatch) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return slowResource{s.Interface.Resource(r)}
}

type slowResource struct {
	dynamic.NamespaceableResourceInterface
}

func (s slowResource) Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	time.Sleep(time.Second) // in the bubble: when all others wait
	return s.NamespaceableResourceInterface.Watch(ctx, o)
}

// watchWith has the fake answer every watch with what f returns.
func watchWith(t *testing.T, f func() apiwatch.Interface) *stream.Stream {
	c := fakeClient(widget("default", "a", "red"))
	c.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) { return true, f(), nil })
	return newStream(t, c, nil)
}

func TestOddDoubles(t *testing.T) {
	say := func(events ...apiwatch.Event) func() apiwatch.Interface {
		return func() apiwatch.Interface {
			f := apiwatch.NewFakeWithChanSize(len(events), false)
			for _, ev := range events {
				f.Action(ev.Type, ev.Object)
			}
			return f
		}
	}
	withInt := widget("default", "a", "blue")
	withInt.Object["replicas"] = 3
	withNaN := widget("default", "a", "blue")
	withNaN.Object["ratio"] = math.NaN()
	tests := []struct {
		name  string
		watch func() apiwatch.Interface
		want  []string
		why   string
	}{
		{"an int", say(apiwatch.Event{Type: apiwatch.Modified, Object: withInt}), []string{"ADDED a@", "SYNCED 2", "MODIFIED a@"}, "DeepCopy panics at it"},
		{"not a number", say(apiwatch.Event{Type: apiwatch.Modified, Object: withNaN}), []string{"ADDED a@", "SYNCED 2", "MODIFIED a@"}, "JSON has no word for it"},
		{"no watch", func() apiwatch.Interface { return nil }, []string{"ADDED a@"}, "neither a watch nor an error"},
		{"an empty watch", apiwatch.NewEmptyWatch, []string{"ADDED a@", "SYNCED 2"}, "a double's way of saying nothing"},
		{"ERROR of nothing", say(apiwatch.Event{Type: apiwatch.Error}), []string{"ADDED a@", "SYNCED 2"}, "no object"},
		{"ERROR of nil", say(apiwatch.Event{Type: apiwatch.Error, Object: (*metav1.Status)(nil)}), []string{"ADDED a@", "SYNCED 2"}, "a typed nil"},
		{"ADDED of nil", say(apiwatch.Event{Type: apiwatch.Added, Object: (*unstructured.Unstructured)(nil)}), []string{"ADDED a@", "SYNCED 2"}, "a typed nil"},
		{"unknown event type", say(apiwatch.Event{Type: "RENAMED", Object: withInt}), []string{"ADDED a@", "SYNCED 2"},
			"client-go refuses it, a double need not"},
		{"another type", say(apiwatch.Event{Type: apiwatch.Added, Object: &metav1.PartialObjectMetadata{}}), []string{"ADDED a@", "SYNCED 2"}, "not what a dynamic client sends"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := record(t, watchWith(t, tt.watch), 300*time.Millisecond)
				if diff := cmp.Diff(tt.want, got[:min(len(got), len(tt.want))]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

func TestEndWaitsForTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowToEnd{result: make(chan apiwatch.Event)}
		for ev := range watchWith(t, func() apiwatch.Interface { return w }).Events(t.Context()) {
			if ev.Type == stream.Synced {
				break
			}
		}
		if !w.ended.Load() {
			t.Error("the range was left before the watch's goroutine had ended")
		}
	})
}

func TestLateWatchIsStopped(t *testing.T) {
	// A client that does not honour its context may return a watch that nobody
	// waits for any more.
	synctest.Test(t, func(t *testing.T) {
		late := &slowToEnd{result: make(chan apiwatch.Event)}
		first := true
		s := watchWith(t, func() apiwatch.Interface {
			if first {
				first = false
				time.Sleep(time.Hour)
				return late
			}
			return apiwatch.NewFake()
		})
		record(t, s, 2*time.Hour)
		if !late.ended.Load() {
			t.Error("it was left running")
		}
	})
}

// slowToEnd takes half a second to end after Stop.
type slowToEnd struct {
	result chan apiwatch.Event
	once   sync.Once
	ended  atomic.Bool
}

func (s *slowToEnd) ResultChan() <-chan apiwatch.Event { return s.result }

func (s *slowToEnd) Stop() {
	s.once.Do(func() {
		time.AfterFunc(time.Second/2, func() {
			s.ended.Store(true)
			close(s.result)
		})
	})
}

func TestWatchThatNeverCloses(t *testing.T) {
	// A double that breaks watch.Interface's promise must not hold up the end.
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		never := func() apiwatch.Interface { return apiwatch.NewProxyWatcher(make(chan apiwatch.Event)) }
		for ev := range watchWith(t, never).Events(t.Context()) {
			if ev.Type == stream.Synced {
				break
			}
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("it took %v to leave", d)
		}
	})
}

// client-go's fake heeds no selectors in watches, so a program's test would be
// told what the program never is.
func TestFakeSelectors(t *testing.T) {
	tests := []struct {
		o    stream.Options
		want []string
		why  string
	}{
		{stream.Options{LabelSelector: "colour=red"}, []string{"ADDED a@", "SYNCED", "DELETED a@", "ADDED b@", "ADDED c@"}, "by label, and by change of label"},
		{stream.Options{Name: "b"}, []string{"ADDED b@", "SYNCED", "MODIFIED b@", "DELETED b@"}, "by name"},
		{stream.Options{FieldSelector: "spec.colour=red,metadata.name!=a"}, []string{"SYNCED", "ADDED b@", "ADDED c@"}, "by field"},
		{stream.Options{LabelSelector: "colour=red", NoIndex: true}, []string{"ADDED a@", "SYNCED", "MODIFIED b@", "ADDED c@"}, "without an index, each event by itself"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClient(widget("default", "a", "red"), widget("default", "b", "blue"))
			tt.o.Namespaces = []string{"default"}
			s := streamOf(t, c, widgets(), &tt.o)
			api := c.Resource(widgets().GroupVersionResource).Namespace("default")
			got := onSynced(t, s, 1, func() {
				must(t)(api.Update(t.Context(), widget("default", "a", "blue"), metav1.UpdateOptions{}))
				must(t)(api.Update(t.Context(), widget("default", "b", "red"), metav1.UpdateOptions{}))
				must(t)(api.Create(t.Context(), widget("default", "c", "red"), metav1.CreateOptions{}))
				if tt.o.Name != "" {
					must(t)(nil, api.Delete(t.Context(), "b", metav1.DeleteOptions{}))
				}
			})
			for i := range got {
				if strings.HasPrefix(got[i], "SYNCED") {
					got[i] = "SYNCED"
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}
