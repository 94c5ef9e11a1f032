package main

import (
	"encoding/json"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// startRun starts a server in this process, and returns the URL of a run.
func startRun(t *testing.T, s scenario) string {
	t.Helper()
	server := httptest.NewServer(newServer().handler())
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	path, err := (&measurer{server: server.URL}).call(t.Context(), http.MethodPost, "/runs", s)
	if err != nil {
		t.Fatal(err)
	}
	return server.URL + path
}

func clientOf(t *testing.T, url string) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(pods)
}

// names identifies objects by namespace, name, kind and version.
func names(items []unstructured.Unstructured) []string {
	var all []string
	for _, u := range items {
		name := u.GetNamespace() + "/" + u.GetName()
		all = append(all, fmt.Sprintf("%s %s@%s", name, u.GetKind(), u.GetResourceVersion()))
	}
	return all
}

// TestLists: a whole list, pages, and a streaming list deliver the same objects.
func TestLists(t *testing.T) {
	for _, tt := range []struct {
		why     string
		size    size
		objects int
	}{
		{"more objects than templates, the last page is not full", small, 1203},
		{"big objects on one page", big, 64},
	} {
		t.Run(tt.why, func(t *testing.T) {
			objects := tt.objects
			c := clientOf(t, startRun(t, scenario{Objects: objects, Size: tt.size, Events: namespaces}))
			whole, err := c.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(whole.Items) != objects || whole.GetResourceVersion() != strconv.Itoa(firstVersion) {
				t.Fatalf("the list has %d objects at %s, want %d at %d",
					len(whole.Items), whole.GetResourceVersion(), objects, firstVersion)
			}

			var paged []unstructured.Unstructured
			for o := (metav1.ListOptions{Limit: 500}); ; {
				page, err := c.List(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				paged = append(paged, page.Items...)
				if left := page.GetRemainingItemCount(); page.GetContinue() != "" && int(*left) != objects-len(paged) {
					t.Errorf("remainingItemCount %d after %d of %d objects", *left, len(paged), objects)
				}
				if o.Continue = page.GetContinue(); o.Continue == "" {
					break
				}
			}
			checkSame(t, "pages", whole.Items, paged)
			checkSame(t, "a streaming list", whole.Items, initialEvents(t, c))
		})
	}
}

// checkSame compares objects. It calls go-cmp only for those that differ, because go-cmp is slow.
func checkSame(t *testing.T, why string, want, got []unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(names(want), names(got)); diff != "" {
		t.Fatalf("%s: %s", why, diff)
	}
	for i := range want {
		if !reflect.DeepEqual(want[i].Object, got[i].Object) {
			t.Fatalf("%s, object %d: %s", why, i, cmp.Diff(want[i].Object, got[i].Object))
		}
	}
}

// initialEvents reads a streaming list.
func initialEvents(t *testing.T, c dynamic.ResourceInterface) []unstructured.Unstructured {
	t.Helper()
	w, err := c.Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var all []unstructured.Unstructured
	for ev := range w.ResultChan() {
		u := ev.Object.(*unstructured.Unstructured)
		if ev.Type == watch.Bookmark {
			if u.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
				u.GetResourceVersion() != strconv.Itoa(firstVersion) {
				t.Errorf("bookmark %v, want the end of the initial events at %d", u.Object, firstVersion)
			}
			return all
		}
		if ev.Type != watch.Added {
			t.Fatalf("an event of type %s among the initial events", ev.Type)
		}
		all = append(all, *u)
	}
	t.Fatal("the watch ended before the initial events did")
	return nil
}

// TestNamespaces: the namespaces together have all objects.
func TestNamespaces(t *testing.T) {
	url := startRun(t, scenario{Objects: 50, Size: small, Events: namespaces})
	c, err := dynamic.NewForConfig(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := c.Resource(pods).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for i := range namespaces {
		part, err := c.Resource(pods).Namespace(namespaceOf(i)).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names(part.Items) {
			got[name] = true
		}
	}
	want := map[string]bool{}
	for _, name := range names(whole.Items) {
		want[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMetadata: a client that accepts PartialObjectMetadata gets the metadata of the same objects.
func TestMetadata(t *testing.T) {
	url := startRun(t, scenario{Objects: 30, Size: small, Events: namespaces})
	whole, err := clientOf(t, url).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := metadata.NewForConfig(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	partial, err := c.Resource(pods).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []metav1.ObjectMeta
	for _, u := range whole.Items {
		text, err := json.Marshal(u.Object["metadata"])
		if err != nil {
			t.Fatal(err)
		}
		var m metav1.ObjectMeta
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		want = append(want, m)
	}
	for _, m := range partial.Items {
		got = append(got, m.ObjectMeta)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPaced: events come at the rate with send times, then events without, and one of those is of a canary.
func TestPaced(t *testing.T) {
	const rate, length = 2000, 200 * time.Millisecond
	url := startRun(t, scenario{Objects: 20, Size: small, Rate: rate, Length: length})
	w, err := clientOf(t, url).Watch(t.Context(), fromList())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	began := time.Now()
	if _, err := http.Post(url+"/start", "", nil); err != nil {
		t.Fatal(err)
	}
	n, last := 0, began.UnixNano()
	for ev := range w.ResultChan() {
		u := ev.Object.(*unstructured.Unstructured)
		if ev.Type != watch.Modified {
			t.Fatalf("an event of type %s, want MODIFIED", ev.Type)
		}
		sent, err := strconv.ParseInt(u.GetAnnotations()[sentAnnotation], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if sent == 0 && u.GetLabels()["canary"] == "true" {
			break
		}
		if sent == 0 {
			continue
		}
		if sent < last || sent > time.Now().UnixNano() {
			t.Fatalf("event %d was sent at %d, after one at %d: want a later time that has passed", n, sent, last)
		}
		n, last = n+1, sent
	}
	if most := int(rate * length.Seconds()); n == 0 || n > most {
		t.Errorf("%d events, want 1 to %d", n, most)
	}
	if took := time.Since(began); took < length {
		t.Errorf("the events took %s, want at least %s", took, length)
	}
}

// TestServerRejects: the server rejects requests and scenarios that it does not support.
func TestServerRejects(t *testing.T) {
	url := startRun(t, scenario{Objects: 20, Size: small, Events: 20})
	for _, tt := range []struct {
		why, path string
		status    int
	}{
		{"an unknown namespace", "/api/v1/namespaces/peers-8/pods", http.StatusNotFound},
		{"another spelling of a namespace", "/api/v1/namespaces/peers-03/pods", http.StatusNotFound},
		{"another resource", "/api/v1/services", http.StatusNotFound},
		{"a selector, which the server can't apply", "/api/v1/pods?labelSelector=app", http.StatusBadRequest},
		{"a version before the list", "/api/v1/pods?watch=1&resourceVersion=7", http.StatusGone},
		{"an unknown run", "/../7/api/v1/pods", http.StatusNotFound},
	} {
		resp, err := http.Get(url + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d: %s", tt.why, resp.Status, tt.status, text)
		}
	}
	for _, tt := range []struct {
		why      string
		scenario scenario
	}{
		{"a scenario without a size", scenario{Objects: 20}},
		{"fewer objects than namespaces", scenario{Objects: 7, Size: small}},
		{"a rate without a length", scenario{Objects: 20, Size: small, Rate: 5}},
	} {
		server := strings.TrimSuffix(url, "/runs/1")
		path, err := (&measurer{server: server}).call(t.Context(), http.MethodPost, "/runs", tt.scenario)
		if err == nil {
			t.Errorf("%s: the server made %s", tt.why, path)
		}
	}
}

// TestNoListOnceEventsCome: the server refuses lists after the start, so that a peer that lists again fails.
func TestNoListOnceEventsCome(t *testing.T) {
	url := startRun(t, scenario{Objects: 20, Size: small, Events: 20})
	if _, err := http.Post(url+"/start", "", nil); err != nil {
		t.Fatal(err)
	}
	if list, err := clientOf(t, url).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("a list of %d objects after the start, want an error", len(list.Items))
	}
}
