package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func TestMetadataClientWorks(t *testing.T) {
	for _, protobuf := range []bool{true, false} {
		bubble(t, func(t *testing.T, srv *apiserver.Server) { testMetadataClient(t, srv, protobuf) })
	}
}

func testMetadataClient(t *testing.T, srv *apiserver.Server, protobuf bool) {
	fourWidgets(srv)
	if !protobuf {
		do(t, srv, "no protobuf")
	}
	client := metadata.NewForConfigOrDie(srv.Config()).Resource(widgets.GroupVersionResource)
	l, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(l.Items) != 2 || l.Items[0].Name != "a" || l.ResourceVersion != "6" {
		t.Errorf("listed %+v, %v", l, err)
	}
	one, err := client.Namespace("y").Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil || one.ResourceVersion != "6" {
		t.Errorf("got %+v, %v", one, err)
	}
	w, err := client.Watch(t.Context(), withBookmarks(from("5")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, want := range []string{"d", ""} {
		ev := <-w.ResultChan()
		if o, ok := ev.Object.(*metav1.PartialObjectMetadata); !ok || o.Name != want || o.ResourceVersion != "6" {
			t.Errorf("received %+v, want %q", ev, want)
		}
	}
	_, err = client.List(t.Context(), metav1.ListOptions{Continue: "x"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("want 400, got %v", err)
	}
	for _, r := range srv.Requests() {
		if r.Protobuf != protobuf {
			t.Errorf("protobuf: %t, want %t: %+v", r.Protobuf, protobuf, r)
		}
	}
}

// Protobuf can't express metadata of other types.
func TestInvalidMetadataIsLeftOutOfProtobuf(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		_, err := srv.Create(widgets, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": "a", "namespace": "x", "labels": map[string]any{"app": "web"}, "annotations": []any{"b"},
			"creationTimestamp": "yesterday", "finalizers": map[string]any{},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		client := metadata.NewForConfigOrDie(srv.Config()).Resource(widgets.GroupVersionResource)
		o, err := client.Namespace("x").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || o.Labels["app"] != "web" || o.UID == "" || o.Annotations != nil || o.Finalizers != nil {
			t.Errorf("got %+v, %v", o, err)
		}
	})
}

func TestAccept(t *testing.T) {
	const list, object = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	tests := []struct {
		accept, query string
		code          int
		kind          string // in the answer
		why           string
	}{
		{"", "", 200, `"WidgetList"`, "no header"},
		{"*/*", "", 200, `"WidgetList"`, "anything"},
		{list, "", 200, `"PartialObjectMetadataList"`, ""},
		{"application/json, " + list, "", 200, `"WidgetList"`, "the first one counts"},
		{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + list, "", 200,
			"k8s\x00", "metadata is sent as protobuf, too"},
		{"application/vnd.kubernetes.protobuf," + list, "", 200, `"PartialObjectMetadataList"`,
			"other objects are not"},
		{"application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "", 200, `"WidgetList"`,
			"tables are not supported"},
		{object, "", 406, "PartialObjectMetadata for a list", "a list is not an object"},
		{"text/html", "", 406, "application/json", ""},
		{object, "?watch=1", 200, `"PartialObjectMetadata"`, ""},
		{list + "," + object, "?watch=1", 200, `"Widget"`, "the first one counts, but an event is not a list"},
	}
	for _, tc := range tests {
		bubble(t, func(t *testing.T, srv *apiserver.Server) {
			srv.Put(widgets, "x", "a")
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://streamtest/apis/example.com/v1/widgets"+tc.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.accept != "" {
				r.Header.Set("Accept", tc.accept)
			}
			response, err := srv.Config().Transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			synctest.Wait()
			data := make([]byte, 1<<20)
			n, err := response.Body.Read(data)
			if err != nil || response.StatusCode != tc.code || !strings.Contains(string(data[:n]), tc.kind) {
				t.Errorf("%q %s: %d %s, want %d with %s in it", tc.accept, tc.why, response.StatusCode, data[:n],
					tc.code, tc.kind)
			}
		})
	}
}
