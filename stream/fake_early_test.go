package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// counted is a fake that counts the watches that are open.
type counted struct {
	*fake.FakeDynamicClient // a program's tests embed it, too
	open                    atomic.Int32
}

func countedFake(objects ...runtime.Object) *counted {
	c := &counted{FakeDynamicClient: fakeClient(objects...)}
	c.PrependWatchReactor("*", func(a clienttesting.Action) (bool, apiwatch.Interface, error) {
		w, err := c.trackerWatch(a)
		return true, w, err
	})
	return c
}

// trackerWatch returns what the fake would.
func (c *counted) trackerWatch(a clienttesting.Action) (apiwatch.Interface, error) {
	o := a.(clienttesting.WatchActionImpl).ListOptions
	w, err := c.Tracker().Watch(a.GetResource(), a.GetNamespace(), o)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedWatch{w, c}, nil
}

type countedWatch struct {
	apiwatch.Interface
	of *counted
}

func (w *countedWatch) Stop() {
	w.of.open.Add(-1)
	w.Interface.Stop()
}

// verbs returns the verbs of all requests to read.
func (c *counted) verbs() string {
	var verbs []string
	for _, a := range c.Actions() {
		if v := a.GetVerb(); v == "list" || v == "watch" {
			verbs = append(verbs, v)
		}
	}
	return strings.Join(verbs, " ")
}

func withoutVersions(events []string) string {
	for i, ev := range events {
		events[i], _, _ = strings.Cut(strings.TrimSuffix(ev, "@"), "@")
		if strings.HasPrefix(ev, "SYNCED") || strings.HasPrefix(ev, "GAP") {
			events[i], _, _ = strings.Cut(ev, " ")
		}
	}
	return strings.Join(events, " ")
}

// TestFakeDeliversWhatTheLoopChangesBeforeSynced: the fake's watch begins when it is opened, so that must be before the
// loop body runs.
func TestFakeDeliversWhatTheLoopChangesBeforeSynced(t *testing.T) {
	type api = dynamic.ResourceInterface
	update := func(name, colour string) func(*testing.T, api) {
		return func(t *testing.T, w api) {
			must(t)(w.Update(t.Context(), widget("default", name, colour), metav1.UpdateOptions{}))
		}
	}
	create := func(name string) func(*testing.T, api) {
		return func(t *testing.T, w api) {
			must(t)(w.Create(t.Context(), widget("default", name, "red"), metav1.CreateOptions{}))
		}
	}
	remove := func(name string) func(*testing.T, api) {
		return func(t *testing.T, w api) { must(t)(nil, w.Delete(t.Context(), name, metav1.DeleteOptions{})) }
	}
	changes := []struct {
		does []func(*testing.T, api)
		want string
		why  string
	}{
		{[]func(*testing.T, api){remove("a")}, "DELETED a", "the object being delivered"},
		{[]func(*testing.T, api){remove("b")}, "DELETED b", "one that the list has and the loop has not received"},
		{[]func(*testing.T, api){update("a", "blue"), update("b", "blue")}, "MODIFIED a MODIFIED b", "updates"},
		{[]func(*testing.T, api){update("b", "red")}, "", "the same state is no change"},
		{[]func(*testing.T, api){create("c")}, "ADDED c", "a new object"},
		{[]func(*testing.T, api){remove("a"), create("a")}, "DELETED a ADDED a", "a new object of the same content"},
		{[]func(*testing.T, api){create("c"), remove("c")}, "ADDED c DELETED c", "it came and went"},
	}
	const listed = "ADDED a ADDED b SYNCED"
	runs := []struct {
		setup      setup
		checkpoint bool
		versions   bool // the list has one
	}{
		{setup{}, false, true},
		{setup{}, false, false},
		{setup{}, true, true},
		{ofOptions(stream.Options{Namespaces: []string{"default", "other"}}), false, true},
		{ofOptions(stream.Options{Objects: stream.Raw, LabelSelector: "colour"}), false, true},
	}
	for i, run := range runs {
		for _, tt := range changes {
			t.Run(fmt.Sprint(i, " ", tt.why), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := countedFake(widget("default", "a", "red"), widget("default", "b", "red"))
					if !run.versions {
						c.PrependReactor("list", "widgets", unversionedLists(c.FakeDynamicClient))
					}
					if run.checkpoint {
						var err error
						run.setup.Checkpoint, err = checkpoint.NewTracker(&checkpoint.Memory{}, &checkpoint.Options{
							Cluster: checkpoint.Cluster{UID: "fake"},
						})
						noError(t, err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					var got []string
					for ev, err := range streamOf(t, c, widgets(), &run.setup).Events(ctx) {
						if err != nil {
							break
						}
						if got = append(got, text(ev)); len(got) == 1 {
							for _, f := range tt.does {
								f(t, c.Resource(widgets().GroupVersionResource).Namespace("default"))
							}
						}
					}
					want := strings.TrimSpace(listed + " " + tt.want)
					if len(run.setup.Namespaces) > 1 { // one may be ahead of the others, for which SYNCED waits
						want = strings.ReplaceAll(want, " SYNCED", "")
						got = slices.DeleteFunc(got, func(ev string) bool { return strings.HasPrefix(ev, "SYNCED") })
					}
					if diff := cmp.Diff(want, withoutVersions(got)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", tt.why, diff)
					}
					if c.open.Load() != 0 {
						t.Errorf("%d watches are left open", c.open.Load())
					}
				})
			})
		}
	}
}

