package stream_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestOptionsReachTheServer checks the namespace and the selectors of every request.
// TestInvolvedObject: the selector names the fields that the Events of a group have.
func TestInvolvedObject(t *testing.T) {
	events := func(group string) (r gvr.Resource) {
		r.Group, r.Version, r.Resource = group, "v1", "events"
		return r
	}
	pod := corev1.ObjectReference{Kind: "Pod", Name: "web", UID: "u1"}
	tests := []struct {
		r    gvr.Resource
		ref  corev1.ObjectReference
		want string // the selector, or a part of the error
		why  string
	}{
		{events(""), pod, "involvedObject.kind=Pod,involvedObject.name=web,involvedObject.uid=u1",
			"core Events have involvedObject"},
		{events("events.k8s.io"), pod, "regarding.kind=Pod,regarding.name=web,regarding.uid=u1",
			"Events of events.k8s.io have regarding"},
		{events(""), corev1.ObjectReference{Name: "a,b=c"}, `involvedObject.name=a\,b\=c`,
			"special characters are escaped"},
		{events(""), corev1.ObjectReference{}, "must have a field that is not empty",
			"an empty reference would select all Events"},
		{widgets(), pod, "must be events of v1 or of events.k8s.io", "only Events have an involved object"},
	}
	for _, tt := range tests {
		got, err := stream.InvolvedObject(tt.r, tt.ref)
		var invalid *stream.OptionsError
		if err != nil && !errors.As(err, &invalid) {
			t.Errorf("%s: %T, want an *OptionsError", tt.why, err)
		}
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s: got %q, want %q", tt.why, got, tt.want)
		}
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	tests := []struct {
		r    gvr.Resource
		o    setup
		want string
		why  string
	}{
		{widgets(), setup{Options: stream.Options{FieldSelector: "spec.size=1"}}, "spec.size=1",
			"a selector is sent as given"},
		{widgets(), setup{Options: stream.Options{Name: "a"}}, "metadata.name=a", "a name becomes a field selector"},
		{widgets(), setup{Options: stream.Options{Name: "a", FieldSelector: "spec.size!=1"}},
			"spec.size!=1,metadata.name=a", "a name and a selector are joined"},
		{widgets(), setup{Options: stream.Options{Name: "a", FieldSelector: "metadata.name=a"}},
			"metadata.name=a,metadata.name=a", "a name may be given twice"},
		{widgets(), setup{Options: stream.Options{Name: "a,b=c"}}, `metadata.name=a\,b\=c`,
			"special characters in a name are escaped"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			checked := func(then answer) answer {
				return func(r *http.Request) (*http.Response, error) {
					q := r.URL.Query()
					got = append(got, q.Get("fieldSelector"))
					if path := "/v1/namespaces/team/" + tt.r.Resource; !strings.HasSuffix(r.URL.Path, path) ||
						q.Get("labelSelector") != "a=b,!c" {
						t.Errorf("%s: request %s", tt.why, r.URL)
					}
					return then(r)
				}
			}
			sc := &script{t: t, exchanges: []exchange{
				{"list", checked(list("5", ""))},
				{"watch 5", checked(watch("wait 3s"))},
				{"probe", checked(list("5", ""))},
				{"watch 5", checked(watch("open"))},
			}}
			tt.o.Requests.PagedLists, tt.o.Namespaces, tt.o.LabelSelector = true, []string{"team"}, "a=b,!c"
			s, err := newRunning(sc.client(), tt.r, &tt.o)
			if err != nil {
				t.Fatalf("%s: %v", tt.why, err)
			}
			tt.o.Namespaces[0], tt.o.LabelSelector = "changed", "later" // New has copied the options
			record(t, s, 10*time.Second)
			if diff := cmp.Diff([]string{tt.want, tt.want, tt.want, tt.want}, got); diff != "" {
				t.Errorf("%s: list, watch, probe and next watch (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	odd := func(m stream.Meta) bool { // selects objects whose version is odd
		rv := m.GetResourceVersion()
		return strings.ContainsAny(rv[len(rv)-1:], "13579")
	}
	testConversations(t, []conversation{
		{"objects enter and leave the selection", setup{Options: stream.Options{Select: odd}},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2")},
				{"watch 5", watch("MODIFIED a@6", "MODIFIED a@8", "MODIFIED a@9", "MODIFIED b@11", "DELETED a@12",
					"ADDED c@14", "DELETED c@15", "DELETED b@16", "open")},
			},
			[]string{"ADDED a@1", "SYNCED 5", "DELETED a@6", "ADDED a@9", "ADDED b@11", "DELETED a@12", "DELETED b@16"},
			"entering is ADDED, leaving is DELETED; c was never delivered, so its deletion is not reported"},
		{"across a gap", setup{Options: stream.Options{Select: odd}},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2", "c@3", "d@4", "e@5")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "", "a@6", "b@7", "c@9", "e@5")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@1", "ADDED c@3", "ADDED e@5", "SYNCED 5", "GAP expired from 5 to 20",
				"DELETED a@1 inferred", "ADDED b@7 inferred", "MODIFIED c@9 inferred", "SYNCED 20"},
			"only selected objects are compared; d was never delivered, so its deletion is not reported"},
		{"another incarnation", setup{Options: stream.Options{Select: odd}},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "", "a/other@8", "b/other@9")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@1", "SYNCED 5", "GAP expired from 5 to 20", "DELETED a@1 inferred",
				"ADDED b/other@9 inferred", "SYNCED 20"},
			"the new object is selected or rejected by its own metadata"},
		{"after a version", setup{Options: stream.Options{Select: odd}, Run: stream.Run{Start: stream.After("5")}},
			[]exchange{
				{"watch 5", watch("MODIFIED a@6", "MODIFIED a@7", "MODIFIED b@9", "DELETED c@10", "DELETED d@11",
					"MODIFIED b@12", "open")},
			},
			[]string{"SYNCED 5", "ADDED a@7", "ADDED b@9", "DELETED d@11", "DELETED b@12"},
			"whether an unknown object was selected before is unknown, so its first event decides"},
	})
}

