package streamtest

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gvrwatch/gvrwatch/gvr"
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func (s *Server) serveDiscovery(c *conn) {
	s.mu.Lock()
	served := slices.Clone(s.served)
	down := map[string]bool{}
	for group, is := range s.downGroups {
		down[group] = is
	}
	s.mu.Unlock()
	d := catalog{served, down}
	parts := strings.Split(strings.Trim(c.r.URL.Path, "/"), "/")
	aggregated := strings.Contains(c.r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	var body any
	switch {
	case parts[0] == "version":
		body = version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2", Platform: "streamtest"}
	case len(parts) == 1 && aggregated:
		c.writeAggregated(d.aggregated(parts[0] == "api"))
		return
	case parts[0] == "api" && len(parts) == 1:
		body = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: d.versions("")}
	case parts[0] == "api":
		body = d.resources("", parts[1])
	case len(parts) == 1:
		body = d.groups()
	case len(parts) == 2:
		body = d.group(parts[1])
	default:
		body = d.resources(parts[1], parts[2])
	}
	switch answer := body.(type) {
	case error:
		c.writeError(answer)
	case nil:
		c.writeError(unknownResource())
	default:
		c.writeJSON(http.StatusOK, body)
	}
}

// writeAggregated knows ETags as the real one does, which compares them as texts, so
// that it does not know a weak one again (k8s.io/apiserver,
// pkg/endpoints/discovery/aggregated/etag.go).
func (c *conn) writeAggregated(list apidiscovery.APIGroupDiscoveryList) {
	data, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	etag := fmt.Sprintf(`"%X"`, sha512.Sum512(data))
	c.w.Header().Set("ETag", etag)
	c.w.Header().Set("Vary", "Accept")
	c.w.Header().Set("Cache-Control", "public")
	if c.r.Header.Get("If-None-Match") == etag {
		c.header(http.StatusNotModified, aggregatedType)
		return
	}
	c.header(http.StatusOK, aggregatedType)
	_, _ = c.w.Write(data)
}

// catalog makes discovery documents.
type catalog struct {
	served []gvr.Resource
	down   map[string]bool // groups whose API does not answer
}

func (d catalog) groupNames() []string {
	var names []string
	for _, r := range d.served {
		if r.Group != "" && !slices.Contains(names, r.Group) {
			names = append(names, r.Group)
		}
	}
	return names
}

// versions of a group, the preferred one first.
func (d catalog) versions(group string) []string {
	versions := []string{}
	for _, r := range d.served {
		if r.Group == group && !slices.Contains(versions, r.Version) {
			versions = append(versions, r.Version)
		}
	}
	slices.SortStableFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}

func (d catalog) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, name := range d.groupNames() {
		g := d.describe(name)
		g.TypeMeta = metav1.TypeMeta{}
		list.Groups = append(list.Groups, g)
	}
	return list
}

func (d catalog) describe(name string) metav1.APIGroup {
	g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: name}
	for _, v := range d.versions(name) {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

func (d catalog) group(name string) any {
	if !slices.Contains(d.groupNames(), name) {
		return nil
	}
	return d.describe(name)
}

func (d catalog) resources(group, v string) any {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, r := range d.served {
		if r.Group == group && r.Version == v {
			list.GroupVersion = r.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.GroupVersionResource.Resource, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
				Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories, StorageVersionHash: r.StorageVersionHash,
			})
		}
	}
	switch {
	case list.GroupVersion == "":
		return nil
	case d.down[group]:
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	}
	return list
}

func (d catalog) aggregated(core bool) apidiscovery.APIGroupDiscoveryList {
	list := apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	names := d.groupNames()
	if core {
		names = []string{""}
	}
	for _, name := range names {
		g := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range d.versions(name) {
			g.Versions = append(g.Versions, d.aggregatedVersion(name, v))
		}
		if len(g.Versions) > 0 {
			list.Items = append(list.Items, g)
		}
	}
	return list
}

func (d catalog) aggregatedVersion(group, v string) apidiscovery.APIVersionDiscovery {
	out := apidiscovery.APIVersionDiscovery{Version: v, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	if d.down[group] {
		out.Freshness = apidiscovery.DiscoveryFreshnessStale
	}
	for _, r := range d.served {
		if r.Group != group || r.Version != v {
			continue
		}
		scope := apidiscovery.ScopeCluster
		if r.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		out.Resources = append(out.Resources, apidiscovery.APIResourceDiscovery{
			Resource: r.GroupVersionResource.Resource, SingularResource: r.Singular, ShortNames: r.ShortNames, Categories: r.Categories,
			Scope: scope, Verbs: r.Verbs, ResponseKind: &metav1.GroupVersionKind{Group: group, Version: v, Kind: r.Kind},
		})
	}
	return out
}
