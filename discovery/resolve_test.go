package discovery_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// eachFormat runs f with aggregated and with legacy discovery.
func eachFormat(t *testing.T, f func(t *testing.T, s *apiServer)) { eachFormatOf(t, cluster(), f) }

func eachFormatOf(t *testing.T, served []group, f func(t *testing.T, s *apiServer)) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%v", legacy), func(t *testing.T) {
			s := newAPIServer(t, served...)
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

func TestResolveByEveryName(t *testing.T) {
	tests := []struct{ in, want, why string }{
		{"pods", "pods.v1", "plural; the core group takes precedence over metrics.k8s.io"},
		{"pod", "pods.v1", "singular"},
		{"po", "pods.v1", "short name"},
		{"Pod", "pods.v1", "kind"},
		{"PodList", "pods.v1", "list kind"},
		{"podlist", "pods.v1", "any case"},
		{"PODS", "pods.v1", "any case, as in kubectl"},
		{"podmetrics", "pods.v1beta1.metrics.k8s.io", "a kind in lower case, for a resource without a singular"},
		{"WDX", "wds.v1.other.example.com", "a singular in upper case"},
		{"OWD", "widgets.v1.other.example.com", "a short name in upper case"},
		{"v1/pods", "pods.v1", "core group by version"},
		{"pods.v1", "pods.v1", "as Resource.String writes it"},
		{"PodMetrics", "pods.v1beta1.metrics.k8s.io", "a resource that cannot be watched"},
		{"ev", "events.v1", "the core group takes precedence, as in kubectl"},
		{"events.events.k8s.io", "events.v1.events.k8s.io", "the named group takes precedence over the core group"},
		{"deployments.apps", "deployments.v1.apps", "with a group"},
		{"deploy.v1.apps", "deployments.v1.apps", "short name with group and version"},
		{"apps/v1/Deployment", "deployments.v1.apps", "apiVersion and kind"},
		{"widgets.example.com", "widgets.v2.example.com", "the preferred version"},
		{"widgets.v1beta1.example.com", "widgets.v1beta1.example.com", "the named version"},
		{"example.com/trial/widgets", "example.com/trial/widgets", "a custom version"},
		{"relics", "relics.v1beta1.example.com", "served only in a version that is not preferred"},
		{"globes", "globes.v2.example.com", "cluster-scoped"},
		{"owd", "widgets.v1.other.example.com", "a short name unique to a group"},
		{"wd", "widgets.v2.example.com", "a short name, not the similar plural wds"},
		{"wds", "wds.v1.other.example.com", "a plural"},
		{"AllowList", "allowlists.v1.other.example.com", "a kind takes precedence over the list kind of Allow"},
		{"AllowListList", "allowlists.v1.other.example.com", "the list kind of a kind that ends in List"},
	}
	eachFormat(t, func(t *testing.T, s *apiServer) {
		r := discovery.NewResolver(s.client, 0)
		for _, tt := range tests {
			got, err := r.Resolve(t.Context(), ref(t, tt.in))
			if err != nil {
				t.Errorf("%s: %s: %v", tt.in, tt.why, err)
			} else if got.String() != tt.want {
				t.Errorf("%s: %s: got %s, want %s", tt.in, tt.why, got, tt.want)
			}
		}
	})
}

