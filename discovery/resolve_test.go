package discovery_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// eachFormat runs the test on aggregated and on legacy discovery.
func eachFormat(t *testing.T, f func(t *testing.T, s *apiServer)) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%v", legacy), func(t *testing.T) {
			s := newAPIServer(t, cluster()...)
			s.legacy = legacy
			f(t, s)
		})
	}
}

func ref(t *testing.T, s string) gvr.Ref {
	t.Helper()
	r, err := gvr.ParseRef(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResolve(t *testing.T) {
	tests := []struct{ in, want, why string }{
		{"pods", "pods.v1", "plural; the core group wins over metrics.k8s.io"},
		{"pod", "pods.v1", "singular"},
		{"po", "pods.v1", "short name"},
		{"Pod", "pods.v1", "kind"},
		{"PodList", "pods.v1", "list kind"},
		{"podlist", "pods.v1", "people do not mind case"},
		{"PODS", "pods.v1", "kubectl takes this as well"},
		{"podmetrics", "pods.v1beta1.metrics.k8s.io", "a kind in lower case, of a resource without a singular"},
		{"WDX", "wds.v1.other.example.com", "a singular in upper case"},
		{"OWD", "widgets.v1.other.example.com", "a short name in upper case"},
		{"v1/pods", "pods.v1", "core group by version"},
		{"pods.v1", "pods.v1", "as Resource.String writes it"},
		{"PodMetrics", "pods.v1beta1.metrics.k8s.io", "found by kind, though it can't be watched"},
		{"ev", "events.v1", "the core group wins, as in kubectl"},
		{"events.events.k8s.io", "events.v1.events.k8s.io", "unless another group is named"},
		{"deployments.apps", "deployments.v1.apps", "with a group"},
		{"deploy.v1.apps", "deployments.v1.apps", "short name with group and version"},
		{"apps/v1/Deployment", "deployments.v1.apps", "apiVersion and kind"},
		{"widgets.example.com", "widgets.v2.example.com", "the preferred version"},
		{"widgets.v1beta1.example.com", "widgets.v1beta1.example.com", "another version when asked for"},
		{"example.com/trial/widgets", "example.com/trial/widgets", "a version that is none of Kubernetes' own"},
		{"relics", "relics.v1beta1.example.com", "only served in a version that is not preferred"},
		{"globes", "globes.v2.example.com", "cluster-scoped"},
		{"owd", "widgets.v1.other.example.com", "a short name that only one group has"},
		{"wd", "widgets.v2.example.com", "a short name, not the like-named plural wds"},
		{"wds", "wds.v1.other.example.com", "a plural"},
		{"AllowList", "allowlists.v1.other.example.com", "a kind that ends in List is not the list kind of Allow"},
		{"AllowListList", "allowlists.v1.other.example.com", "its list kind"},
	}
	eachFormat(t, func(t *testing.T, s *apiServer) {
		r := discovery.NewResolver(s.client, nil)
		for _, tt := range tests {
			got, err := r.Resolve(t.Context(), ref(t, tt.in))
			if err != nil {
				t.Errorf("%s: %v (%s)", tt.in, err, tt.why)
			} else if got.String() != tt.want {
				t.Errorf("%s: got %s, want %s (%s)", tt.in, got, tt.want, tt.why)
			}
		}
	})
}

func TestResolveFillsResource(t *testing.T) {
	eachFormat(t, func(t *testing.T, s *apiServer) {
		want := gvr.Resource{
			Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Categories: []string{"all"},
			Namespaced: true, Verbs: everyVerb,
		}
		want.Group, want.Version, want.Resource = "example.com", "v2", "widgets"
		s.groups[4].versions[0].resources[0].Categories = []string{"all"}
		if s.legacy {
			want.StorageVersionHash = "hash="
			s.groups[4].versions[0].resources[0].StorageVersionHash = "hash="
		}
		got, err := discovery.NewResolver(s.client, nil).Resolve(t.Context(), ref(t, "wd"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestResolveErrors(t *testing.T) {
	tests := []struct {
		in   string
		want error  // of this type
		text string // in the message
		why  string
	}{
		{"widgets", &discovery.AmbiguousError{}, "write one of widgets.v2.example.com, widgets.v1.other.example.com", "two groups, none of them core"},
		{"Widget", &discovery.AmbiguousError{}, "names more than one resource type", "by kind as well"},
		{"podz", &discovery.NotFoundError{}, "did you mean pods.v1", "a slip of the finger"},
		{"pdo", &discovery.NotFoundError{}, "did you mean pods.v1", "two letters changed places in a short word"},
		{"deploymnet", &discovery.NotFoundError{}, "did you mean deployments.v1.apps?", "two letters changed places"},
		{"quuxes", &discovery.NotFoundError{}, `serves no resource type "quuxes"`, "nothing like it"},
		{"pods.apps", &discovery.NotFoundError{}, "did you mean pods.v1", "the right name in the wrong group"},
		{"widgets.v7.example.com", &discovery.NotFoundError{}, "did you mean widgets.v2.example.com", "a version that is not served"},
		{"v1/deployments", &discovery.NotFoundError{}, "did you mean deployments.v1.apps", "v1/ is the core group"},
		{"log", &discovery.NotFoundError{}, "serves no resource type", "subresources are left out"},
		{"Scale", &discovery.NotFoundError{}, "serves no resource type", "so is the kind of a subresource"},
	}
	eachFormat(t, func(t *testing.T, s *apiServer) {
		r := discovery.NewResolver(s.client, nil)
		for _, tt := range tests {
			got, err := r.Resolve(t.Context(), ref(t, tt.in))
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", tt.want) {
				t.Errorf("%s: got %v, %T, want a %T (%s)", tt.in, got, err, tt.want, tt.why)
			} else if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %q does not say %q (%s)", tt.in, err, tt.text, tt.why)
			}
		}
		var ambiguous *discovery.AmbiguousError
		if _, err := r.Resolve(t.Context(), ref(t, "widgets")); !errors.As(err, &ambiguous) || len(ambiguous.Candidates) != 2 {
			t.Errorf("candidates: %+v", err)
		}
		// The zero Ref must not match the missing singulars.
		if got, err := r.Resolve(t.Context(), gvr.Ref{}); err == nil {
			t.Errorf("the zero Ref resolved to %s", got)
		}
	})
}

func TestUnavailable(t *testing.T) {
	tests := []struct {
		in   string
		want string // the resource, or "unavailable" or "not found"
		why  string
	}{
		{"pods", "pods.v1", "other groups still resolve"},
		{"globes.example.com", "unavailable", "its version is down: unknown is not absent"},
		{"globes", "unavailable", "it could be in the one that is down"},
		{"widgets.example.com", "widgets.v1beta1.example.com", "the next version in the server's order has it"},
		{"widgets.v2.example.com", "unavailable", "this very version was asked for"},
		{"widgets.v7.example.com", "not found", "v7 is not served, up or down"},
		{"quuxes.apps", "not found", "apps is up"},
		{"PodMetrics", "unavailable", "all of its group is down"},
		{"metrics.k8s.io/v1beta1/pods", "unavailable", "by group and version"},
	}
	eachFormat(t, func(t *testing.T, s *apiServer) {
		s.down["example.com/v2"] = true
		s.down["metrics.k8s.io/v1beta1"] = true
		r := discovery.NewResolver(s.client, nil)
		for _, tt := range tests {
			res, err := r.Resolve(t.Context(), ref(t, tt.in))
			got := res.String()
			var unavailable *discovery.UnavailableError
			var notFound *discovery.NotFoundError
			switch {
			case errors.As(err, &unavailable):
				got = "unavailable"
				if len(unavailable.GroupVersions) == 0 || unavailable.Err == nil {
					t.Errorf("%s: %+v does not say which API is down and why", tt.in, unavailable)
				}
			case errors.As(err, &notFound):
				got = "not found"
			case err != nil:
				t.Errorf("%s: %v", tt.in, err)
			}
			if got != tt.want {
				t.Errorf("%s: got %s, %v, want %s (%s)", tt.in, got, err, tt.want, tt.why)
			}
		}
		s.change(func() { clear(s.down) })
		if got, err := r.Resolve(t.Context(), ref(t, "globes")); err != nil {
			t.Errorf("an API that is back must be found at once: got %v, %v", got, err)
		}
	})
}

func TestAllGroupsDown(t *testing.T) {
	// client-go forgets the failures when nothing at all is left.
	s := newAPIServer(t, group{"example.com", []version{{"v1", nil}}})
	s.down["example.com/v1"] = true
	for _, name := range []string{"widgets.example.com", "widgets.v1.example.com"} {
		_, err := discovery.NewResolver(s.client, nil).Resolve(t.Context(), ref(t, name))
		var unavailable *discovery.UnavailableError
		if !errors.As(err, &unavailable) {
			t.Errorf("%s: got %v, want an *UnavailableError", name, err)
		}
	}
}

func TestOddDocuments(t *testing.T) {
	gv := func(versions ...string) []metav1.GroupVersionForDiscovery {
		var all []metav1.GroupVersionForDiscovery
		for _, v := range versions {
			all = append(all, metav1.GroupVersionForDiscovery{Version: v})
		}
		return all
	}
	doc := func(groupVersion string, resources ...metav1.APIResource) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: resources}
	}
	v1 := schema.GroupVersion{Group: "example.com", Version: "v1"}
	v2 := schema.GroupVersion{Group: "example.com", Version: "v2"}
	example := metav1.APIGroup{Name: "example.com", Versions: gv("v1", "v2"), PreferredVersion: gv("v2")[0]}
	widget := namespaced("widgets", "widget", "Widget")
	tests := []struct {
		name      string
		groups    []metav1.APIGroup
		documents map[schema.GroupVersion]*metav1.APIResourceList
		want      map[string]string // name to resource, or to the kind of error
		why       string
	}{
		{"a group announced twice", []metav1.APIGroup{example, {Name: "example.com", Versions: gv("v1")}},
			map[schema.GroupVersion]*metav1.APIResourceList{v1: doc("example.com/v1", widget), v2: doc("example.com/v2", widget)},
			map[string]string{"widgets": "widgets.v2.example.com"},
			"the first announcement's preference holds, every time"},
		{"a core group without versions", []metav1.APIGroup{{}, example},
			map[schema.GroupVersion]*metav1.APIResourceList{v1: doc("example.com/v1"), v2: doc("example.com/v2")},
			map[string]string{"nope": "*discovery.NotFoundError"},
			"what client-go makes of a server that has no core group: it is not down"},
		{"a document of nothing", []metav1.APIGroup{example},
			map[schema.GroupVersion]*metav1.APIResourceList{v1: doc("", widget), v2: doc("example.com/v2")},
			map[string]string{"widgets": "*discovery.UnavailableError"},
			"it is not the core group's"},
		{"a nil document", []metav1.APIGroup{example},
			map[schema.GroupVersion]*metav1.APIResourceList{v1: nil, v2: doc("example.com/v2", widget)},
			map[string]string{"widgets": "widgets.v2.example.com", "nope": "*discovery.UnavailableError"},
			"as good as none"},
		{"a document of the unannounced", []metav1.APIGroup{example},
			map[schema.GroupVersion]*metav1.APIResourceList{v1: doc("other.com/v1", widget), v2: doc("a/b/c", widget)},
			map[string]string{"widgets": "*discovery.UnavailableError"},
			"what nobody announced is not served; what was announced is missing"},
		{"a resource without name or kind", []metav1.APIGroup{example},
			map[schema.GroupVersion]*metav1.APIResourceList{v1: doc("example.com/v1", namespaced("", "", "Nameless"), namespaced("kindless", "", "")), v2: doc("example.com/v2")},
			map[string]string{"Nameless": "*discovery.NotFoundError", "kindless": "*discovery.NotFoundError", "List": "*discovery.NotFoundError"},
			"it can't be watched by any name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 { // maps are in the way
				r := discovery.NewResolver(cannedClient{groups: tt.groups, documents: tt.documents}, nil)
				for name, want := range tt.want {
					res, err := r.Resolve(t.Context(), gvr.Ref{Name: name})
					got := res.String()
					if err != nil {
						got = fmt.Sprintf("%T", err)
					}
					if got != want {
						t.Fatalf("%s is %s, %v, want %s: %s", name, got, err, want, tt.why)
					}
				}
			}
		})
	}
}

// cannedClient returns what no server should send.
type cannedClient struct {
	clientdiscovery.AggregatedDiscoveryInterface
	groups    []metav1.APIGroup
	documents map[schema.GroupVersion]*metav1.APIResourceList
}

func (c cannedClient) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	return &metav1.APIGroupList{Groups: c.groups}, c.documents, nil, nil
}