// slowToWatch is a fake that opens the watches of a namespace a second after they are requested.
type slowToWatch struct {
	*counted
	namespace string
}

func (s *slowToWatch) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return &slowResource{s.counted.Resource(r), s.namespace}
}

type slowResource struct {
	dynamic.NamespaceableResourceInterface
	namespace string
}

func (s *slowResource) Namespace(n string) dynamic.ResourceInterface {
	r := s.NamespaceableResourceInterface.Namespace(n)
	if n == s.namespace {
		return &slowNamespace{r}
	}
	return r
}

type slowNamespace struct{ dynamic.ResourceInterface }

func (s *slowNamespace) Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	time.Sleep(time.Second)
	return s.ResourceInterface.Watch(ctx, o)
}

// TestFakeDeliversWhatTheLoopChangesInAnotherNamespace: the loop body does not run between a list and its watch.
func TestFakeDeliversWhatTheLoopChangesInAnotherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowToWatch{countedFake(
			widget("default", "a", "red"), widget("default", "b", "red"), widget("other", "c", "red")), "other"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got []string
		s := streamOf(t, c, widgets(), &setup{Options: stream.Options{Namespaces: []string{"default", "other"}}})
		for ev, err := range s.Events(ctx) {
			if err != nil {
				break
			}
			got = append(got, text(ev))
			switch text(ev) {
			case "ADDED a@":
				time.Sleep(time.Millisecond) // the other namespace has its turn next
			case "ADDED b@":
				api := c.Resource(widgets().GroupVersionResource).Namespace("other")
				must(t)(nil, api.Delete(ctx, "c", metav1.DeleteOptions{}))
			}
		}
		slices.Sort(got)
		want := "ADDED a ADDED b ADDED c DELETED c SYNCED"
		if diff := cmp.Diff(want, withoutVersions(got)); diff != "" || c.open.Load() != 0 {
			t.Errorf("%d watches are left open (-want +got):\n%s", c.open.Load(), diff)
		}
	})
}

// TestFakeIsReadWhileItsListIsDelivered: the fake panics in who changes an object while a watch has 100 unread events.
func TestFakeIsReadWhileItsListIsDelivered(t *testing.T) {
	const objects = 250
	for _, namespaces := range [][]string{nil, {"default", "other"}} {
		synctest.Test(t, func(t *testing.T) {
			var all []runtime.Object
			for i := range objects {
				all = append(all, widget([]string{"default", "other"}[i%2], fmt.Sprint("o", i), "red"))
			}
			c := countedFake(all...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := map[stream.Type]int{}
			s := streamOf(t, c, widgets(), &setup{Options: stream.Options{Namespaces: namespaces}})
			for ev, err := range s.Events(ctx) {
				if err != nil {
					break
				}
				if got[ev.Type]++; ev.Type == stream.Added {
					w := c.Resource(widgets().GroupVersionResource).Namespace(ev.Meta().GetNamespace())
					o := widget(ev.Meta().GetNamespace(), ev.Meta().GetName(), "blue")
					must(t)(w.Update(ctx, o, metav1.UpdateOptions{}))
				}
			}
			want := map[stream.Type]int{stream.Added: objects, stream.Synced: 1, stream.Modified: objects}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("namespaces %v (-want +got):\n%s", namespaces, diff)
			}
		})
	}
}

