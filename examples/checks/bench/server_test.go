package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startRun starts a server, and returns the configuration of a client of a run.
func startRun(t *testing.T, of scenario) *rest.Config {
	t.Helper()
	s := newServer()
	serving := httptest.NewServer(s.handler())
	t.Cleanup(serving.Close)
	t.Cleanup(serving.CloseClientConnections)
	return &rest.Config{Host: serving.URL + s.add(of), QPS: -1}
}

func podsOf(t *testing.T, c *rest.Config) dynamic.NamespaceableResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(pods.GroupVersionResource)
}

func fromList() metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: strconv.Itoa(firstVersion), AllowWatchBookmarks: true}
}

// read returns the objects of a watch until its next bookmark.
func read[T any](t *testing.T, w watch.Interface, of watch.EventType) (all []T) {
	t.Helper()
	for ev := range w.ResultChan() {
		if ev.Type == watch.Bookmark {
			return all
		}
		o, ok := ev.Object.(T)
		if ev.Type != of || !ok {
			t.Fatalf("%s of a %T, want %s", ev.Type, ev.Object, of)
		}
		all = append(all, o)
	}
	t.Fatal("the watch ended before its bookmark")
	return nil
}

// TestLists: a whole list, pages, and a streaming list have the same objects, also if these are more than templates.
func TestLists(t *testing.T) {
	const objects = templates + 203 // the last page is not full
	c := podsOf(t, startRun(t, scenario{Objects: objects, Size: small}))
	whole, err := c.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(whole.Items) != objects || whole.GetResourceVersion() != strconv.Itoa(firstVersion) {
		t.Fatalf("%d objects at %s (%v), want %d", len(whole.Items), whole.GetResourceVersion(), err, objects)
	}
	got := map[string][]unstructured.Unstructured{}
	for o := (metav1.ListOptions{Limit: 500}); len(got) == 0 || o.Continue != ""; {
		page, err := c.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got["pages"] = append(got["pages"], page.Items...)
		if left := page.GetRemainingItemCount(); left != nil && int(*left) != objects-len(got["pages"]) {
			t.Errorf("remainingItemCount %d after %d objects", *left, len(got["pages"]))
		}
		o.Continue = page.GetContinue()
	}
	w, err := c.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range read[*unstructured.Unstructured](t, w, watch.Added) {
		got["initial events"] = append(got["initial events"], *u)
	}
	uids := map[any]bool{}
	for i, want := range whole.Items {
		uids[want.GetUID()], uids[want.GetName()] = true, true
		for name, items := range got {
			if len(items) != objects || !reflect.DeepEqual(want.Object, items[i].Object) { // go-cmp is slow
				t.Fatalf("%s have %d objects, the %d-th of them is not %v", name, len(items), i, want)
			}
		}
	}
	if len(uids) != 2*objects {
		t.Errorf("%d objects have %d names and uids", objects, len(uids))
	}
}