// TestFullNameIsOneResource: whatever else has that name, Resource.Ref names the resource.
func TestFullNameIsOneResource(t *testing.T) {
	tests := []struct {
		served []metav1.APIResource
		names  map[string]string // what other spellings are
		why    string
	}{
		{[]metav1.APIResource{
			namespaced("Widgets", "", "A"), namespaced("WIDGETS", "", "B"), namespaced("widgets", "", "C"),
		}, map[string]string{
			"widgets": "ambiguous", "Widgets.example.com": "ambiguous", "wIDGETS.v1.example.com": "ambiguous",
			"b.v1.example.com": "WIDGETS.v1.example.com",
		}, "plurals that differ in case"},
		{[]metav1.APIResource{namespaced("gadgets", "gadget", "Gadget"), namespaced("gadget", "odd", "Odd")},
			map[string]string{
				"gadget": "ambiguous", "Gadget.v1.example.com": "ambiguous", "odd": "gadget.v1.example.com",
				"gadgets": "gadgets.v1.example.com",
			}, "a plural that is the singular and the kind of another type"},
		{[]metav1.APIResource{namespaced("odd", "odd", "Odd"), namespaced("odder", "", "ODD", "odd")},
			map[string]string{"odd": "ambiguous", "odder.v1.example.com": "odder.v1.example.com"},
			"a plural that is the kind and the short name of another type"},
	}
	for _, tt := range tests {
		core := group{"", []version{{"v1", nil}}}
		custom := group{"example.com", []version{{"v1", tt.served}}}
		eachFormatOf(t, []group{core, custom}, func(t *testing.T, s *apiServer) {
			r := discovery.NewResolver(s.client, 0)
			for _, served := range tt.served {
				want := gvr.Ref{Group: "example.com", Version: "v1", Name: served.Name}
				if got, err := r.Resolve(t.Context(), want); err != nil || got.Ref() != want {
					t.Errorf("%s: %s is %v, %v", tt.why, want, got, err)
				}
			}
			for name, want := range tt.names {
				if diff := cmp.Diff(want, meaning(t, r, name)); diff != "" {
					t.Errorf("%s: %s (-want +got):\n%s", tt.why, name, diff)
				}
			}
		})
	}
}

