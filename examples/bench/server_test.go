package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
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

func initialEvents() metav1.ListOptions {
	return metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
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

// TestLists: a whole list, pages, the lists of all namespaces, and a streaming list have the same objects.
func TestLists(t *testing.T) {
	for _, tt := range []struct {
		why, size string
		objects   int
	}{
		{"more objects than templates, the last page is not full", small, 1203},
		{"big objects on one page", big, 64},
	} {
		t.Run(tt.why, func(t *testing.T) {
			c := podsOf(t, startRun(t, scenario{Objects: tt.objects, Size: tt.size}))
			list := func(c dynamic.ResourceInterface, o metav1.ListOptions) *unstructured.UnstructuredList {
				l, err := c.List(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			whole := list(c, metav1.ListOptions{})
			if len(whole.Items) != tt.objects || whole.GetResourceVersion() != strconv.Itoa(firstVersion) {
				t.Fatalf("%d objects at %s, want %d", len(whole.Items), whole.GetResourceVersion(), tt.objects)
			}
			got := map[string][]unstructured.Unstructured{}
			for o := (metav1.ListOptions{Limit: 500}); ; {
				page := list(c, o)
				got["pages"] = append(got["pages"], page.Items...)
				left := tt.objects - len(got["pages"])
				if n := page.GetRemainingItemCount(); n != nil && int(*n) != left || n == nil && left > 0 {
					t.Errorf("remainingItemCount %v, want %d", n, left)
				}
				if o.Continue = page.GetContinue(); o.Continue == "" {
					break
				}
			}
			w, err := c.Watch(t.Context(), initialEvents())
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range read[*unstructured.Unstructured](t, w, watch.Added) {
				got["initial events"] = append(got["initial events"], *u)
			}
			parts := make([]unstructured.Unstructured, tt.objects)
			for i := range namespaces {
				for k, u := range list(c.Namespace(namespaceOf(i)), metav1.ListOptions{}).Items {
					parts[i+k*namespaces] = u
				}
			}
			got["namespaces"] = parts
			uids := map[any]bool{}
			for i, want := range whole.Items {
				uids[want.GetUID()], uids[want.GetName()] = true, true
				for name, items := range got {
					if i >= len(items) || !reflect.DeepEqual(want.Object, items[i].Object) { // go-cmp is slow
						t.Fatalf("%s have %d objects, the %d-th of them is not %v", name, len(items), i, want)
					}
				}
			}
			if len(uids) != 2*tt.objects {
				t.Errorf("%d objects have %d names and uids", tt.objects, len(uids))
			}
		})
	}
}

// TestEvents: in every form, a watch has exactly the events of its namespace, each with the next version and the right
// object. All forms have the same metadata.
func TestEvents(t *testing.T) {
	const events = 42
	for _, size := range []string{small, big} {
		for ns := -1; ns < namespaces; ns += 3 {
			c := startRun(t, scenario{Objects: 16, Size: size, Events: events})
			first, step, name := 0, 1, ""
			if ns >= 0 {
				first, step, name = ns, namespaces, namespaceOf(ns)
			}
			w, err := podsOf(t, c).Namespace(name).Watch(t.Context(), fromList())
			if err != nil {
				t.Fatal(err)
			}
			asJSON, asProto := metadataWatch(t, c, name, false), metadataWatch(t, c, name, true)
			if resp, err := http.Post(c.Host+"/start", "", nil); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			whole := read[*unstructured.Unstructured](t, w, watch.Modified)
			inJSON := read[*metav1.PartialObjectMetadata](t, asJSON, watch.Modified)
			inProto := read[*metav1.PartialObjectMetadata](t, asProto, watch.Modified)
			got, want := []int{len(whole), len(inJSON), len(inProto)}, (events-first+step-1)/step
			if diff := cmp.Diff([]int{want, want, want}, got); diff != "" {
				t.Fatal(diff)
			}
			for i, u := range whole {
				n := first + i*step
				u.SetManagedFields(nil)
				inJSON[i].ManagedFields, inProto[i].ManagedFields = nil, nil // the time in protobuf is constant
				inProto[i].TypeMeta = inJSON[i].TypeMeta
				var m metav1.ObjectMeta
				text, _ := json.Marshal(u.Object["metadata"])
				if err := json.Unmarshal(text, &m); err != nil {
					t.Fatal(err)
				}
				want := pod(size, n%16).Labels
				if cmp.Diff(want, m.Labels) != "" || m.ResourceVersion != strconv.Itoa(firstVersion+1+n) {
					t.Fatalf("event %d is %v, want labels %v", n, m, want)
				}
				partial := []metav1.ObjectMeta{inJSON[i].ObjectMeta, inProto[i].ObjectMeta}
				if diff := cmp.Diff([]metav1.ObjectMeta{m, m}, partial); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	}
}

// metadataWatch opens a watch of client-go's metadata client, which prefers protobuf.
func metadataWatch(t *testing.T, c *rest.Config, namespace string, proto bool) watch.Interface {
	t.Helper()
	c = rest.CopyConfig(c)
	want, answer := "application/json", ""
	if proto {
		want = "application/vnd.kubernetes.protobuf;stream=watch"
	}
	c.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if !proto {
				req.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
			}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				answer = resp.Header.Get("Content-Type")
			}
			return resp, err
		})
	}
	client, err := metadata.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Resource(pods.GroupVersionResource).Namespace(namespace).Watch(t.Context(), fromList())
	if err != nil {
		t.Fatal(err)
	}
	if answer != want {
		t.Fatalf("the answer is %s, want %s", answer, want)
	}
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

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

// TestServerRejects: the server rejects what it does not support, and lists after the start.
func TestServerRejects(t *testing.T) {
	c := startRun(t, scenario{Objects: 20, Size: small, Events: 20})
	for _, tt := range []struct {
		why, path, accept string
		status            int
	}{
		{"another resource", "/api/v1/services", "", http.StatusNotFound},
		{"a selector, which the server can't apply", "/api/v1/pods?labelSelector=app", "", http.StatusBadRequest},
		{"a version before the list", "/api/v1/pods?watch=1&resourceVersion=7", "", http.StatusInternalServerError},
		{"a list of metadata", "/api/v1/pods", "application/json;as=PartialObjectMetadataList", http.StatusBadRequest},
		{"the start", "/start", "", http.StatusMethodNotAllowed},
	} {
		req, _ := http.NewRequest(http.MethodGet, c.Host+tt.path, nil)
		req.Header.Set("Accept", tt.accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d: %s", tt.why, resp.Status, tt.status, text)
		}
	}
	if _, err := http.Post(c.Host+"/start", "", nil); err != nil {
		t.Fatal(err)
	}
	if list, err := podsOf(t, c).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("a list of %d objects after the start, want an error", len(list.Items))
	}
}

// TestSizes: the frames have the sizes that the tables state, a plausible share of managedFields, and as many
// placeholders as fields that differ.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		size                    string
		least, most, containers int
	}{
		{small, 2700, 2900, 1},
		{big, 10_500, 11_700, 3},
	} {
		all, bare, objects := 0, 0, 0
		for n := 0; n < templates; n += 7 {
			p := pod(tt.size, n)
			f := form{}.frame(watch.Modified, p)
			p.ManagedFields = nil
			all, bare, objects = all+len(f.text), bare+len(form{}.encode(watch.Modified, p)), objects+1
			got := fmt.Sprint(len(f.holes[identity]), len(f.holes[version]), len(f.holes[sent]), len(f.holes[changed]))
			if want := fmt.Sprint(2+tt.containers, 1, 1, 2); got != want || bytes.Count(f.text, []byte("\n")) != 1 {
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