func TestTransformDoesNotChangeTheIndex(t *testing.T) {
	testConversations(t, []conversation{
		{"renamed",
			setup{Options: stream.Options{
				Transform: func(o *unstructured.Unstructured) { o.SetName("the-" + o.GetName()) },
			}},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2")},
				{"watch 5", watch("MODIFIED a@6", "ERROR 410 Expired")},
				{"list", list("20", "", "a@6")},
				{"watch 20", watch("DELETED a@21", "open")},
			},
			[]string{"ADDED the-a/uid-a@1", "ADDED the-b/uid-b@2", "SYNCED 5", "MODIFIED the-a/uid-a@6",
				"GAP expired from 6 to 20", "DELETED the-b/uid-b@2 inferred", "SYNCED 20", "DELETED the-a/uid-a@21"},
			"Transform changes what is delivered, not the index"},
		{"cleared", setup{Options: stream.Options{Transform: func(o *unstructured.Unstructured) { clear(o.Object) }}},
			[]exchange{
				{"list", list("5", "", "a@1")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "", "a@1")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED @1", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"the index is unchanged even if Transform clears the object"},
	})
}

func TestMetadataWorksWithEveryClient(t *testing.T) {
	full := func(rv string) map[string]any {
		o := object("a@" + rv)
		o["spec"] = map[string]any{"size": 1}
		return o
	}
	small := func(rv string) map[string]any {
		o := object("a@" + rv)
		o["apiVersion"], o["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
		return o
	}
	tests := []struct {
		name      string
		object    func(string) map[string]any
		newClient bool
		why       string
	}{
		{"NewClient", small, true, "the client requests metadata only"},
		{"whole objects", full, true, "the Stream reduces the objects of a server that sends all of them"},
		{"client-go", full, false, "the Stream reduces the objects of a client that can't request metadata only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0 // for metadata only
				counted := func(then answer) answer {
					return func(r *http.Request) (*http.Response, error) {
						want := "as=PartialObjectMetadataList;"
						if r.URL.Query().Has("watch") {
							want = "as=PartialObjectMetadata;"
						}
						accept := r.Header.Get("Accept")
						if strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf;"+want) &&
							strings.Contains(accept, ",application/json;"+want) &&
							strings.HasSuffix(accept, ",application/json") {
							requests++
						}
						return then(r)
					}
				}
				sc := &script{t: t, exchanges: []exchange{
					{"list", counted(func(*http.Request) (*http.Response, error) {
						return respondJSON(200, map[string]any{
							"apiVersion": "v1", "kind": "List",
							"metadata": map[string]any{"resourceVersion": "5"}, "items": []any{tt.object("1")},
						})
					})},
					{"watch 5", counted(watchObject("MODIFIED", tt.object("6")))},
				}}
				client := sc.client()
				if tt.newClient {
					cfg := &rest.Config{Host: "http://server", Transport: sc, QPS: -1, Timeout: time.Second}
					var err error
					if client, err = stream.NewClient(cfg, nil); err != nil {
						t.Fatal(err)
					}
				}
				s := newStream(t, client, &setup{Options: stream.Options{Objects: stream.Metadata}})
				for ev, err := range s.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Object == nil {
						continue
					}
					want := object("a@" + ev.ResourceVersion)
					if diff := cmp.Diff(want, ev.Object.Object); diff != "" {
						t.Errorf("%s: %s (-want +got):\n%s", tt.why, ev.Type, diff)
					}
					if ev.Type == stream.Modified {
						break
					}
				}
				if (requests == 2) != tt.newClient {
					t.Errorf("%s: %d requests for metadata only", tt.why, requests)
				}
			})
		})
	}
}
