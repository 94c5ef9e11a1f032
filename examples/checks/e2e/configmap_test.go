//go:build lab

package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/configmap"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

var configMaps = devserver.CRD{Kind: "ConfigMap", Namespaced: true}

// owner stands for a process that has the ConfigMap open and watches a namespace.
type owner struct {
	*recorder
	tracker *checkpoint.Tracker
}

func (l *lab) newOwner(cluster checkpoint.Cluster, r gvr.Resource, holder, namespace string) *owner {
	l.t.Helper()
	own := l.name("own")
	store, err := configmap.Open(l.t.Context(), l.client, own, "positions", &configmap.Options{Holder: holder})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = store.Close() })
	// Only Flush commits, since the interval is longer than the test.
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster: cluster, Interval: time.Hour, NoWriteAhead: true,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = tracker.Close() })
	s := newStream(l.t, l.client, r, &stream.Options{Namespaces: []string{namespace}})
	return &owner{record(l.t, s.With(stream.Run{Checkpoint: tracker})), tracker}
}

// awaitObjects waits for n events with objects, and returns all such events. It acks the others; a GAP among them is an
// error.
func (o *owner) awaitObjects(n int) []stream.Event {
	o.t.Helper()
	withObject := func(events []stream.Event) []stream.Event {
		return slices.DeleteFunc(slices.Clone(events), func(ev stream.Event) bool { return ev.Object == nil })
	}
	all := o.await("events with objects", func(events []stream.Event) bool { return len(withObject(events)) >= n })
	for _, ev := range all {
		if ev.Type == stream.Gap {
			o.t.Errorf("a GAP, though no version expired: %+v", ev.Gap)
		}
		if ev.Object == nil {
			ev.Ack()
		}
	}
	return withObject(all)
}

func (o *owner) flush() {
	o.t.Helper()
	if err := o.tracker.Flush(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
}

func ackAll(events []stream.Event) {
	for _, ev := range events {
		ev.Ack()
	}
}

// factsOf returns events as writes. Deletions have no version, since the writer does not know it.
func factsOf(events []stream.Event) []write {
	var facts []write
	for _, ev := range events {
		name := ev.Object.GetNamespace() + "/" + ev.Object.GetName()
		w := write{ev.Type, string(ev.Object.GetUID()), name, ev.ResourceVersion}
		if ev.Type == stream.Deleted {
			w.rv = ""
		}
		facts = append(facts, w)
	}
	return facts
}

// TestLabConfigMapOfTwoOwners: a process that opens a ConfigMap fences the process that still uses it, and continues
// after the last event that the first one acked and committed.
func TestLabConfigMapOfTwoOwners(t *testing.T) {
	cfg := labConfig(t, "GVRWATCH_LAB_ADMIN")
	l := newLab(t, dynamic.NewForConfigOrDie(cfg), schema.GroupResource{Resource: "configmaps"})
	cluster, err := clusterOf(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := resolve(t, newResolver(cfg, false), "configmaps")
	watched := l.name("watched")
	l.make(labNamespaces, "", l.name("own"), map[string]any{})
	l.make(labNamespaces, "", watched, map[string]any{})
	own := l.client.Resource(configMaps.Resource()).Namespace(l.name("own"))
	theirs := &unstructured.Unstructured{Object: map[string]any{}}
	theirs.SetAPIVersion("v1")
	theirs.SetKind("ConfigMap")
	theirs.SetName("positions")
	theirs.SetLabels(map[string]string{"theirs": "label"})
	theirs.SetAnnotations(map[string]string{"theirs": "annotation"})
	if _, err := own.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.remove(configMaps.Resource(), l.name("own"), "positions") })

	w := newWriter(t, cfg, configMaps, watched)
	change := func(n int) {
		for range n {
			w.writeOnce()
		}
	}
	first := l.newOwner(cluster, r, "first", watched)
	first.awaitSynced(1)
	change(60)
	events := first.awaitObjects(60)
	ackAll(events[:40])
	first.flush()
	committed := events[:40]
	change(20)
	events = first.awaitObjects(80)

	second := l.newOwner(cluster, r, "second", watched)
	ackAll(events[40:70])
	var fenced *checkpoint.FencedError
	for range 2 { // a FencedError is final
		err := first.tracker.Flush(t.Context())
		if !errors.As(err, &fenced) || fenced.Holder != "second" {
			t.Errorf("the first owner's commit returned %v, want a FencedError with holder second", err)
		}
	}
	if err := first.stream.Status().Checkpoint.Err; !errors.As(err, &fenced) {
		t.Errorf("the first owner's status has %v, want a FencedError", err)
	}

	rest := second.awaitObjects(40)
	handled := factsOf(append(slices.Clone(committed), rest...))
	if d := cmp.Diff(w.written(), handled, cmp.AllowUnexported(write{})); d != "" {
		t.Errorf("committed by the first owner plus delivered to the second (-want +got):\n%s", d)
	}
	ackAll(rest)
	second.flush()

	change(10)
	third := l.newOwner(cluster, r, "third", watched)
	if d := cmp.Diff(w.written()[80:], factsOf(third.awaitObjects(10)), cmp.AllowUnexported(write{})); d != "" {
		t.Errorf("delivered to the third owner (-want +got):\n%s", d)
	}
	got, err := own.Get(t.Context(), "positions", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetLabels()["theirs"] != "label" || got.GetAnnotations()["theirs"] != "annotation" {
		t.Errorf("labels %v, annotations %v: want those from before Open too", got.GetLabels(), got.GetAnnotations())
	}
	by, _, _ := unstructured.NestedString(got.Object, "data", "owner")
	if !strings.Contains(by, "third") {
		t.Errorf("the owner is %s, want the third", by)
	}
}
