package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// fakeRow is what a door is tried with on client-go's fake: see TestFakeTakesEveryOptionAtEveryDoor.
type fakeRow struct {
	field string // of stream.Options, stream.Requests or stream.Run, the one that the row is about
	setup setup
	// want is what Stream, Mux and follow deliver.
	want string
	why  string
}

const (
	existing = "ADDED a ADDED b ADDED d SYNCED"
	changes  = "MODIFIED a ADDED c DELETED b"
	redOnes  = "ADDED a ADDED d SYNCED DELETED a ADDED c"
)

func hasRed(m stream.Meta) bool { return m.GetLabels()["colour"] == "red" }

func ofOptions(o stream.Options) setup { return setup{Options: o} }

func ofRequests(q stream.Requests) setup { return ofOptions(stream.Options{Requests: q}) }

func ofRun(r stream.Run) setup { return setup{Run: r} }

// fakeRows returns a row at least for each field, with new values.
func fakeRows(t *testing.T) []fakeRow {
	tracker, err := checkpoint.NewTracker(&checkpoint.Memory{}, &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "fake"},
	})
	noError(t, err)
	known := checkpoint.Position{
		ResourceVersions: map[string]string{"": "4"},
		Objects: []checkpoint.Object{
			{Namespace: "default", Name: "a", ResourceVersion: "1"},
			{Namespace: "default", Name: "z", ResourceVersion: "1"},
		},
	}
	raw, meta, all := stream.Raw, stream.Metadata, existing+" "+changes
	return []fakeRow{
		{"", setup{}, all, "the zero value"},
		{"Namespaces", ofOptions(stream.Options{Namespaces: []string{"default"}}),
			"ADDED a ADDED b SYNCED " + changes, "d is in another namespace"},
		{"Namespaces", ofOptions(stream.Options{Namespaces: []string{"default", "other"}}), all, "a fan-in of two"},
		{"Namespaces", ofOptions(stream.Options{Namespaces: []string{"default", "other"}, Objects: raw}), all,
			"and raw"},
		{"LabelSelector", ofOptions(stream.Options{LabelSelector: "colour=red"}),
			redOnes, "a turns blue, b is"},
		{"LabelSelector", ofOptions(stream.Options{LabelSelector: "colour=red", Objects: raw}),
			redOnes, "the selector needs the labels of JSON"},
		{"LabelSelector", ofOptions(stream.Options{LabelSelector: "colour=red", Objects: meta}),
			redOnes, "the selector needs the labels"},
		{"FieldSelector", ofOptions(stream.Options{FieldSelector: "spec.colour=red"}),
			redOnes, "any field"},
		{"FieldSelector", ofOptions(stream.Options{FieldSelector: "spec.colour=red", Objects: raw}),
			redOnes, "any field of JSON"},
		{"FieldSelector", ofOptions(stream.Options{FieldSelector: "spec.colour=red", Objects: meta}),
			redOnes, "a field that Metadata lacks"},
		{"FieldSelector", ofOptions(stream.Options{FieldSelector: "spec.size=3", Objects: raw}),
			"ADDED a ADDED b ADDED d SYNCED MODIFIED a ADDED c DELETED b", "a number"},
		{"Name", ofOptions(stream.Options{Name: "b"}), "ADDED b SYNCED DELETED b", "one object"},
		{"Name", ofOptions(stream.Options{Name: "b", Objects: raw}), "ADDED b SYNCED DELETED b", "one object, raw"},
		{"Select", ofOptions(stream.Options{Select: hasRed}), redOnes, "after a label"},
		{"Select", ofOptions(stream.Options{Select: hasRed, Objects: raw}), redOnes,
			"after a label, raw"},
		{"Select", ofOptions(stream.Options{Select: hasRed, Objects: meta}), redOnes,
			"after a label of Metadata"},
		{"Objects", ofOptions(stream.Options{Objects: raw}), all, "JSON"},
		{"Objects", ofOptions(stream.Options{Objects: meta}), all, "metadata"},
		{"Transform", ofOptions(stream.Options{Transform: func(o *unstructured.Unstructured) { o.SetLabels(nil) }}),
			all,
			"it may not change the fake's object"},
		{"Transform", ofOptions(stream.Options{LabelSelector: "colour", Transform: func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
		}}), all, "what it removes is still selected by"},
		{"Trace", ofOptions(stream.Options{Trace: &stream.Trace{
			StatusChanged: func(stream.Status) {}, RequestDone: func(stream.Request) {},
			FrameReceived: func(stream.Event) {}, WatchClosed: func(stream.Request) {},
		}}), all, "all callbacks"},
		{"Logger", ofOptions(stream.Options{Logger: slog.New(slog.NewTextHandler(t.Output(),
			&slog.HandlerOptions{Level: slog.LevelDebug}))}), all, "every request is logged"},
		{"PagedLists", ofRequests(stream.Requests{PagedLists: true}), all, "the fake has no other lists"},
		{"PageSize", ofRequests(stream.Requests{PageSize: 1}), all, "the fake has no pages"},
		{"WatchLifetime", ofRequests(stream.Requests{WatchLifetime: time.Second}), all, "the fake never ends a watch"},
		{"IdleTimeout", ofRequests(stream.Requests{IdleTimeout: time.Second}), all, "the fake is silent without fault"},
		{"GiveUpAfter", ofRequests(stream.Requests{GiveUpAfter: time.Second}), all, "nothing fails"},
		{"Start", ofRun(stream.Run{Start: stream.Now()}), "SYNCED " + changes, "Now"},
		{"Start", setup{stream.Options{Objects: raw}, stream.Run{Start: stream.Now()}}, "SYNCED " + changes,
			"Now, raw"},
		{"Start", setup{stream.Options{Objects: raw, Select: hasRed}, stream.Run{Start: stream.Now()}},
			"SYNCED DELETED a ADDED c", "Now, raw, selected"},
		{"Start", ofRun(stream.Run{Start: stream.After("4")}), "SYNCED " + changes, "After"},
		{"Start",
			setup{stream.Options{Objects: raw, LabelSelector: "colour=red"}, stream.Run{Start: stream.After("4")}},
			"SYNCED ADDED c", "After, raw, selected: nothing says that a was selected"},
		{"Start", ofRun(stream.Run{Start: stream.From(known)}),
			"MODIFIED a ADDED b ADDED d DELETED z SYNCED " + changes, "From compares a list with the position"},
		{"Start", setup{stream.Options{Objects: raw}, stream.Run{Start: stream.From(known)}},
			"MODIFIED a ADDED b ADDED d DELETED z SYNCED " + changes, "From, raw: an inferred DELETED is JSON"},
		{"Start", ofRun(stream.Run{Start: stream.Resume()}), all, "the first run begins with a snapshot"},
		{"Until", ofRun(stream.Run{Until: stream.UntilSynced}), existing, "it ends before the changes"},
		{"Until", setup{stream.Options{Objects: raw}, stream.Run{Until: stream.UntilSynced}}, existing,
			"the same, raw"},
		{"Until", ofRun(stream.Run{Until: stream.UntilClosed}), all, "the fake never ends a watch"},
		{"Checkpoint", ofRun(stream.Run{Checkpoint: tracker}), all, "the first run begins with a snapshot"},
		{"Checkpoint", setup{stream.Options{Objects: raw}, stream.Run{Checkpoint: tracker, Key: "raw"}}, all, "raw"},
		{"Key", ofRun(stream.Run{Key: "mine"}), all, "a name"},
		{"FailOnGap", ofRun(stream.Run{FailOnGap: true}), all, "there is no gap"},
		{"RetryRefused", ofRun(stream.Run{RetryRefused: true}), all, "nothing is refused"},
		{"Bookmarks", ofRun(stream.Run{Bookmarks: true}), all, "the fake sends none"},
	}
}