// TestEarlyWatchOfAFakeEnds: whatever ends a run or a list before SYNCED leaves no watch open, and there are no more
// requests than a list and a watch each time.
func TestEarlyWatchOfAFakeEnds(t *testing.T) {
	refused := apierrors.NewForbidden(widgets().GroupResource(), "", errors.New("not yours"))
	fails := func(verb string, times int, err error) func(*counted) {
		return func(c *counted) {
			if verb == "watch" {
				c.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
					times--
					return times >= 0, nil, err
				})
				return
			}
			c.PrependReactor(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				times--
				return times >= 0, nil, err
			})
		}
	}
	// paged returns a list of two pages, the second of which fails for the first time.
	paged := func(c *counted) {
		lists := 0
		c.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			l := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*widget("default", "b", "red")}}
			switch lists++; lists {
			case 1:
				l.Items[0] = *widget("default", "a", "red")
				l.SetContinue("more")
			case 2:
				return true, nil, errors.New("not yet")
			}
			return true, l, nil
		})
	}
	tests := []struct {
		prepare func(*counted)
		run     stream.Run
		leave   bool // the loop at the first event
		want    string
		verbs   string
		why     string
	}{
		{want: "ADDED a SYNCED", verbs: "list watch", why: "nothing fails"},
		{leave: true, want: "ADDED a", verbs: "list watch", why: "the loop is left"},
		{run: stream.Run{Until: stream.UntilSynced}, want: "ADDED a SYNCED", verbs: "list watch", why: "UntilSynced"},
		{run: stream.Run{Start: stream.Now()}, want: "SYNCED", verbs: "list watch", why: "Now"},
		{prepare: fails("list", 1, errors.New("not yet")), want: "ADDED a SYNCED", verbs: "list list watch",
			why: "a list that fails opens no watch"},
		{prepare: fails("watch", 1, errors.New("not yet")), want: "ADDED a SYNCED", verbs: "list watch watch",
			why: "a watch that fails is tried again after a wait, and not at once"},
		{prepare: fails("watch", 9, refused), want: "ADDED a", verbs: "list watch",
			why: "a refusal ends the run after what was listed"},
		{prepare: paged, want: "ADDED a ADDED b SYNCED", verbs: "list watch list list watch",
			why: "a page fails: the watch ends with the wait"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := countedFake(widget("default", "a", "red"))
			if tt.prepare != nil {
				tt.prepare(c)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var got []string
			for ev, err := range streamOf(t, c, widgets(), &setup{Run: tt.run}).Events(ctx) {
				if err != nil {
					break
				}
				if got = append(got, text(ev)); tt.leave {
					break
				}
			}
			if diff := cmp.Diff([]string{tt.want, tt.verbs}, []string{withoutVersions(got), c.verbs()}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			if c.open.Load() != 0 {
				t.Errorf("%s: %d watches are left open", tt.why, c.open.Load())
			}
		})
	}
}

// TestFakeDeliversWhatIsChangedWhileAGapIsFilled: the watch is open before the differences are delivered.
func TestFakeDeliversWhatIsChangedWhileAGapIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := countedFake(widget("default", "a", "red"), widget("default", "b", "red"))
		w := c.Resource(widgets().GroupVersionResource).Namespace("default")
		var last apiwatch.Interface
		c.PrependWatchReactor("*", func(a clienttesting.Action) (_ bool, _ apiwatch.Interface, err error) {
			last, err = c.trackerWatch(a)
			return true, last, err
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got []string
		for ev, err := range streamOf(t, c, widgets(), nil).Events(ctx) {
			if err != nil {
				break
			}
			got = append(got, text(ev))
			switch {
			case ev.Type == stream.Synced && len(got) == 3:
				last.(*countedWatch).Interface.Stop() // as a test ends it
				must(t)(w.Update(ctx, widget("default", "a", "blue"), metav1.UpdateOptions{}))
			case ev.Type == stream.Gap:
				must(t)(nil, w.Delete(ctx, "b", metav1.DeleteOptions{}))
			}
		}
		want := "ADDED a ADDED b SYNCED GAP MODIFIED a SYNCED DELETED b"
		if diff := cmp.Diff(want, withoutVersions(got)); diff != "" || c.open.Load() != 0 {
			t.Errorf("%d watches are left open (-want +got):\n%s", c.open.Load(), diff)
		}
	})
}

// TestDoorsDeliverWhatIsChangedAfterTheFirstObject: so do the shapes of package informer.
func TestDoorsDeliverWhatIsChangedAfterTheFirstObject(t *testing.T) {
	doors := map[string]func(context.Context, *stream.Stream) apiwatch.Interface{
		"Watch": func(ctx context.Context, s *stream.Stream) apiwatch.Interface {
			return informer.Watch(ctx, s.With(stream.Run{}))
		},
		"ListerWatcher": func(ctx context.Context, s *stream.Stream) apiwatch.Interface {
			w, err := informer.NewListerWatcher(s).WatchWithContext(ctx, metav1.ListOptions{})
			noError(t, err)
			return w
		},
	}
	for door, open := range doors {
		synctest.Test(t, func(t *testing.T) {
			c := countedFake(widget("default", "a", "red"), widget("default", "b", "red"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := open(ctx, streamOf(t, c, widgets(), nil).Stream)
			var got []string
			for ev := range w.ResultChan() {
				o, ok := ev.Object.(*unstructured.Unstructured)
				if !ok || ev.Type == apiwatch.Bookmark {
					continue
				}
				if got = append(got, fmt.Sprint(ev.Type, " ", o.GetName())); len(got) == 1 {
					api := c.Resource(widgets().GroupVersionResource).Namespace("default")
					must(t)(nil, api.Delete(ctx, "a", metav1.DeleteOptions{}))
				}
			}
			w.Stop()
			if diff := cmp.Diff([]string{"ADDED a", "ADDED b", "DELETED a"}, slices.Clip(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", door, diff)
			}
		})
	}
}