func TestSimilar(t *testing.T) {
	names := func(resources []gvr.Resource) []string {
		var all []string
		for _, r := range resources {
			all = append(all, r.String())
		}
		return all
	}
	var shoals []metav1.APIResource
	for _, letter := range "abcdefgh" {
		name := "shoal" + string(letter)
		shoals = append(shoals, namespaced(name, "", name))
	}
	s := newAPIServer(t, append(cluster(), group{"sea.example.com", []version{{"v1", shoals}}})...)
	r := discovery.NewResolver(s.client, nil)
	tests := []struct {
		in   string
		want []string
		why  string
	}{
		{"widgtes.other.example.com", []string{"widgets.v1.other.example.com", "widgets.v2.example.com"}, "the group that was named comes first"},
		{"shoals", []string{"shoala.v1.sea.example.com", "shoalb.v1.sea.example.com", "shoalc.v1.sea.example.com", "shoald.v1.sea.example.com", "shoale.v1.sea.example.com"}, "no more than five"},
		{"ev2", nil, "nearly any two letters are one edit from some short name"},
	}
	for _, tt := range tests {
		var notFound *discovery.NotFoundError
		if _, err := r.Resolve(t.Context(), ref(t, tt.in)); !errors.As(err, &notFound) {
			t.Errorf("%s: %v", tt.in, err)
		} else if diff := cmp.Diff(tt.want, names(notFound.Similar)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.in, tt.why, diff)
		}
	}
}