// fields returns the names of the fields of a struct.
func fieldsOf(structs ...any) (names []string) {
	for _, s := range structs {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(s)) {
			if f.Name != "Requests" { // it has fields of its own
				names = append(names, f.Name)
			}
		}
	}
	return names
}

func TestFakeRowsHaveEveryField(t *testing.T) {
	got := map[string]bool{}
	for _, row := range fakeRows(t) {
		got[row.field] = true
	}
	delete(got, "")
	want := fieldsOf(stream.Options{}, stream.Requests{}, stream.Run{})
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("add a row for each field (-want +got):\n%s", diff)
	}
}

// fakeDoor is what reads a Stream on the fake.
type fakeDoor struct {
	// read reads until ctx ends, and notes what arrives.
	read func(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error
	// takesRun says that it takes a stream.Run, and not only a Stream.
	takesRun bool
	// hasEvents says that it has every event, in order. Else only what exists at the end is compared.
	hasEvents bool
	// refuses returns the field that the error must name, or "" for no error. Nil is for no error.
	refuses func(setup) string
}

// seen is what a door has delivered.
type seen struct {
	mu     sync.Mutex
	events []string
	exists map[string]bool
}

// note notes an event: its type, and the name of its object unless that is empty.
func (s *seen) note(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, strings.TrimSpace(kind+" "+name))
	switch kind {
	case "ADDED", "MODIFIED":
		s.exists[name] = true
	case "DELETED":
		delete(s.exists, name)
	}
}

