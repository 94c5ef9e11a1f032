package stream_test

import (
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
func TestOptionsReachTheServer(t *testing.T) {
	events := func(group string) gvr.Resource {
		r := gvr.Resource{Kind: "Event", Namespaced: true, Verbs: []string{"list", "watch"}}
		r.Group, r.Version, r.Resource = group, "v1", "events"
		return r
	}
	pod := &corev1.ObjectReference{Kind: "Pod", Name: "web", UID: "u1"}
	tests := []struct {
		r    gvr.Resource
		o    stream.Options
		want string
		why  string
	}{
		{widgets(), stream.Options{FieldSelector: "spec.size=1"}, "spec.size=1", "as given"},
		{widgets(), stream.Options{Name: "a"}, "metadata.name=a", "one object"},
		{widgets(), stream.Options{Name: "a", FieldSelector: "spec.size!=1"}, "spec.size!=1,metadata.name=a", "both"},
		{widgets(), stream.Options{Name: "a", FieldSelector: "metadata.name=a"}, "metadata.name=a,metadata.name=a", "the same twice is no contradiction"},
		{widgets(), stream.Options{Name: "a,b=c"}, `metadata.name=a\,b\=c`, "a name can't become a selector"},
		{events(""), stream.Options{InvolvedObject: pod, FieldSelector: "type=Warning"}, "type=Warning,involvedObject.kind=Pod,involvedObject.name=web,involvedObject.uid=u1", "events of the core group"},
		{events("events.k8s.io"), stream.Options{InvolvedObject: pod, Name: "e"}, "metadata.name=e,regarding.kind=Pod,regarding.name=web,regarding.uid=u1", "events of their own group have another word for it"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			see := func(then answer) answer {
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
			sc := &script{t: t, exchanges: []exchange{{"list", see(list("5", ""))}, {"watch 5", see(watch("wait 3s"))}, {"probe", see(list("5", ""))}, {"watch 5", see(watch("open"))}}}
			tt.o.PagedLists, tt.o.Namespaces, tt.o.LabelSelector = true, []string{"team"}, "a=b,!c"
			s, err := stream.New(sc.client(), tt.r, &tt.o)
			if err != nil {
				t.Fatalf("%s: %v", tt.why, err)
			}
			tt.o.Namespaces[0], tt.o.LabelSelector = "changed", "later" // the options were copied
			record(t, s, 10*time.Second)
			if diff := cmp.Diff([]string{tt.want, tt.want, tt.want, tt.want}, got); diff != "" {
				t.Errorf("%s: in the list, the watch, the probe and the next watch (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	// Objects are selected by version: those whose version is odd.
	odd := func(m stream.Meta) bool {
		rv := m.GetResourceVersion()
		return strings.ContainsAny(rv[len(rv)-1:], "13579")
	}
	testConversations(t, []conversation{
		{"comes and goes", stream.Options{Select: odd},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2")},
				{"watch 5", watch("MODIFIED a@6", "MODIFIED a@8", "MODIFIED a@9", "MODIFIED b@11", "DELETED a@12", "ADDED c@14", "DELETED c@15", "DELETED b@16", "open")},
			},
			[]string{"ADDED a@1", "SYNCED 5", "DELETED a@6", "ADDED a@9", "ADDED b@11", "DELETED a@12", "DELETED b@16"},
			"as with a selector: leaving is DELETED, entering is ADDED; the end of what was never told is not"},
		{"across a gap", stream.Options{Select: odd},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2", "c@3", "d@4", "e@5")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "", "a@6", "b@7", "c@9", "e@5")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@1", "ADDED c@3", "ADDED e@5", "SYNCED 5", "GAP expired from 5 to 20",
				"DELETED a@1 inferred", "ADDED b@7 inferred", "MODIFIED c@9 inferred", "SYNCED 20"},
			"the differences of what is selected; d was never told, so its end is not"},
		{"another incarnation", stream.Options{Select: odd},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "", "a/other@8", "b/other@9")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@1", "SYNCED 5", "GAP expired from 5 to 20", "DELETED a@1 inferred", "ADDED b/other@9 inferred", "SYNCED 20"},
			"each by itself"},
		{"after a version", stream.Options{Select: odd, Start: stream.After("5")},
			[]exchange{
				{"watch 5", watch("MODIFIED a@6", "MODIFIED a@7", "MODIFIED b@9", "DELETED c@10", "DELETED d@11", "MODIFIED b@12", "open")},
			},
			[]string{"SYNCED 5", "ADDED a@7", "ADDED b@9", "DELETED d@11", "DELETED b@12"},
			"of what was not known, nobody knows whether it was selected before"},
	})
}

func TestTransform(t *testing.T) {
	testConversations(t, []conversation{
		{"rename", stream.Options{Transform: func(o *unstructured.Unstructured) { o.SetName("the-" + o.GetName()) }},
			[]exchange{
				{"list", list("5", "", "a@1", "b@2")},
				{"watch 5", watch("MODIFIED a@6", "ERROR 410 Expired")},
				{"list", list("20", "", "a@6")},
				{"watch 20", watch("DELETED a@21", "open")},
			},
			[]string{"ADDED the-a/uid-a@1", "ADDED the-b/uid-b@2", "SYNCED 5", "MODIFIED the-a/uid-a@6", "GAP expired from 6 to 20", "DELETED the-b/uid-b@2 inferred", "SYNCED 20", "DELETED the-a/uid-a@21"},
			"what is delivered is changed, not what is known"},
		{"forget", stream.Options{Transform: func(o *unstructured.Unstructured) { clear(o.Object) }},
			[]exchange{
				{"list", list("5", "", "a@1")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "", "a@1")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED @1", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"even if nothing is left of it"},
	})
}

func TestMetadataOnly(t *testing.T) {
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
		name   string
		object func(string) map[string]any
		own    bool
		why    string
	}{
		{"asked for", small, true, "NewClient asks for no more than metadata"},
		{"not understood", full, true, "a server that sends all of it"},
		{"any client", full, false, "client-go's own can't ask"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accepts := 0
				see := func(then answer) answer {
					return func(r *http.Request) (*http.Response, error) {
						want := "as=PartialObjectMetadataList;"
						if r.URL.Query().Has("watch") {
							want = "as=PartialObjectMetadata;"
						}
						if accept := r.Header.Get("Accept"); strings.HasPrefix(accept, "application/json;"+want) && strings.HasSuffix(accept, ",application/json") {
							accepts++
						}
						return then(r)
					}
				}
				sc := &script{t: t, exchanges: []exchange{
					{"list", see(func(*http.Request) (*http.Response, error) {
						return respondJSON(200, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": "5"}, "items": []any{tt.object("1")}})
					})},
					{"watch 5", see(func(r *http.Request) (*http.Response, error) { return watchObject("MODIFIED", tt.object("6"))(r) })},
				}}
				client := sc.client()
				if tt.own {
					var err error
					if client, err = stream.NewClient(&rest.Config{Host: "http://server", Transport: sc, QPS: -1, Timeout: time.Second}, nil); err != nil {
						t.Fatal(err)
					}
				}
				s := newStream(t, client, &stream.Options{MetadataOnly: true})
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
				if (accepts == 2) != tt.own {
					t.Errorf("%s: %d requests asked for metadata only", tt.why, accepts)
				}
			})
		})
	}
}
