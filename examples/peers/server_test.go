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

// serving starts a server in this process and returns the URL of a run.
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

// names are those of objects, with their versions: what identifies a list.
func names(items []unstructured.Unstructured) []string {
	var all []string
	for _, u := range items {
		all = append(all, fmt.Sprintf("%s/%s %s@%s", u.GetNamespace(), u.GetName(), u.GetKind(), u.GetResourceVersion()))
	}
	return all
}

// TestLists: all ways to read what exists tell the same.
func TestLists(t *testing.T) {
	for _, tt := range []struct {
		why     string
		size    size
		objects int
	}{
		{"more than there are templates, and no whole number of pages", small, 1203},
		{"larger ones, on one page", big, 64},
	} {
		t.Run(tt.why, func(t *testing.T) {
			objects := tt.objects
			c := clientOf(t, startRun(t, scenario{Objects: objects, Size: tt.size, Events: namespaces}))
			whole, err := c.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(whole.Items) != objects || whole.GetResourceVersion() != strconv.Itoa(firstVersion) {
				t.Fatalf("the list has %d objects at %s", len(whole.Items), whole.GetResourceVersion())
			}

			var paged []unstructured.Unstructured
			for o := (metav1.ListOptions{Limit: 500}); ; {
				page, err := c.List(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				paged = append(paged, page.Items...)
				if left := page.GetRemainingItemCount(); page.GetContinue() != "" && int(*left) != objects-len(paged) {
					t.Errorf("%d are said to be left after %d", *left, len(paged))
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

// same compares objects; of many, go-cmp takes long to find no difference.
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
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var all []unstructured.Unstructured
	for ev := range w.ResultChan() {
		u := ev.Object.(*unstructured.Unstructured)
		if ev.Type == watch.Bookmark {
			if u.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || u.GetResourceVersion() != strconv.Itoa(firstVersion) {
				t.Errorf("the bookmark is %v", u.Object)
			}
			return all
		}
		if ev.Type != watch.Added {
			t.Fatalf("%s came", ev.Type)
		}
		all = append(all, *u)
	}
	t.Fatal("the watch ended")
	return nil
}

// TestNamespaces: all namespaces together have what there is.
func TestNamespaces(t *testing.T) {
	c, err := dynamic.NewForConfig(&rest.Config{Host: startRun(t, scenario{Objects: 50, Size: small, Events: namespaces}), QPS: -1})
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

// TestMetadata: who accepts PartialObjectMetadata gets the metadata of the same
// objects.
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

// TestPaced: events come at the rate, stamped, and then some that are not, one of which
// is of a canary.
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
			t.Fatalf("%s came", ev.Type)
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
			t.Fatalf("event %d was sent at %d, and the one before at %d", n, sent, last)
		}
		n, last = n+1, sent
	}
	if most := int(rate * length.Seconds()); n == 0 || n > most {
		t.Errorf("%d events came, want up to %d", n, most)
	}
	if took := time.Since(began); took < length {
		t.Errorf("that took %s, want %s", took, length)
	}
}

// TestRefusals: what the server does not do it says.
func TestServerRejects(t *testing.T) {
	url := startRun(t, scenario{Objects: 20, Size: small, Events: 20})
	for _, tt := range []struct {
		why, path string
		status    int
	}{
		{"a namespace that there is not", "/api/v1/namespaces/peers-8/pods", http.StatusNotFound},
		{"one that is spelled otherwise", "/api/v1/namespaces/peers-03/pods", http.StatusNotFound},
		{"another resource", "/api/v1/services", http.StatusNotFound},
		{"selectors would have to be heeded", "/api/v1/pods?labelSelector=app", http.StatusBadRequest},
		{"a version before the list", "/api/v1/pods?watch=1&resourceVersion=7", http.StatusGone},
		{"a run that there is not", "/../7/api/v1/pods", http.StatusNotFound},
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
		{"no size", scenario{Objects: 20}},
		{"fewer objects than namespaces", scenario{Objects: 7, Size: small}},
		{"a rate for no time", scenario{Objects: 20, Size: small, Rate: 5}},
	} {
		server := strings.TrimSuffix(url, "/runs/1")
		if path, err := (&measurer{server: server}).call(t.Context(), http.MethodPost, "/runs", tt.scenario); err == nil {
			t.Errorf("%s: there is a run %s", tt.why, path)
		}
	}
}

// TestNoListAfterStart: a peer that lost its way is not to be measured as if it had
// not.
func TestNoListOnceEventsCome(t *testing.T) {
	url := startRun(t, scenario{Objects: 20, Size: small, Events: 20})
	if _, err := http.Post(url+"/start", "", nil); err != nil {
		t.Fatal(err)
	}
	if list, err := clientOf(t, url).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("a list has %d objects", len(list.Items))
	}
}