func TestWatchables(t *testing.T) {
	eachFormat(t, func(t *testing.T, s *apiServer) {
		r := discovery.NewResolver(s.client, nil)
		resources, err := r.Watchables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// No bindings, no metrics: they lack the verbs. No subresources. Every
		// resource once, in its preferred version.
		want := []string{
			"namespaces.v1 cluster", "pods.v1 namespaced", "services.v1 namespaced", "events.v1 namespaced",
			"deployments.v1.apps namespaced", "events.v1.events.k8s.io namespaced",
			"widgets.v2.example.com namespaced", "globes.v2.example.com cluster", "relics.v1beta1.example.com namespaced",
			"widgets.v1.other.example.com namespaced", "allowlists.v1.other.example.com namespaced",
			"allows.v1.other.example.com namespaced", "wds.v1.other.example.com namespaced",
		}
		if diff := cmp.Diff(want, scopes(resources)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		s.change(func() { s.down["other.example.com/v1"] = true })
		resources, err = discovery.NewResolver(s.client, nil).Watchables(t.Context())
		var unavailable *discovery.UnavailableError
		if !errors.As(err, &unavailable) || len(unavailable.GroupVersions) != 1 || unavailable.GroupVersions[0].Group != "other.example.com" {
			t.Errorf("got %v, want an *UnavailableError for other.example.com", err)
		}
		if diff := cmp.Diff(want[:9], scopes(resources)); diff != "" {
			t.Errorf("what the others serve (-want +got):\n%s", diff)
		}
	})
}

func scopes(resources []gvr.Resource) []string {
	var got []string
	for _, r := range resources {
		switch {
		case !r.ClusterWatch():
			got = append(got, r.String()+" not at all")
		case r.NamespacedWatch():
			got = append(got, r.String()+" namespaced")
		default:
			got = append(got, r.String()+" cluster")
		}
	}
	return got
}

func TestOtherClients(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	fake := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	fake.Resources = []*metav1.APIResourceList{{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{namespaced("gadgets", "gadget", "Gadget")}}}
	tests := []struct {
		client clientdiscovery.DiscoveryInterface
		add    func()
		why    string
	}{
		{fake, func() {
			fake.Resources[0].APIResources = append(fake.Resources[0].APIResources, namespaced("late", "late", "Late"))
		}, "client-go's fake, which users test with"},
		{memory.NewMemCacheClient(s.client), func() { s.add("late") }, "a client that caches and is never refreshed by itself"},
		{onlyCached{memory.NewMemCacheClient(s.client)}, func() { s.add("latest") }, "such a client from before there were contexts"},
		{onlyDiscovery{s.client.WithLegacy()}, func() { s.add("later") }, "a client with no method beyond the plain interface"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			r := discovery.NewResolver(tt.client, nil)
			name := "late.example.com"
			switch {
			case strings.Contains(tt.why, "plain"):
				name = "later.example.com"
			case strings.Contains(tt.why, "before"):
				name = "latest.example.com"
			}
			if got, err := r.Resolve(t.Context(), ref(t, name)); err == nil {
				t.Fatalf("found %s before it was there", got)
			}
			tt.add()
			if _, err := r.Resolve(t.Context(), ref(t, name)); err != nil {
				t.Error(err)
			}
		})
	}
}

// onlyCached hides all that is newer.
type onlyCached struct {
	clientdiscovery.CachedDiscoveryInterface
}

// onlyDiscovery hides what the client can do besides.
type onlyDiscovery struct {
	clientdiscovery.DiscoveryInterface
}

// add serves one more resource in example.com/v2, as a new CRD does.
func (s *apiServer) add(plural string) {
	s.change(func() {
		for i := range s.groups {
			if s.groups[i].name == "example.com" {
				v := &s.groups[i].versions[0]
				v.resources = append(v.resources, namespaced(plural, plural, plural))
			}
		}
	})
}
