package stream_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

var everyMode = []stream.ObjectsMode{stream.Full, stream.Raw, stream.Metadata}

// newClientOf returns a client of NewClient whose server is a script.
func newClientOf(t *testing.T, sc *script, o stream.Options) *stream.Stream {
	t.Helper()
	c, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: sc, QPS: -1}, nil)
	noError(t, err)
	o.Requests.PagedLists = true
	s, err := stream.New(c, widgets(), &o)
	noError(t, err)
	return s
}

// TestUnreadableFrames: pulumi/pulumi-kubernetes#994, kubernetes/kubernetes#126625, projectcalico/libcalico-go#624.
// Each watch begins with the same frame, and then an event. What can't be read is reported once it has come several
// times, and is never a deletion.
func TestUnreadableFrames(t *testing.T) {
	const widget = `"kind":"Widget","apiVersion":"example.com/v1"`
	poisoned := []string{"ADDED a@3", "SYNCED 10", "GAP poison from 10 to 10", "SYNCED 10"}
	changed := []string{"ADDED a@3", "SYNCED 10", "MODIFIED a@14"}
	tests := []struct {
		frame string
		want  []string // the first events
		why   string
	}{
		{`{"type":"ADDED","object":null}`, poisoned, "a null object"},
		{`{"type":"MODIFIED"}`, poisoned, "no object"},
		{`{"type":"DELETED","object":null}`, poisoned, "nobody knows what was deleted"},
		{`{"type":"BOOKMARK","object":null}`, poisoned, "a bookmark has a version"},
		{`{"type":"ERROR","object":null}`, poisoned, "an error without a Status"},
		{`{"type":"ERROR"}`, poisoned, "an error without anything"},
		{`{}`, poisoned, "no type"},
		{`null`, poisoned, "null for a frame"},
		{`[]`, poisoned, "a list for a frame"},
		{`"x"`, poisoned, "a text for a frame"},
		{`{"type":null,"object":{}}`, poisoned, "a null type"},
		{`{"type":"ADDED","object":[]}`, poisoned, "a list for an object"},
		{`{"type":"ADDED","object":{"metadata":null}}`, poisoned, "an object without a kind"},
		{`{"type":"ADDED","object":{` + widget + `,"metadata":null}}`, poisoned, "an object without a name"},
		{`{"type":"MODIFIED","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}}`, poisoned,
			"a Status in the place of an object"},
		{`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Success"}}`, poisoned,
			"a Status that is no failure"},
		{`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410}}`,
			[]string{"ADDED a@3", "SYNCED 10", "GAP expired from 10 to 10", "SYNCED 10"}, "410 without a reason"},
		{`{"type":"BOOKMARK","object":{` + widget + `}}`, changed, "a bookmark without metadata says nothing"},
		{`{"type":"BOOKMARK","object":{` + widget + `,"metadata":{"resourceVersion":12}}}`, changed,
			"nor does one whose version is a number"},
		{`{"type":"DELETED","object":{` + widget + `,"metadata":{"name":"a","namespace":"default",` +
			`"resourceVersion":"12","labels":null,"annotations":null,"finalizers":null,"ownerReferences":null,` +
			`"deletionTimestamp":null}}}`,
			[]string{"ADDED a@3", "SYNCED 10", "DELETED a@12", "ADDED a@14"}, "nulls, and no uid"},
	}
	for i := range len(tests) * len(everyMode) {
		tt, mode := tests[i/len(everyMode)], everyMode[i%len(everyMode)]
		t.Run(fmt.Sprint(tt.frame, " mode:", mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := func(r *http.Request) (*http.Response, error) {
					if strings.HasPrefix(describe(r), "watch") {
						return watch("raw "+tt.frame+"\n", "MODIFIED a@14", "open")(r)
					}
					return list("10", "", "a@3")(r)
				}
				sc := &script{t: t, noProbes: true, exchanges: []exchange{{"", answer}}}
				s := &running{Stream: newClientOf(t, sc, stream.Options{Objects: mode})}
				got := record(t, s, time.Minute)
				if diff := cmp.Diff(tt.want, got[:min(len(got), len(tt.want))]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				for _, line := range got {
					if strings.HasPrefix(line, "DELETED") && !slices.Contains(tt.want, line) {
						t.Errorf("%s: %s", tt.why, line)
					}
				}
			})
		})
	}
}