// set notes whether an object exists.
func (s *seen) set(name string, exists bool) {
	if exists {
		s.note("ADDED", name)
	} else {
		s.note("DELETED", name)
	}
}

var fakeDoors = map[string]fakeDoor{
	"Stream":         {read: readStream, takesRun: true, hasEvents: true},
	"Mux":            {read: readMux, takesRun: true, hasEvents: true},
	"Mux Latest":     {read: readLatest, takesRun: true},
	"follow":         {read: readFollow, takesRun: true, hasEvents: true, refuses: followRefuses},
	"store":          {read: readStore},
	"store packed":   {read: readPackedStore},
	"controller":     {read: readController, takesRun: true},
	"source":         {read: readSource, takesRun: true, refuses: checkpointRefused},
	"condition":      {read: readCondition, takesRun: true, refuses: conditionRefuses},
	"watch":          {read: readWatch, takesRun: true, refuses: checkpointRefused},
	"lister watcher": {read: readListerWatcher},
	"informer":       {read: readInformer},
}

// TestFakeTakesEveryOptionAtEveryDoor: on client-go's fake every option has its meaning, or is refused by its name,
// with whatever reads the Stream. So it is if a reactor of the user returns lists without a version.
func TestFakeTakesEveryOptionAtEveryDoor(t *testing.T) {
	for door, d := range fakeDoors {
		for i := range fakeRows(t) {
			row := fakeRows(t)[i]
			if !d.takesRun && !reflect.ValueOf(row.setup.Run).IsZero() {
				continue
			}
			for _, versions := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d %s/%t", door, i, row.field, versions), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testFakeRow(t, d, fakeRows(t)[i], versions) })
				})
			}
		}
	}
}

func sizedWidget(namespace, name, colour string) *unstructured.Unstructured {
	o := widget(namespace, name, colour)
	o.Object["spec"] = map[string]any{"colour": colour, "size": int64(3)}
	return o
}

// unversionedLists returns a reactor as users write it.
func unversionedLists(c *fake.FakeDynamicClient) clienttesting.ReactionFunc {
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		kind := widgets().GroupVersionKind()
		o, err := c.Tracker().List(a.GetResource(), kind, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, &unstructured.UnstructuredList{Items: o.(*unstructured.UnstructuredList).Items}, nil
	}
}

func testFakeRow(t *testing.T, d fakeDoor, row fakeRow, versions bool) {
	c := fakeClient(sizedWidget("default", "a", "red"), sizedWidget("default", "b", "blue"),
		sizedWidget("other", "d", "red"))
	if !versions {
		c.PrependReactor("list", "widgets", unversionedLists(c))
	}
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := &seen{exists: map[string]bool{}}, make(chan error, 1)
	go func() { ended <- d.read(ctx, c, row.setup, got) }()
	time.Sleep(time.Minute)
	w := c.Resource(widgets().GroupVersionResource).Namespace("default")
	must(t)(w.Update(ctx, sizedWidget("default", "a", "blue"), metav1.UpdateOptions{}))
	must(t)(w.Create(ctx, sizedWidget("default", "c", "red"), metav1.CreateOptions{}))
	must(t)(nil, w.Delete(ctx, "b", metav1.DeleteOptions{}))
	time.Sleep(time.Minute)
	cancel()
	err := <-ended
	if d.refuses != nil {
		if field := d.refuses(row.setup); field != "" {
			if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
				t.Errorf("%s: the error is %v, want one about %s", row.why, err, field)
			}
			return
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("%s: %v", row.why, err)
	}
	want := &seen{exists: map[string]bool{}}
	for words := strings.Fields(row.want); len(words) > 0; words = words[1:] {
		if words[0] == "SYNCED" {
			want.note("SYNCED", "")
			continue
		}
		want.note(words[0], words[1])
		words = words[1:]
	}
	if !d.hasEvents {
		got.events, want.events = nil, nil
	}
	if len(row.setup.Namespaces) > 1 { // there is no order between them
		slices.Sort(got.events)
		slices.Sort(want.events)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{}), cmpopts.IgnoreFields(seen{}, "mu")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", row.why, diff)
	}
}
