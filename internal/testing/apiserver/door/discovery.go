package door

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discovery is what the server says that it serves.
type discovery struct {
	served []gvr.Resource
	down   map[string]bool // groups that fail
}

func (a *answer) serveDiscovery() {
	c := a.conn
	parts := strings.Split(strings.Trim(c.r.URL.Path, "/"), "/")
	unlock := a.door.lock()
	d := discovery{a.door.store.Catalog().Served(), maps.Clone(a.door.down)}
	unlock()
	groups := d.groups(parts[0] == "api")
	body := d.legacy(parts, groups)
	aggregated := strings.Contains(c.r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	switch err, failed := body.(error); {
	case failed:
		c.writeError(err)
	case aggregated && len(parts) == 1 && parts[0] != "version":
		c.writeAggregated(groups)
	default:
		c.write(http.StatusOK, body)
	}
}

// writeAggregated compares ETags as texts, as the kube-apiserver does, so that a weak ETag never matches (apiserver
// endpoints/discovery/aggregated/etag.go).
func (c *conn) writeAggregated(groups []apidiscovery.APIGroupDiscovery) {
	data, err := json.Marshal(apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    groups,
	})
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

// groups returns the served groups, or the core group. The preferred version of each comes first.
func (d discovery) groups(core bool) []apidiscovery.APIGroupDiscovery {
	groups := []apidiscovery.APIGroupDiscovery{}
	for _, r := range d.served {
		if core != (r.Group == "") {
			continue
		}
		i := slices.IndexFunc(groups, func(g apidiscovery.APIGroupDiscovery) bool { return g.Name == r.Group })
		if i < 0 {
			i = len(groups)
			groups = append(groups, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: r.Group}})
		}
		g := &groups[i]
		sameVersion := func(v apidiscovery.APIVersionDiscovery) bool { return v.Version == r.Version }
		j := slices.IndexFunc(g.Versions, sameVersion)
		if j < 0 {
			j = len(g.Versions)
			v := apidiscovery.APIVersionDiscovery{Version: r.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
			if d.down[r.Group] {
				v.Freshness = apidiscovery.DiscoveryFreshnessStale
			}
			g.Versions = append(g.Versions, v)
		}
		scope := apidiscovery.ScopeCluster
		if r.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		g.Versions[j].Resources = append(g.Versions[j].Resources, apidiscovery.APIResourceDiscovery{
			Resource: r.GroupVersionResource.Resource, SingularResource: r.Singular, ShortNames: r.ShortNames,
			Categories: r.Categories, Scope: scope, Verbs: r.Verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		})
	}
	for _, g := range groups {
		slices.SortStableFunc(g.Versions, func(a, b apidiscovery.APIVersionDiscovery) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
	}
	return groups
}

// legacy returns the unaggregated document at a path, or an error.
func (d discovery) legacy(parts []string, groups []apidiscovery.APIGroupDiscovery) any {
	kind := metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}
	list := metav1.APIGroupList{TypeMeta: kind, Groups: []metav1.APIGroup{}}
	core := metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{}}
	for _, g := range groups {
		group := metav1.APIGroup{Name: g.Name}
		for _, v := range g.Versions {
			core.Versions = append(core.Versions, v.Version)
			group.Versions = append(group.Versions,
				metav1.GroupVersionForDiscovery{GroupVersion: g.Name + "/" + v.Version, Version: v.Version})
		}
		group.PreferredVersion = group.Versions[0]
		list.Groups = append(list.Groups, group)
	}
	isGroup := func(g metav1.APIGroup) bool { return g.Name == parts[1] }
	switch {
	case parts[0] == "version":
		return version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2", Platform: "streamtest"}
	case len(parts) == 1 && parts[0] == "api":
		return core
	case len(parts) == 1:
		return list
	case parts[0] == "api":
		return d.resourceList("", parts[1])
	case len(parts) == 3:
		return d.resourceList(parts[1], parts[2])
	case slices.ContainsFunc(list.Groups, isGroup):
		group := list.Groups[slices.IndexFunc(list.Groups, isGroup)]
		group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return group
	}
	return store.Unknown()
}

func (d discovery) resourceList(group, v string) any {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, r := range d.served {
		if r.Group == group && r.Version == v {
			list.GroupVersion = r.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.GroupVersionResource.Resource, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
				Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
				StorageVersionHash: r.StorageVersionHash,
			})
		}
	}
	switch {
	case list.GroupVersion == "":
		return store.Unknown()
	case d.down[group]:
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	}
	return list
}
