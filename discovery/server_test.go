package discovery_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// apiServer serves discovery documents, aggregated and legacy, as a kube-apiserver
// does. Unlike streamtest.Server, it has subresources, and single versions that are
// down.
type apiServer struct {
	config *rest.Config
	client *clientdiscovery.DiscoveryClient

	mu      sync.Mutex
	groups  []group
	down    map[string]bool                                   // groupVersions that are down
	legacy  bool                                              // no aggregated discovery
	respond func(w http.ResponseWriter, r *http.Request) bool // whether it sent a response
}

type group struct {
	name     string
	versions []version // the preferred one first
}

type version struct {
	name      string
	resources []metav1.APIResource
}

func newAPIServer(t *testing.T, groups ...group) *apiServer {
	t.Helper()
	s := &apiServer{groups: groups, down: map[string]bool{}}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	s.config = &rest.Config{Host: hs.URL, QPS: -1}
	s.client = clientdiscovery.NewDiscoveryClientForConfigOrDie(s.config)
	return s
}

// change runs f while no request is served.
func (s *apiServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// add serves another resource in example.com/v2, as a new CRD does.
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

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	respond := s.respond
	s.mu.Unlock()
	if respond != nil && respond(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch path := strings.Trim(r.URL.Path, "/"); path {
	case "api", "apis":
		var served []group
		for _, g := range s.groups {
			if (g.name == "") == (path == "api") {
				served = append(served, g)
			}
		}
		switch {
		case !s.legacy && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList"):
			w.Header().Set("Content-Type", clientdiscovery.AcceptV2)
			_ = json.NewEncoder(w).Encode(s.aggregated(served))
		case path == "api":
			writeJSON(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		default:
			writeJSON(w, groupList(served))
		}
	default:
		s.serveVersion(w, strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/"))
	}
}

func (s *apiServer) serveVersion(w http.ResponseWriter, gv string) {
	if s.down[gv] {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for _, g := range s.groups {
		for _, v := range g.versions {
			if groupVersion(g, v) == gv {
				kind := metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
				writeJSON(w, metav1.APIResourceList{TypeMeta: kind, GroupVersion: gv, APIResources: v.resources})
				return
			}
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (s *apiServer) aggregated(groups []group) apidiscovery.APIGroupDiscoveryList {
	list := apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
	}
	for _, g := range groups {
		item := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			d := apidiscovery.APIVersionDiscovery{Version: v.name, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
			if s.down[groupVersion(g, v)] {
				d.Freshness = apidiscovery.DiscoveryFreshnessStale
			}
			for _, r := range v.resources {
				kind := &metav1.GroupVersionKind{Group: g.name, Version: v.name, Kind: r.Kind}
				if name, sub, ok := strings.Cut(r.Name, "/"); ok {
					parent := &d.Resources[len(d.Resources)-1]
					if parent.Resource != name {
						panic("subresource " + r.Name + " must follow its parent")
					}
					parent.Subresources = append(parent.Subresources, apidiscovery.APISubresourceDiscovery{
						Subresource: sub, Verbs: r.Verbs, ResponseKind: kind,
					})
					continue
				}
				scope := apidiscovery.ScopeCluster
				if r.Namespaced {
					scope = apidiscovery.ScopeNamespace
				}
				d.Resources = append(d.Resources, apidiscovery.APIResourceDiscovery{
					Resource: r.Name, SingularResource: r.SingularName, ShortNames: r.ShortNames,
					Categories: r.Categories, Scope: scope, Verbs: r.Verbs, ResponseKind: kind,
				})
			}
			item.Versions = append(item.Versions, d)
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func groupList(groups []group) metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, g := range groups {
		item := metav1.APIGroup{Name: g.name}
		// The preferred version comes last, so that the first cannot be mistaken for it.
		for i := range g.versions {
			v := g.versions[(i+1)%len(g.versions)]
			item.PreferredVersion = metav1.GroupVersionForDiscovery{GroupVersion: groupVersion(g, v), Version: v.name}
			item.Versions = append(item.Versions, item.PreferredVersion)
		}
		list.Groups = append(list.Groups, item)
	}
	return list
}

func groupVersion(g group, v version) string {
	if g.name == "" {
		return v.name
	}
	return g.name + "/" + v.name
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

var everyVerb = []string{"create", "delete", "get", "list", "patch", "update", "watch"}

func namespaced(plural, singular, kind string, short ...string) metav1.APIResource {
	return metav1.APIResource{
		Name: plural, SingularName: singular, Kind: kind, ShortNames: short, Namespaced: true, Verbs: everyVerb,
	}
}

func clusterScoped(plural, singular, kind string, short ...string) metav1.APIResource {
	r := namespaced(plural, singular, kind, short...)
	r.Namespaced = false
	return r
}

func withVerbs(r metav1.APIResource, verbs ...string) metav1.APIResource {
	r.Verbs = verbs
	return r
}

// cluster returns a typical cluster: built-in groups, CRDs in several versions, an
// aggregated API that cannot be watched, and names shared by several groups.
func cluster() []group {
	return []group{
		{"", []version{{"v1", []metav1.APIResource{
			withVerbs(namespaced("bindings", "", "Binding"), "create"),
			clusterScoped("namespaces", "namespace", "Namespace", "ns"),
			namespaced("pods", "pod", "Pod", "po"),
			withVerbs(namespaced("pods/log", "", "Pod"), "get"),
			namespaced("services", "service", "Service", "svc"),
			namespaced("events", "event", "Event", "ev"),
		}}}},
		{"apps", []version{{"v1", []metav1.APIResource{
			namespaced("deployments", "deployment", "Deployment", "deploy"),
			withVerbs(namespaced("deployments/scale", "", "Scale"), "get"),
		}}}},
		{"events.k8s.io", []version{{"v1", []metav1.APIResource{namespaced("events", "event", "Event", "ev")}}}},
		{"metrics.k8s.io", []version{{"v1beta1", []metav1.APIResource{
			withVerbs(namespaced("pods", "", "PodMetrics"), "get", "list"),
		}}}},
		{"example.com", []version{
			{"v2", []metav1.APIResource{
				namespaced("widgets", "widget", "Widget", "wd"),
				clusterScoped("globes", "globe", "Globe"),
			}},
			{"v1beta1", []metav1.APIResource{
				namespaced("widgets", "widget", "Widget", "wd"),
				namespaced("relics", "relic", "Relic"),
			}},
			{"trial", []metav1.APIResource{namespaced("widgets", "widget", "Widget", "wd")}},
		}},
		{"other.example.com", []version{{"v1", []metav1.APIResource{
			namespaced("widgets", "widget", "Widget", "owd"),
			namespaced("allowlists", "allowlist", "AllowList"),
			namespaced("allows", "allow", "Allow"),
			namespaced("wds", "wdx", "Wds"),
		}}}},
	}
}
