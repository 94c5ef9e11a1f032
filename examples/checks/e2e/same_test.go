package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestSameObjectsAsClientGo: client-go's client and ours return the same objects in lists and watches of a real server.
func TestSameObjectsAsClientGo(t *testing.T) {
	cfg := shared.Config()
	c := newCluster(t, cfg)
	var odd []*unstructured.Unstructured
	for i, spec := range oddSpecs() {
		o := newObject(widgets, unique("same"))
		o.SetLabels(map[string]string{"test": c.label})
		o.Object["spec"], o.Object["status"] = spec, map[string]any{"n": int64(i)}
		got, err := c.objects(widgets, "default").Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		odd = append(odd, got)
		t.Cleanup(func() {
			c.objects(widgets, "default").Delete(context.Background(), got.GetName(), metav1.DeleteOptions{})
		})
	}
	n := compareClients(t, cfg, func(r gvr.Resource) bool { return r.ClusterWatch() })
	if n["ADDED"] < len(odd) {
		t.Errorf("compared only %d objects, want at least %d", n["ADDED"], len(odd))
	}
	compareLiveWatches(t, cfg, c)
}

// oddSpecs returns values that decoders tend to treat differently, as far as a server accepts them.
func oddSpecs() []map[string]any {
	numbers := map[string]any{
		"int": int64(7), "negative": int64(-7),
		"biggest": int64(9223372036854775807), "smallest": int64(-9223372036854775808),
		"half": 0.5, "whole": 1.0, "big": 1e300, "tiny": 5e-324, "over": 9223372036854775808.0,
		"e21": 1e21, "third": 1.0 / 3,
	}
	texts := map[string]any{
		"": "an empty key", "html": "<a href=\"x\">&</a>", "controls": "\x00\x01\b\f\n\r\t\x1f\x7f",
		"separators": "\u2028\u2029", "emoji": "👩‍👩‍👧 🏳️‍🌈", "漢字": "かな",
		"bad": "\xff\xfe", "quotes": `"\"\\`, "astral": "\U0010ffff", "replaced": "\ufffd",
	}
	nested := map[string]any{
		"list": []any{nil, true, false, []any{}, map[string]any{}, []any{[]any{int64(1)}}, "", 1.5},
		"null": nil, "kind": "Other", "apiVersion": int64(1), "items": "none", "metadata": []any{},
	}
	long := map[string]any{}
	for i := range 200 {
		long[fmt.Sprintf("key-%0*d", i, i)] = fmt.Sprintf("%*d", i*10, i)
	}
	return []map[string]any{numbers, texts, nested, long, {}}
}

// compareClients lists and watches with both clients every resource for which compare returns true. It returns the
// number of compared events of each type.
func compareClients(t *testing.T, cfg *rest.Config, compare func(gvr.Resource) bool) map[apiwatch.EventType]int {
	t.Helper()
	resources, err := newResolver(cfg, false).Watchables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stock := dynamic.NewForConfigOrDie(cfg)
	metadata := 0
	for _, r := range resources {
		if compare(r) {
			metadata += compareMetadata(t, cfg, stock, r)
		}
	}
	compared, lists := map[apiwatch.EventType]int{}, 0
	ours, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if !compare(r) {
			continue
		}
		// Repeat a comparison that differs: other tests may write between the two requests.
		var d string
		for range 5 {
			if d = compareLists(t, stock, ours, r); d == "" {
				break
			}
		}
		if d != "" {
			t.Errorf("list of %s: %s", r, d)
		}
		lists++
		for range 5 {
			var n map[apiwatch.EventType]int
			if n, d = compareSnapshots(t, stock, ours, r); d == "" {
				for kind, number := range n {
					compared[kind] += number
				}
				break
			}
		}
		if d != "" {
			t.Errorf("watch of %s: %s", r, d)
		}
	}
	t.Logf("%d lists, events: %v, metadata of %d objects", lists, compared, metadata)
	if lists == 0 || metadata == 0 || compared[apiwatch.Bookmark] == 0 {
		t.Error("nothing was compared")
	}
	return compared
}

func compareLists(t *testing.T, stock, ours dynamic.Interface, r gvr.Resource) string {
	t.Helper()
	var lists [2]*unstructured.UnstructuredList
	for i, c := range []dynamic.Interface{stock, ours} {
		var err error
		lists[i], err = c.Resource(r.GroupVersionResource).List(t.Context(), metav1.ListOptions{Limit: 500})
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		// The version of a list rises with writes to any resource.
		lists[i].SetResourceVersion("")
		lists[i].SetContinue("")
	}
	return decodetest.DifferenceOfLists(lists[0], lists[1])
}

// compareSnapshots compares the initial events of two watches.
func compareSnapshots(
	t *testing.T, stock, ours dynamic.Interface, r gvr.Resource,
) (map[apiwatch.EventType]int, string) {
	t.Helper()
	var all [2]map[string]map[string]any
	var types [2]map[apiwatch.EventType]int
	for i, c := range []dynamic.Interface{stock, ours} {
		all[i], types[i] = snapshot(t, c, r)
	}
	if d := cmp.Diff(types[0], types[1]); d != "" {
		return nil, d
	}
	for _, name := range slices.Sorted(maps.Keys(all[0])) {
		if d := decodetest.Difference(all[0][name], all[1][name]); d != "" {
			return nil, name + ": " + d
		}
	}
	return types[0], ""
}

// snapshot returns the initial events of a watch by type and name, and their number by type.
func snapshot(
	t *testing.T, c dynamic.Interface, r gvr.Resource,
) (map[string]map[string]any, map[apiwatch.EventType]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	yes := true
	w, err := c.Resource(r.GroupVersionResource).Watch(ctx, metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: &yes,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	defer w.Stop()
	all, types := map[string]map[string]any{}, map[apiwatch.EventType]int{}
	for ev := range w.ResultChan() {
		types[ev.Type]++
		o, ok := ev.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%s: %s of %T: %v", r, ev.Type, ev.Object, ev.Object)
		}
		if ev.Type == apiwatch.Bookmark {
			o.SetResourceVersion("") // it rises with writes to any resource
			all["the bookmark"] = o.Object
			if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				return all, types
			}
			continue
		}
		all[string(ev.Type)+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	t.Fatalf("the watch of %s ended before its initial events did", r)
	return nil, nil
}

// compareLiveWatches compares two watches of the same changes.
func compareLiveWatches(t *testing.T, cfg *rest.Config, c *cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ours, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.objects(widgets, "default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var watches []apiwatch.Interface
	from := metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
	for _, client := range []dynamic.Interface{dynamic.NewForConfigOrDie(cfg), ours} {
		w, err := client.Resource(widgets.Resource()).Namespace("default").Watch(ctx, from)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	name := unique("written")
	c.create(widgets, "default", name)
	for range 50 {
		c.touch(widgets, "default", name)
	}
	c.delete(widgets, "default", name)
	for i := 0; ; i++ {
		want, got := <-watches[0].ResultChan(), <-watches[1].ResultChan()
		if want.Type != got.Type {
			t.Fatalf("event %d: want %s %v, got %s %v", i, want.Type, want.Object, got.Type, got.Object)
		}
		o, ok := want.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("event %d: %s %v", i, want.Type, want.Object)
		}
		if d := decodetest.Difference(o.Object, got.Object.(*unstructured.Unstructured).Object); d != "" {
			t.Errorf("event %d: %s", i, d)
		}
		if want.Type == apiwatch.Deleted && o.GetName() == name {
			if i < 51 {
				t.Errorf("DELETED is event %d, want 51 events before it", i)
			}
			return
		}
	}
}