func TestResolveReturnsEveryField(t *testing.T) {
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
		got, err := discovery.NewResolver(s.client, 0).Resolve(t.Context(), ref(t, "wd"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestResolveReturnsTypedErrors(t *testing.T) {
	var ambiguous *discovery.AmbiguousError
	var notFound *discovery.NotFoundError
	tests := []struct {
		in   string
		want error  // an error of the same type
		text string // part of the message
		why  string
	}{
		{"widgets", ambiguous, "must be one of widgets.v2.example.com, widgets.v1.other.example.com", "two groups"},
		{"Widget", ambiguous, `ambiguous resource type "Widget"`, "by kind"},
		{"podz", notFound, "did you mean pods.v1", "a typo"},
		{"pdo", notFound, "did you mean pods.v1", "two letters swapped in a short name"},
		{"deploymnet", notFound, "did you mean deployments.v1.apps?", "two letters swapped"},
		{"quuxes", notFound, `serves no resource type "quuxes"`, "no similar name"},
		{"pods.apps", notFound, "did you mean pods.v1", "the name in the wrong group"},
		{"widgets.v7.example.com", notFound, "did you mean widgets.v2.example.com", "a version that is not served"},
		{"v1/deployments", notFound, "did you mean deployments.v1.apps", "v1/ is the core group"},
		{"mine", notFound, `"mine" is a category with 1 resource types: must be one of them (widgets.v2.example.com)` +
			", or be selected as a category", "the name of a category"},
		{"MINE", notFound, `"MINE" is a category with 1 resource types`, "categories ignore case"},
		{"mine.example.com", notFound, "serves no resource type", "a category has no group"},
		{"log", notFound, "serves no resource type", "the name of a subresource"},
		{"Scale", notFound, "serves no resource type", "the kind of a subresource"},
	}
	eachFormat(t, func(t *testing.T, s *apiServer) {
		s.groups[4].versions[0].resources[0].Categories = []string{"mine"}
		r := discovery.NewResolver(s.client, 0)
		for _, tt := range tests {
			got, err := r.Resolve(t.Context(), ref(t, tt.in))
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", tt.want) {
				t.Errorf("%s: %s: got %v, %T, want a %T", tt.in, tt.why, got, err, tt.want)
			} else if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %s: %q does not contain %q", tt.in, tt.why, err, tt.text)
			}
		}
		_, err := r.Resolve(t.Context(), ref(t, "widgets"))
		if !errors.As(err, &ambiguous) || len(ambiguous.Candidates) != 2 {
			t.Errorf("got %+v, want two candidates", err)
		}
		// The zero Ref must not match resources without a singular.
		if got, err := r.Resolve(t.Context(), gvr.Ref{}); err == nil {
			t.Errorf("the zero Ref resolved to %s", got)
		}
	})
}

func TestUnreadableAPIIsUnavailable(t *testing.T) {
	tests := []struct {
		in   string
		want string // the resource, or "unavailable" or "not found"
		why  string
	}{
		{"pods", "pods.v1", "other groups still resolve"},
		{"globes.example.com", "unavailable", "its version is down"},
		{"globes", "unavailable", "an API that is down may have it"},
		{"widgets.example.com", "widgets.v1beta1.example.com", "the next version in the server's order has it"},
		{"widgets.v2.example.com", "unavailable", "the named version is down"},
		{"widgets.v7.example.com", "not found", "v7 is not served at all"},
		{"quuxes.apps", "not found", "apps is up"},
		{"PodMetrics", "unavailable", "its whole group is down"},
		{"metrics.k8s.io/v1beta1/pods", "unavailable", "by group and version"},
	}
	eachFormat(t, func(t *testing.T, s *apiServer) {
		s.down["example.com/v2"] = true
		s.down["metrics.k8s.io/v1beta1"] = true
		r := discovery.NewResolver(s.client, 0)
		for _, tt := range tests {
			res, err := r.Resolve(t.Context(), ref(t, tt.in))
			got := res.String()
			var unavailable *discovery.UnavailableError
			var notFound *discovery.NotFoundError
			switch {
			case errors.As(err, &unavailable):
				got = "unavailable"
				if len(unavailable.GroupVersions) == 0 || unavailable.Err == nil {
					t.Errorf("%s: %+v lacks the API or the reason", tt.in, unavailable)
				}
			case errors.As(err, &notFound):
				got = "not found"
			case err != nil:
				t.Errorf("%s: %v", tt.in, err)
			}
			if got != tt.want {
				t.Errorf("%s: %s: got %s, %v, want %s", tt.in, tt.why, got, err, tt.want)
			}
		}
		s.change(func() { clear(s.down) })
		if got, err := r.Resolve(t.Context(), ref(t, "globes")); err != nil {
			t.Errorf("an API that is back: got %v, %v, want globes at once", got, err)
		}
	})
}

// client-go drops the failures of aggregated discovery if it can read no group.
func TestUnreadableAPIIsUnavailableIfNothingElseIsServed(t *testing.T) {
	s := newAPIServer(t, group{"example.com", []version{{"v1", nil}}})
	s.down["example.com/v1"] = true
	for _, name := range []string{"widgets.example.com", "widgets.v1.example.com"} {
		_, err := discovery.NewResolver(s.client, 0).Resolve(t.Context(), ref(t, name))
		var unavailable *discovery.UnavailableError
		if !errors.As(err, &unavailable) {
			t.Errorf("%s: got %v, want an *UnavailableError", name, err)
		}
	}
}

func TestNotFoundErrorListsSimilarNames(t *testing.T) {
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
	r := discovery.NewResolver(s.client, 0)
	tests := []struct {
		in   string
		want []string
		why  string
	}{
		{"widgtes.other.example.com", []string{
			"widgets.v1.other.example.com", "widgets.v2.example.com",
		}, "the named group comes first"},
		{"shoals", []string{
			"shoala.v1.sea.example.com", "shoalb.v1.sea.example.com", "shoalc.v1.sea.example.com",
			"shoald.v1.sea.example.com", "shoale.v1.sea.example.com",
		}, "at most five"},
		{"ev2", nil, "almost any two letters are one edit from a short name"},
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

func TestWatchablesReturnsEachResourceOnce(t *testing.T) {
	eachFormat(t, func(t *testing.T, s *apiServer) {
		r := discovery.NewResolver(s.client, 0)
		resources, err := r.Watchables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// bindings and metrics.k8s.io lack the verbs. Each resource comes once, in its
		// preferred version, and subresources are left out.
		want := []string{
			"namespaces.v1 cluster", "pods.v1 namespaced", "services.v1 namespaced", "events.v1 namespaced",
			"deployments.v1.apps namespaced", "events.v1.events.k8s.io namespaced",
			"widgets.v2.example.com namespaced", "globes.v2.example.com cluster",
			"relics.v1beta1.example.com namespaced",
			"widgets.v1.other.example.com namespaced", "allowlists.v1.other.example.com namespaced",
			"allows.v1.other.example.com namespaced", "wds.v1.other.example.com namespaced",
		}
		if diff := cmp.Diff(want, scopes(resources)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		s.change(func() { s.down["other.example.com/v1"] = true })
		resources, err = discovery.NewResolver(s.client, 0).Watchables(t.Context())
		var unavailable *discovery.UnavailableError
		down := []schema.GroupVersion{{Group: "other.example.com", Version: "v1"}}
		if !errors.As(err, &unavailable) || !slices.Equal(unavailable.GroupVersions, down) {
			t.Errorf("got %v, want an *UnavailableError for %v", err, down)
		}
		if diff := cmp.Diff(want[:9], scopes(resources)); diff != "" {
			t.Errorf("with a group down (-want +got):\n%s", diff)
		}
	})
}

func scopes(resources []gvr.Resource) []string {
	var got []string
	for _, r := range resources {
		switch {
		case !r.ClusterWatch():
			got = append(got, r.String()+" unwatchable")
		case r.NamespacedWatch():
			got = append(got, r.String()+" namespaced")
		default:
			got = append(got, r.String()+" cluster")
		}
	}
	return got
}

func TestResolverAcceptsEveryClient(t *testing.T) {
	srv := streamtest.NewServer(pods, widgets)
	defer srv.Close()
	plain := httptest.NewServer(srv)
	defer plain.Close()
	addToServer := func() { srv.Serve(gadgets) }
	list := &metav1.APIResourceList{GroupVersion: "other.example.com/v1"}
	fake := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{list}}}
	addToFake := func() { list.APIResources = append(list.APIResources, namespaced("gadgets", "gadget", "Gadget")) }
	served, cached := clients["client-go"](srv), memory.NewMemCacheClient(clients["client-go"](srv))
	tests := []struct {
		client clientdiscovery.DiscoveryInterface
		add    func()
		why    string
	}{
		{fake, addToFake, "client-go's fake"},
		{cached, addToServer, "a caching client"},
		{onlyCached{cached}, addToServer, "a caching client without contexts"},
		{onlyDiscovery{served.WithLegacy()}, addToServer, "a client with only the plain interface"},
		{clientdiscovery.NewDiscoveryClient(restClient(t, srv.Config())), addToServer, "a REST client of one API"},
		{memory.NewMemCacheClient(clientdiscovery.NewDiscoveryClient(restClient(t, &rest.Config{Host: plain.URL}))),
			addToServer, "a cache, and Go's default transport"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			srv.Unserve(gadgets)
			r := discovery.NewResolver(tt.client, 0)
			if got, err := r.Resolve(t.Context(), ref(t, "gadgets")); err == nil {
				t.Fatalf("found %s before it was served", got)
			}
			tt.add()
			if _, err := r.Resolve(t.Context(), ref(t, "gadgets")); err != nil {
				t.Error(err)
			}
		})
	}
}

// restClient returns a REST client whose requests are below /api/v1, unless they have an absolute path.
func restClient(t *testing.T, cfg *rest.Config) rest.Interface {
	cfg.APIPath, cfg.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// onlyCached hides the methods that take a context.
type onlyCached struct {
	clientdiscovery.CachedDiscoveryInterface
}

// onlyDiscovery hides all methods beyond the plain interface.
type onlyDiscovery struct {
	clientdiscovery.DiscoveryInterface
}