// TestForms: in each form that caches ask for, a list, its pages and a streaming list have the same objects, which are
// those in JSON.
func TestForms(t *testing.T) {
	const objects = 25
	for _, size := range []string{small, ofSecret} {
		c := startRun(t, scenario{Objects: objects, Size: size})
		of := scenario{Size: size}.resource()
		resources := dynamic.NewForConfigOrDie(c).Resource(of.GroupVersionResource)
		whole, err := resources.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(whole.Items) != objects {
			t.Fatalf("%d objects (%v), want %d", len(whole.Items), err, objects)
		}
		for name, as := range map[string]representation{
			"typed": asTyped, "unstructured": asUnstructured, "metadata": asMetadata,
		} {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(of.GroupVersion().WithKind(of.Kind), meta.RESTScopeNamespace)
			reader, err := client.NewWithWatch(c, client.Options{Mapper: mapper})
			if err != nil {
				t.Fatal(err)
			}
			_, all := as(of.Kind)
			_, page := as(of.Kind)
			_, rest := as(of.Kind)
			_, stream := as(of.Kind)
			limited := &client.ListOptions{Limit: 20}
			err = errors.Join(reader.List(t.Context(), all), reader.List(t.Context(), page, limited))
			limited.Continue = page.GetContinue()
			err = errors.Join(err, reader.List(t.Context(), rest, limited))
			w, watchErr := reader.Watch(t.Context(), stream, &client.ListOptions{Raw: &metav1.ListOptions{
				SendInitialEvents: new(true), AllowWatchBookmarks: true,
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}})
			if err := errors.Join(err, watchErr); err != nil {
				t.Fatalf("%s %s: %v", of.Kind, name, err)
			}
			got := map[string][]kruntime.Object{"list": items(t, all),
				"pages":  append(items(t, page), items(t, rest)...),
				"stream": read[kruntime.Object](t, w, watch.Added)}
			for i := range whole.Items {
				wanted, _ := as(of.Kind)
				text, err := whole.Items[i].MarshalJSON()
				if err := errors.Join(err, json.Unmarshal(text, wanted)); err != nil {
					t.Fatal(err)
				}
				for from, objects := range got {
					if len(objects) != len(whole.Items) {
						t.Fatalf("%s %s, %s: %d objects, want %d", of.Kind, name, from, len(objects), len(whole.Items))
					}
					comparable := func(o kruntime.Object) kruntime.Object {
						o = o.DeepCopyObject()
						o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // typed clients drop it
						// The times that change between events are constant in protobuf.
						if p, ok := o.(*corev1.Pod); ok {
							p.Status.Conditions[0].LastTransitionTime = metav1.Time{}
						}
						for i, f := range o.(metav1.Object).GetManagedFields() {
							f.Time = nil
							o.(metav1.Object).GetManagedFields()[i] = f
						}
						return o
					}
					want, got := comparable(wanted), comparable(objects[i])
					if !equality.Semantic.DeepEqual(want, got) {
						t.Fatalf("%s %s, %s: %s", of.Kind, name, from, cmp.Diff(want, got))
					}
				}
			}
		}
	}
}

func items(t *testing.T, l kruntime.Object) []kruntime.Object {
	t.Helper()
	all, err := meta.ExtractList(l)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEvents: a watch has exactly the events of its namespace, each with the next version and the right object, and the
// same metadata in protobuf, for which client-go's metadata client asks.
func TestEvents(t *testing.T) {
	const events = 42
	for _, size := range []string{small, big} {
		for _, ns := range []int{-1, 2, 7} {
			c := startRun(t, scenario{Objects: 16, Size: size, Events: events})
			first, step, name := 0, 1, ""
			if ns >= 0 {
				first, step, name = ns, namespaces, namespaceOf(ns)
			}
			client, err := metadata.NewForConfig(c)
			if err != nil {
				t.Fatal(err)
			}
			w, err := podsOf(t, c).Namespace(name).Watch(t.Context(), fromList())
			mw, metaErr := client.Resource(pods.GroupVersionResource).Namespace(name).Watch(t.Context(), fromList())
			resp, startErr := http.Post(c.Host+"/start", "", nil)
			if err := errors.Join(err, metaErr, startErr); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(err, resp)
			}
			whole := read[*unstructured.Unstructured](t, w, watch.Modified)
			partial := read[*metav1.PartialObjectMetadata](t, mw, watch.Modified)
			if want := (events - first + step - 1) / step; len(whole) != want || len(partial) != want {
				t.Fatalf("%d and %d events, want %d", len(whole), len(partial), want)
			}
			for i, u := range whole {
				n := first + i*step
				want := metav1.ObjectMeta{}
				text, _ := json.Marshal(u.Object["metadata"])
				if err := json.Unmarshal(text, &want); err != nil {
					t.Fatal(err)
				}
				want.ManagedFields, partial[i].ManagedFields = nil, nil // the time in protobuf is constant
				if diff := cmp.Diff(want, partial[i].ObjectMeta); diff != "" {
					t.Fatal(diff)
				}
				labels := example(size, n%16).GetLabels()
				if cmp.Diff(labels, want.Labels) != "" || want.ResourceVersion != strconv.Itoa(firstVersion+1+n) {
					t.Fatalf("event %d is %v, want labels %v", n, want, labels)
				}
			}
		}
	}
}

