package discovery_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

type (
	documents  = map[schema.GroupVersion]*metav1.APIResourceList
	failedAPIs = map[schema.GroupVersion]error
)

func TestResolveWithMalformedDocuments(t *testing.T) {
	gv := func(versions ...string) []metav1.GroupVersionForDiscovery {
		var all []metav1.GroupVersionForDiscovery
		for _, v := range versions {
			all = append(all, metav1.GroupVersionForDiscovery{Version: v})
		}
		return all
	}
	document := func(groupVersion string, resources ...metav1.APIResource) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: resources}
	}
	v1 := schema.GroupVersion{Group: "example.com", Version: "v1"}
	v2 := schema.GroupVersion{Group: "example.com", Version: "v2"}
	example := metav1.APIGroup{Name: "example.com", Versions: gv("v1", "v2"), PreferredVersion: gv("v2")[0]}
	widget := namespaced("widgets", "widget", "Widget")
	noName, noKind := namespaced("", "", "Nameless"), namespaced("kindless", "", "")
	const notFound, unavailable = "*discovery.NotFoundError", "*discovery.UnavailableError"
	tests := []struct {
		name      string
		groups    []metav1.APIGroup
		documents documents
		want      map[string]string // name to resource, or to type of error
		why       string
	}{
		{"a group listed twice", []metav1.APIGroup{example, {Name: "example.com", Versions: gv("v1")}},
			documents{v1: document("example.com/v1", widget), v2: document("example.com/v2", widget)},
			map[string]string{"widgets": "widgets.v2.example.com"},
			"the preference of the first entry counts"},
		{"a core group without versions", []metav1.APIGroup{{}, example},
			documents{v1: document("example.com/v1"), v2: document("example.com/v2")},
			map[string]string{"nope": notFound},
			"client-go returns one for a server without a core group: it is not down"},
		{"a document without a version", []metav1.APIGroup{example},
			documents{v1: document("", widget), v2: document("example.com/v2")},
			map[string]string{"widgets": unavailable},
			"it is not the core group's document"},
		{"a nil document", []metav1.APIGroup{example},
			documents{v1: nil, v2: document("example.com/v2", widget)},
			map[string]string{"widgets": "widgets.v2.example.com", "nope": unavailable},
			"it counts as missing"},
		{"a document of an unlisted version", []metav1.APIGroup{example},
			documents{v1: document("other.com/v1", widget), v2: document("a/b/c", widget)},
			map[string]string{"widgets": unavailable},
			"an unlisted version is not served; the document of a listed one is missing"},
		{"a resource without name or kind", []metav1.APIGroup{example},
			documents{v1: document("example.com/v1", noName, noKind), v2: document("example.com/v2")},
			map[string]string{"Nameless": notFound, "kindless": notFound, "List": notFound},
			"a malformed resource is ignored"},
		{"a resource without verbs", []metav1.APIGroup{example},
			documents{v1: document("example.com/v1", withVerbs(widget)), v2: document("example.com/v2")},
			map[string]string{"widgets": notFound},
			"it can't be used; in a gvr.Resource, no verbs would mean list and watch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 { // the order of maps must not matter
				r := discovery.NewResolver(cannedClient{groups: tt.groups, documents: tt.documents}, 0)
				for name, want := range tt.want {
					res, err := r.Resolve(t.Context(), gvr.Ref{Name: name})
					got := res.String()
					if err != nil {
						got = fmt.Sprintf("%T", err)
					}
					if got != want {
						t.Fatalf("%s: %s: got %s, %v, want %s", name, tt.why, got, err, want)
					}
				}
			}
		})
	}
}

// In legacy discovery, client-go trusts the groupVersion that a document claims.
func TestDocumentOfAnotherVersionIsIgnored(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	s.legacy = true
	s.respond = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/apis/apps/v1" {
			return false
		}
		bads := []metav1.APIResource{namespaced("bads", "bad", "Bad")}
		writeJSON(w, metav1.APIResourceList{GroupVersion: "v1", APIResources: bads})
		return true
	}
	r := discovery.NewResolver(s.client, 0)
	if got, err := r.Resolve(t.Context(), ref(t, "v1/pods")); err != nil || got.String() != "pods.v1" {
		t.Errorf("the core group is hidden: %v, %v", got, err)
	}
	var unavailable *discovery.UnavailableError
	for _, name := range []string{"deployments.apps", "bads"} {
		if got, err := r.Resolve(t.Context(), ref(t, name)); !errors.As(err, &unavailable) {
			t.Errorf("%s: got %v, %v, want an *UnavailableError", name, got, err)
		}
	}
}

// cannedClient returns fixed documents, which may be malformed.
type cannedClient struct {
	clientdiscovery.AggregatedDiscoveryInterface
	groups    []metav1.APIGroup
	documents documents
}

func (c cannedClient) GroupsAndMaybeResources() (*metav1.APIGroupList, documents, failedAPIs, error) {
	return &metav1.APIGroupList{Groups: c.groups}, c.documents, nil, nil
}
