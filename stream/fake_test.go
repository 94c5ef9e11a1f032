package stream_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
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

// listVersion returns the version of SYNCED after a list of c: "1" with client-go before 0.36, whose fake has none.
func listVersion(t *testing.T, c *fake.FakeDynamicClient) string {
	t.Helper()
	o, err := c.Tracker().List(widgets().GroupVersionResource, widgets().GroupVersionKind(), "")
	noError(t, err)
	list, err := meta.ListAccessor(o)
	noError(t, err)
	if list.GetResourceVersion() == "" {
		return "1"
	}
	return list.GetResourceVersion()
}

// onSynced returns the events of s within a minute, and calls f in another goroutine after the nth SYNCED.
func onSynced(t *testing.T, s *running, n int, f func()) []string {
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

// must returns a function that drops the result of a client's call, which must not fail.
func must(t *testing.T) func(*unstructured.Unstructured, error) {
	return func(_ *unstructured.Unstructured, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFakeClientDeliversEveryChange(t *testing.T) {
	tests := []struct {
		rv   string
		uid  types.UID
		want []string
		why  string
	}{
		{"", "", []string{"ADDED a@", "ADDED b@", "SYNCED", "ADDED c@", "MODIFIED a@", "DELETED b@"},
			"the fake gives objects no versions"},
		{"1", "u", []string{"ADDED a/u@1", "ADDED b/u@1", "SYNCED", "ADDED c/u@1", "MODIFIED a/u@1", "DELETED b/u@1"},
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
			tt.want[2] += " " + listVersion(t, c)
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

func TestClosedFakeWatchIsComparedByContent(t *testing.T) {
	// The fake's events have no versions, so no watch can resume after them: the Stream must compare a list by content
	// to find the differences.
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(widget("default", "a", "red"), widget("default", "b", "red"), widget("default", "c", "red"))
		w := c.Resource(widgets().GroupVersionResource).Namespace("default")
		var open apiwatch.Interface
		c.PrependWatchReactor("widgets", func(action clienttesting.Action) (bool, apiwatch.Interface, error) {
			var err error
			options := action.(clienttesting.WatchActionImpl).ListOptions
			open, err = c.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
			return true, open, err
		})
		lists := 0
		c.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if lists++; lists == 2 {
				// The retry comes after all changes below.
				return true, nil, errors.New("not yet")
			}
			return false, nil, nil
		})
		before := listVersion(t, c)
		got := onSynced(t, newStream(t, c, nil), 1, func() {
			synctest.Wait()
			must(t)(w.Update(t.Context(), widget("default", "a", "blue"), metav1.UpdateOptions{}))
			synctest.Wait()
			open.Stop()
			must(t)(nil, w.Delete(t.Context(), "b", metav1.DeleteOptions{}))
			must(t)(w.Update(t.Context(), widget("default", "c", "green"), metav1.UpdateOptions{}))
		})
		after := listVersion(t, c)
		want := []string{"ADDED a@", "ADDED b@", "ADDED c@", "SYNCED " + before, "MODIFIED a@",
			"GAP unversioned from " + before + " to " + after, "MODIFIED c@ inferred", "DELETED b@ inferred",
			"SYNCED " + after}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// oneWidget returns a fake with the object a.
func oneWidget() *fake.FakeDynamicClient { return fakeClient(widget("default", "a", "red")) }

// watchWith returns a Stream on a fake that answers every watch with f.
func watchWith(t *testing.T, f func() apiwatch.Interface) *running {
	c := oneWidget()
	c.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) { return true, f(), nil })
	return newStream(t, c, nil)
}

func TestUnusualTestDoubles(t *testing.T) {
	sends := func(events ...apiwatch.Event) func() apiwatch.Interface {
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
	synced := "SYNCED " + listVersion(t, oneWidget())
	tests := []struct {
		name  string
		watch func() apiwatch.Interface
		want  []string
		why   string
	}{
		{"an int", sends(apiwatch.Event{Type: apiwatch.Modified, Object: withInt}),
			[]string{"ADDED a@", synced, "MODIFIED a@"}, "DeepCopy panics on an int"},
		{"not a number", sends(apiwatch.Event{Type: apiwatch.Modified, Object: withNaN}),
			[]string{"ADDED a@", synced, "MODIFIED a@"}, "JSON can't encode NaN"},
		{"no watch", func() apiwatch.Interface { return nil },
			[]string{"ADDED a@"}, "Watch returns nil without an error"},
		{"a nil FakeWatcher", func() apiwatch.Interface { return (*apiwatch.FakeWatcher)(nil) },
			[]string{"ADDED a@"}, "a reactor returns a variable that it never set"},
		{"an empty watch", apiwatch.NewEmptyWatch,
			[]string{"ADDED a@", synced}, "test doubles without events return it"},
		{"ERROR without an object", sends(apiwatch.Event{Type: apiwatch.Error}),
			[]string{"ADDED a@", synced}, "an untyped nil"},
		{"ERROR with a nil Status", sends(apiwatch.Event{Type: apiwatch.Error, Object: (*metav1.Status)(nil)}),
			[]string{"ADDED a@", synced}, "a typed nil"},
		{"ADDED with a nil object",
			sends(apiwatch.Event{Type: apiwatch.Added, Object: (*unstructured.Unstructured)(nil)}),
			[]string{"ADDED a@", synced}, "a typed nil"},
		{"unknown event type", sends(apiwatch.Event{Type: "RENAMED", Object: withInt}),
			[]string{"ADDED a@", synced}, "client-go refuses it, a test double may not"},
		{"another object type", sends(apiwatch.Event{Type: apiwatch.Added, Object: &metav1.PartialObjectMetadata{}}),
			[]string{"ADDED a@", synced}, "dynamic clients deliver Unstructured only"},
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

// TestTypedObjectOfAFakeIsPoison: a dynamic client delivers Unstructured, but a watch.FakeWatcher whatever a test adds.
// The object is skipped with a GAP that says why, also if the test double returns one watch again and again, which
// is closed after its first use, or sends the object once.
func TestTypedObjectOfAFakeIsPoison(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
	sends := func(objects ...runtime.Object) apiwatch.Interface {
		f := apiwatch.NewFakeWithChanSize(2, false)
		for _, o := range objects {
			f.Add(o)
		}
		return f
	}
	rv := listVersion(t, oneWidget())
	synced := "SYNCED " + rv
	poison := []string{"ADDED a@", synced, "GAP poison from " + rv + " to " + rv, synced}
	tests := []struct {
		watches func() func() apiwatch.Interface
		want    []string
		why     string
	}{
		{func() func() apiwatch.Interface {
			watches := []apiwatch.Interface{sends(pod), sends(widget("default", "b", "red"))}
			return func() (w apiwatch.Interface) { w, watches = watches[0], watches[1:]; return w }
		}, append(slices.Clip(poison), "ADDED b@"), "it does not come again"},
		{func() func() apiwatch.Interface {
			return func() apiwatch.Interface { return sends(pod) }
		}, append(slices.Clip(poison), poison[2:]...), "it comes on every watch"},
		{func() func() apiwatch.Interface {
			w := sends(pod)
			return func() apiwatch.Interface { return w }
		}, append(slices.Clip(poison), "GAP unversioned from "+rv+" to "+rv, synced),
			"DefaultWatchReactor has one watch"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			got := record(t, watchWith(t, tt.watches()), time.Minute)
			if diff := cmp.Diff(tt.want, got[:min(len(got), len(tt.want))]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// TestFakeListsWithoutAVersion: reactors return lists with and without a version.
func TestFakeListsWithoutAVersion(t *testing.T) {
	list := func(rv string, names ...string) *unstructured.UnstructuredList {
		l := &unstructured.UnstructuredList{}
		for _, n := range names {
			l.Items = append(l.Items, *widget("default", n, "red"))
		}
		l.SetResourceVersion(rv)
		return l
	}
	tests := []struct {
		lists []*unstructured.UnstructuredList
		want  []string
		why   string
	}{
		{[]*unstructured.UnstructuredList{list("", "a", "b"), list("", "b", "c")},
			[]string{"ADDED a@", "ADDED b@", "SYNCED 1", "GAP unversioned from 1 to 1", "ADDED c@ inferred",
				"DELETED a@ inferred", "SYNCED 1"}, "the differences are found without versions"},
		{[]*unstructured.UnstructuredList{list("7", "a"), list("", "b")},
			[]string{"ADDED a@", "SYNCED 7", "GAP unversioned from 7 to 1", "ADDED b@ inferred", "DELETED a@ inferred",
				"SYNCED 1"}, "no version is no rewind"},
		{[]*unstructured.UnstructuredList{list(""), list("7", "b")},
			[]string{"SYNCED 1", "GAP unversioned from 1 to 7", "ADDED b@ inferred", "SYNCED 7"}, "an empty list"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClient()
			n := -1
			c.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				n++
				return true, tt.lists[min(n, len(tt.lists)-1)], nil
			})
			c.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
				w := apiwatch.NewFake()
				if n < len(tt.lists)-1 {
					w.Stop()
				}
				return true, w, nil
			})
			got := record(t, newStream(t, c, nil), time.Minute)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestEventsReturnsAfterTheWatchEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowToEnd{result: make(chan apiwatch.Event)}
		for ev := range watchWith(t, func() apiwatch.Interface { return w }).Events(t.Context()) {
			if ev.Type == stream.Synced {
				break
			}
		}
		if !w.ended.Load() {
			t.Error("the loop ended before the watch's goroutine")
		}
	})
}

func TestLateWatchIsStopped(t *testing.T) {
	// A client that ignores its context may return a watch after the request has timed out.
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
			t.Error("the late watch was not stopped")
		}
	})
}

// slowToEnd is a watch that ends half a second after Stop.
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

func TestUnclosedWatchDoesNotDelayTheEnd(t *testing.T) {
	// A watch that does not close its channel after Stop violates the contract of watch.Interface. It must not delay
	// the end of the loop.
	tests := []struct {
		watch func(chan apiwatch.Event) apiwatch.Interface
		want  time.Duration
		why   string
	}{
		{func(c chan apiwatch.Event) apiwatch.Interface { return apiwatch.NewProxyWatcher(c) }, 0,
			"its Stop closes nothing"},
		{func(chan apiwatch.Event) apiwatch.Interface { return unclosed(nil) }, 0, "nobody can close a nil channel"},
		{func(c chan apiwatch.Event) apiwatch.Interface { return unclosed(c) }, time.Second,
			"another type may close it soon"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := watchWith(t, func() apiwatch.Interface { return tt.watch(make(chan apiwatch.Event)) })
			ended := make(chan time.Duration)
			go func() {
				began := time.Now()
				for range s.Events(t.Context()) {
				}
				ended <- time.Since(began)
			}()
			synctest.Wait()
			s.Stop()
			if d := <-ended; d != tt.want {
				t.Errorf("the loop took %v to end, want %v: %s", d, tt.want, tt.why)
			}
		})
	}
}

// unclosed is a watch whose Stop does nothing.
type unclosed chan apiwatch.Event

func (u unclosed) ResultChan() <-chan apiwatch.Event { return u }

func (unclosed) Stop() {}

// client-go's fake ignores selectors in watches. Without the Stream's, a program's test would receive events that the
// program never does.
func TestStreamAppliesSelectorsOnAFake(t *testing.T) {
	tests := []struct {
		o    setup
		want []string
		why  string
	}{
		{setup{Options: stream.Options{LabelSelector: "colour=red"}},
			[]string{"ADDED a@", "SYNCED", "DELETED a@", "ADDED b@", "ADDED c@"},
			"a changed label makes an object come or go"},
		{setup{Options: stream.Options{Name: "b"}},
			[]string{"ADDED b@", "SYNCED", "MODIFIED b@", "DELETED b@"},
			"Name selects one object"},
		{setup{Options: stream.Options{FieldSelector: "spec.colour=red,metadata.name!=a"}},
			[]string{"SYNCED", "ADDED b@", "ADDED c@"},
			"FieldSelector works for any field"},
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

// TestDeliveredObjectIsNotTheFakes: a test double keeps the object that it sends, and the loop may change the event's.
func TestDeliveredObjectIsNotTheFakes(t *testing.T) {
	for _, mode := range []stream.ObjectsMode{stream.Full, stream.Metadata} {
		synctest.Test(t, func(t *testing.T) {
			kept := widget("default", "b", "blue")
			kept.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "test"}})
			want := kept.DeepCopy()
			c := fakeClient()
			c.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
				f := apiwatch.NewFakeWithChanSize(1, false)
				f.Add(kept)
				return true, f, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			delivered := 0
			for ev, err := range newStream(t, c, &setup{Options: stream.Options{Objects: mode}}).Events(ctx) {
				if err == nil && ev.Object != nil {
					delivered++
					ev.Object.SetLabels(nil)
					ev.Object.SetName("changed")
				}
			}
			if diff := cmp.Diff(want, kept); diff != "" || delivered != 1 {
				t.Errorf("%q: %d objects are delivered, want 1, and the fake's is changed (-want +got):\n%s",
					mode, delivered, diff)
			}
		})
	}
}
