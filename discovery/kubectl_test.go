package discovery_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// names is testdata/names.json: custom types whose names are also those of others, and what each name means.
type names struct {
	Types []struct{ Group, Plural, Singular, Kind, Short string }
	Names []struct {
		Name     string
		Kubectl  string // what kubectl takes, or "none"; TestLabNamesBesideKubectl compares it
		Gvrwatch string // what Resolve returns if that is not the same, or "none", "ambiguous", "invalid"
		Why      string
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNamesAreThoseOfKubectl resolves names on a recorded kube-apiserver with some CRDs.
func TestNamesAreThoseOfKubectl(t *testing.T) {
	var table names
	readJSON(t, "names.json", &table)
	documents := map[string]*apidiscovery.APIGroupDiscoveryList{}
	readJSON(t, "discovery/kube-v1.36-aggregated.json", &documents)
	for _, crd := range table.Types {
		custom := apidiscovery.APIResourceDiscovery{
			Resource: crd.Plural, SingularResource: crd.Singular, Verbs: everyVerb,
			ResponseKind: &metav1.GroupVersionKind{Kind: crd.Kind}, Scope: apidiscovery.ScopeNamespace,
		}
		if crd.Short != "" {
			custom.ShortNames = []string{crd.Short}
		}
		items := &documents["/apis"].Items
		at := slices.IndexFunc(*items, func(g apidiscovery.APIGroupDiscovery) bool { return g.Name == crd.Group })
		if at < 0 {
			at = len(*items)
			*items = append(*items, apidiscovery.APIGroupDiscovery{
				ObjectMeta: metav1.ObjectMeta{Name: crd.Group},
				Versions:   []apidiscovery.APIVersionDiscovery{{Version: "v1"}},
			})
		}
		version := &(*items)[at].Versions[0]
		version.Resources = append(version.Resources, custom)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", clientdiscovery.AcceptV2)
		_ = json.NewEncoder(w).Encode(documents[r.URL.Path])
	}))
	defer s.Close()
	r := discovery.NewResolver(clientdiscovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: s.URL}), 0)
	for _, tt := range table.Names {
		want := tt.Gvrwatch
		if want == "" {
			want = tt.Kubectl
		}
		if diff := cmp.Diff(want, meaning(t, r, tt.Name)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.Name, tt.Why, diff)
		}
	}
}

// meaning returns what a name means, in the words of testdata/names.json.
func meaning(t *testing.T, r *discovery.Resolver, name string) string {
	var notFound *discovery.NotFoundError
	var ambiguous *discovery.AmbiguousError
	ref, err := gvr.ParseRef(name)
	if err != nil {
		return "invalid"
	}
	switch got, err := r.Resolve(t.Context(), ref); {
	case errors.As(err, &notFound):
		return "none"
	case errors.As(err, &ambiguous):
		return "ambiguous"
	case err != nil:
		return err.Error()
	default:
		return got.String()
	}
}

// A group that is missing in the list would lose its names to CRDs.
func TestBuiltInGroupsAreThoseOfClientGo(t *testing.T) {
	crd := namespaced("foos", "foo", "Foo")
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		s := newAPIServer(t, group{"a.example.com", []version{{"v1", []metav1.APIResource{crd}}}},
			group{gv.Group, []version{{"v1", []metav1.APIResource{crd}}}})
		if got := meaning(t, discovery.NewResolver(s.client, 0), "foos"); got != (gvr.Ref{
			Group: gv.Group, Version: "v1", Name: "foos"}).String() {
			t.Errorf("%s is built in, but foos are %s", gv.Group, got)
		}
	}
}

// While a built-in API cannot be read, a CRD may seem to have a name alone.
func TestNameOfAnUnreadableBuiltInAPIIsNotTaken(t *testing.T) {
	served := append(cluster(), group{"zz.example.com", []version{{"v1", []metav1.APIResource{
		namespaced("deployment", "thing", "Thing", "deploy"), namespaced("gears", "gear", "Gear"),
	}}}})
	tests := []struct{ down, name, want, why string }{
		{"", "deployment", "deployments.v1.apps", "everything can be read"},
		{"apps/v1", "deploy", "cannot read API apps/v1", "the short name may be one of apps"},
		{"apps/v1", "gears", "cannot read API apps/v1", "Resolve does not know the names of built-in types"},
		{"apps/v1", "gears.zz.example.com", "gears.v1.zz.example.com", "the group is named"},
		{"apps/v1", "gears.zz", "gears.v1.zz.example.com", "no built-in group begins like this"},
		{"apps/v1", "pods", "pods.v1", "another built-in group has it"},
		{"example.com/v2", "gears", "gears.v1.zz.example.com", "no built-in API is down"},
	}
	for _, tt := range tests {
		eachFormatOf(t, served, func(t *testing.T, s *apiServer) {
			s.down[tt.down] = true
			if got := meaning(t, discovery.NewResolver(s.client, 0), tt.name); !strings.Contains(got, tt.want) {
				t.Errorf("%s: %s: got %s, want %s", tt.name, tt.why, got, tt.want)
			}
		})
	}
}