// TestRate: events come at the rate with send times, then events without.
func TestRate(t *testing.T) {
	const rate, length = 2000, 200 * time.Millisecond
	c := startRun(t, scenario{Objects: 20, Size: small, Rate: rate, Length: length})
	w, err := podsOf(t, c).Watch(t.Context(), fromList())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := http.Post(c.Host+"/start", "", nil); err != nil {
		t.Fatal(err)
	}
	timed, last := 0, began.UnixNano()
	for i, u := range read[*unstructured.Unstructured](t, w, watch.Modified) {
		sent, err := strconv.ParseInt(u.GetAnnotations()[sentKey], 10, 64)
		if err != nil || sent != 0 && (sent < last || timed < i) {
			t.Fatalf("event %d was sent at %d, after one at %d (%v): want a later time", i, sent, last, err)
		}
		if sent != 0 {
			timed, last = timed+1, sent
		}
	}
	if most := int(rate * length.Seconds()); timed == 0 || timed > most || time.Since(began) < length {
		t.Errorf("%d events in %s, want 1 to %d in %s", timed, time.Since(began), most, length)
	}
}

// TestAnswers: the server answers in the form that a client prefers, and rejects what it does not support.
func TestAnswers(t *testing.T) {
	c := startRun(t, scenario{Objects: 20, Size: small, Events: 20})
	const initial, as = "/api/v1/pods?watch=1&sendInitialEvents=true", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, tt := range []struct{ why, path, accept, want string }{
		{"whole objects", initial, "application/json",
			`200 application/json {"type":"ADDED","object":{"kind":"Pod",`},
		{"metadata in JSON", initial, "application/json" + as,
			`200 application/json {"type":"ADDED","object":{"kind":"PartialObjectMetadata",`},
		{"metadata in protobuf", initial, "application/vnd.kubernetes.protobuf" + as + ",application/json" + as,
			"200 application/vnd.kubernetes.protobuf;stream=watch \x00\x00"},
		{"a list in JSON", "/api/v1/pods", "application/json",
			`200 application/json {"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"500000000"},"ite`},
		{"a list of metadata in JSON", "/api/v1/pods", "application/json" + as,
			`200 application/json {"kind":"PartialObjectMetadataList",`},
		{"a list in protobuf", "/api/v1/pods", "application/vnd.kubernetes.protobuf,application/json",
			"200 application/vnd.kubernetes.protobuf k8s\x00"},
		{"a selector, which the server can't apply", "/api/v1/pods?labelSelector=app", "", "400 "},
		{"another resource", "/api/v1/services", "", "404 "},
		{"a version before the list", "/api/v1/pods?watch=1&resourceVersion=7", "", "500 "},
		{"a list once the events have started", "/api/v1/pods", "", "500 "},
	} {
		if strings.Contains(tt.why, "started") {
			if _, err := http.Post(c.Host+"/start", "", nil); err != nil {
				t.Fatal(err)
			}
		}
		req, _ := http.NewRequest(http.MethodGet, c.Host+tt.path, nil)
		req.Header.Set("Accept", tt.accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 100)
		io.ReadFull(resp.Body, text)
		resp.Body.Close()
		got := fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), text)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: the answer is %q, want %q", tt.why, got, tt.want)
		}
	}
}

// TestSizes: the frames have the sizes that the tables state, a plausible share of managedFields, and as many
// placeholders as fields that differ.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		size         string
		least, most  int
		placeholders string // of identity, version, send time, and time of the change
	}{
		{small, 2700, 2900, "3 1 1 2"},
		{big, 10_500, 11_700, "5 1 1 2"},
		{ofSecret, 1200, 1400, "2 1 0 1"},
	} {
		all, bare, objects := 0, 0, 0
		for n := 0; n < templates; n += 37 {
			p := example(tt.size, n)
			f := form{}.frame(watch.Modified, p)
			p.SetManagedFields(nil)
			all, bare, objects = all+len(f.text), bare+len(form{}.encode(watch.Modified, p)), objects+1
			got := fmt.Sprint(len(f.holes[identity]), len(f.holes[version]), len(f.holes[sent]), len(f.holes[changed]))
			if want := tt.placeholders; got != want || bytes.Count(f.text, []byte("\n")) != 1 {
				t.Fatalf("%s, %d: %s placeholders, want %s, in one line: %s", tt.size, n, got, want, f.text)
			}
		}
		if mean := all / objects; mean < tt.least || mean > tt.most {
			t.Errorf("a frame has %d bytes on average, want %d to %d", mean, tt.least, tt.most)
		}
		if share := 1 - float64(bare)/float64(all); share < 0.2 || share > 0.5 {
			t.Errorf("%s: managedFields have a share of %.2f, want 0.2 to 0.5", tt.size, share)
		}
	}
}