// TestListsWithoutItems: tomplus/kubernetes_asyncio#379, kubernetes-client/python#2142. encoding/json writes an empty
// list as null, and programs that implement an API leave it out.
func TestListsWithoutItems(t *testing.T) {
	for _, kind := range []string{"WidgetList", "PartialObjectMetadataList"} {
		for _, tt := range []struct {
			items string
			want  []string
			why   string
		}{
			{`,"items":[]`, []string{"GAP expired from 5 to 20", "DELETED a@3 inferred", "SYNCED 20"}, "an empty list"},
			{`,"items":null`, []string{"GAP expired from 5 to 20", "DELETED a@3 inferred", "SYNCED 20"},
				"null is empty"},
			{``, []string{"GAP expired from 5 to 20", "DELETED a@3 inferred", "SYNCED 20"}, "so is a missing list"},
			{`,"items":{}`, nil, "an object is no list, and is retried"},
			{`,"items":""`, nil, "nor is a text"},
		} {
			t.Run(kind+tt.items, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					apiVersion, mode := "example.com/v1", stream.Full
					if kind != "WidgetList" {
						apiVersion, mode = "meta.k8s.io/v1", stream.Metadata
					}
					bad := func(*http.Request) (*http.Response, error) {
						text := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"20"}%s}`,
							kind, apiVersion, tt.items)
						return respond(200, io.NopCloser(strings.NewReader(text)))
					}
					sc := &script{t: t, exchanges: []exchange{
						{"list", list("5", "", "a@3")}, {"watch 5", watch("ERROR 410 Expired")},
						{"", func(r *http.Request) (*http.Response, error) {
							if describe(r) == "list" {
								return bad(r)
							}
							return watch("open")(r)
						}},
					}}
					got := record(t, &running{Stream: newClientOf(t, sc, stream.Options{Objects: mode})}, time.Minute)
					if diff := cmp.Diff(append([]string{"ADDED a@3", "SYNCED 5"}, tt.want...), got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", tt.why, diff)
					}
				})
			})
		}
	}
}

// TestFieldThatStopsBeingSelectable: kubernetes/kubernetes#51046, #110188. A CRD may take a field from selectableFields
// and give it back. Until then nothing is deleted, and Status says why nothing arrives.
func TestFieldThatStopsBeingSelectable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unsupported := func(*http.Request) (*http.Response, error) {
			s := failure(400, metav1.StatusReasonBadRequest, 0)
			s.Message = "field label not supported: spec.color"
			return respondJSON(400, s)
		}
		sc := &script{t: t, noProbes: true, exchanges: slices.Concat(
			[]exchange{{"list", list("5", "", "a@3")}, {"watch 5", watch("wait 30s")}},
			slices.Repeat([]exchange{{"probe", unsupported}}, 5),
			[]exchange{{"probe", list("9", "", "b@8")}, {"watch 5", watch("ERROR 410 Expired")},
				{"list", list("9", "", "a@3", "b@8")}, {"watch 9", watch("open")}},
		)}
		var mu sync.Mutex
		var states []string
		o := &setup{Options: stream.Options{FieldSelector: "spec.color=red"}}
		o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
			mu.Lock()
			defer mu.Unlock()
			state := fmt.Sprint(s.State)
			if s.Cause != nil && strings.Contains(s.Cause.Error(), "field label not supported: spec.color") {
				state += ": not supported"
			}
			states = append(states, state)
		}}
		got := record(t, newStream(t, sc.client(), o), 2*time.Minute)
		want := []string{"ADDED a@3", "SYNCED 5", "GAP expired from 5 to 9", "ADDED b@8 inferred", "SYNCED 9"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(states, "Backoff: not supported") {
			t.Errorf("states %q, want Backoff with the server's message", states)
		}
	})
}

// TestNameIsEscaped: a name may have what separates the terms of a field selector.
func TestNameIsEscaped(t *testing.T) {
	for _, tt := range []struct{ name, fields, want, why string }{
		{"system:node", "", "metadata.name=system:node", "names of RBAC have colons"},
		{"a,b=c", "", `metadata.name=a\,b\=c`, "the name is one term"},
		{`back\slash`, "", `metadata.name=back\\slash`, "a backslash escapes"},
		{"a,b", "spec.x=1", `spec.x=1,metadata.name=a\,b`, "with other fields"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var selectors []string
			sc := &script{t: t, exchanges: []exchange{{"", func(r *http.Request) (*http.Response, error) {
				selectors = append(selectors, r.URL.Query().Get("fieldSelector"))
				if describe(r) == "list" {
					return list("5", "")(r)
				}
				return watch("open")(r)
			}}}}
			record(t, newStream(t, sc.client(), &setup{Options: stream.Options{
				Name: tt.name, FieldSelector: tt.fields, Namespaces: []string{"default"}}}), time.Second)
			if diff := cmp.Diff([]string{tt.want, tt.want}, selectors); diff != "" {
				t.Errorf("%s: the list and the watch (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// TestVersionsOfAnyLength: versions are compared as numbers of any length.
func TestVersionsOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nines, next = "99999999999999999999", "100000000000000000000"
		sc := &script{t: t, noProbes: true, exchanges: []exchange{
			{"list", list("99999999999999999998", "", "a@99999999999999999990")},
			{"watch 99999999999999999998", watch("MODIFIED a@"+nines, "MODIFIED a@"+next, "MODIFIED a@"+next,
				"MODIFIED a@"+nines, "BOOKMARK @100000000000000000007", "wait 30s")},
			{"probe", list("100000000000000000008", "", "a@"+next)},
			{"watch 100000000000000000007", watch("open")},
		}}
		got := record(t, newStream(t, sc.client(), &setup{Run: stream.Run{Bookmarks: true}}), time.Minute)
		want := []string{"ADDED a@99999999999999999990", "SYNCED 99999999999999999998", "MODIFIED a@" + nines,
			"MODIFIED a@" + next, "BOOKMARK 100000000000000000007"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
