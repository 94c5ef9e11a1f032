package discovery

import (
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// catalog is what one look at the server's discovery documents told. It is
// never changed once built.
type catalog struct {
	// resources hold the groups in the server's order, within a group the
	// preferred version first, within a version the server's order.
	resources []gvr.Resource
	// failed are the APIs that exist but could not be read. An empty Version
	// stands for every version of the group.
	failed failures
}

// failures are APIs that could not be read, with the reason.
type failures map[schema.GroupVersion]error

// of returns those that keep accepts, sorted, and their reasons as one error, which
// is nil if there are none.
func (f failures) of(keep func(schema.GroupVersion) bool) (apis []schema.GroupVersion, why error) {
	var causes []error
	for _, gv := range slices.SortedFunc(maps.Keys(f), compareAPIs) {
		if keep(gv) {
			apis, causes = append(apis, gv), append(causes, f[gv])
		}
	}
	return apis, inOneLine(causes)
}

// ofGroup is why some version of a group could not be read.
func (f failures) ofGroup(group string) error {
	_, why := f.of(func(gv schema.GroupVersion) bool { return gv.Group == group })
	return why
}

var (
	errNoVersion = errors.New("the server lists the group without any version, " +
		"as it does while the group's API is down")
	errNoDocument = errors.New("the server announces the version, but its document is of another one or missing")
)

// newCatalog merges what client-go's ServerGroupsAndResources returns. It
// fails where not even the list of groups is known.
func newCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, err error) (*catalog, error) {
	c := &catalog{failed: failures{}}
	if err != nil {
		failed, ok := clientdiscovery.GroupDiscoveryFailedErrorGroups(err)
		if !ok {
			return nil, err
		}
		maps.Copy(c.failed, failed)
	}
	announced := announcedVersions(groups, c.failed)
	documents := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, list := range lists {
		if list == nil {
			continue
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if _, taken := documents[gv]; err == nil && !taken {
			// The first one that says so, since the lists come in the order of groups: a
			// broken API that calls itself "v1" must not hide the core group.
			documents[gv] = list
		}
	}
	for _, gv := range announced {
		switch list, ok := documents[gv]; {
		case ok:
			c.add(gv, list.APIResources)
		case c.failed[gv] == nil:
			c.failed[gv] = errNoDocument
		}
	}
	return c, nil
}

// announcedVersions returns the versions of all groups in the order in which
// they are to be searched, and notes the groups that have none.
func announcedVersions(groups []*metav1.APIGroup, failed failures) []schema.GroupVersion {
	var announced []schema.GroupVersion
	for _, g := range groups {
		if g == nil {
			continue
		}
		if len(g.Versions) == 0 && g.Name != "" && failed.ofGroup(g.Name) == nil {
			// Aggregated discovery leaves stale versions out, and client-go forgets
			// why if nothing else is served. (A core group without versions is what
			// client-go makes of a server that has no core group.)
			failed[schema.GroupVersion{Group: g.Name}] = errNoVersion
		}
		for _, v := range preferredFirst(g) {
			announced = append(announced, schema.GroupVersion{Group: g.Name, Version: v})
		}
	}
	return announced
}

func (c *catalog) add(gv schema.GroupVersion, resources []metav1.APIResource) {
	for _, r := range resources {
		if r.Name == "" || r.Kind == "" || strings.Contains(r.Name, "/") {
			continue // a mistake, or a subresource: no collection that could be watched
		}
		c.resources = append(c.resources, newResource(gv, r))
	}
}

func preferredFirst(g *metav1.APIGroup) []string {
	versions := make([]string, 0, len(g.Versions))
	for _, v := range g.Versions {
		if v.Version == g.PreferredVersion.Version {
			versions = slices.Insert(versions, 0, v.Version)
		} else {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

func newResource(gv schema.GroupVersion, r metav1.APIResource) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: gv.WithResource(r.Name),
		Kind:                 r.Kind,
		Singular:             r.SingularName,
		ShortNames:           r.ShortNames,
		Categories:           r.Categories,
		Namespaced:           r.Namespaced,
		Verbs:                r.Verbs,
		StorageVersionHash:   r.StorageVersionHash,
	}
}

// unavailable returns an error for the failed APIs that keep accepts, nil if
// there are none.
func (c *catalog) unavailable(ref gvr.Ref, keep func(schema.GroupVersion) bool) error {
	apis, why := c.failed.of(keep)
	if why == nil {
		return nil
	}
	return &UnavailableError{Ref: ref, GroupVersions: apis, Err: why}
}

// watchables are those of the chosen that allow a watch.
func (c *catalog) watchables() []gvr.Resource {
	return slices.DeleteFunc(c.chosen(), func(r gvr.Resource) bool { return !r.ClusterWatch() })
}

// chosen is each group's resource once, in the first version in which it can be
// watched; in the first of all if it can't.
func (c *catalog) chosen() []gvr.Resource {
	found := make([]gvr.Resource, 0, len(c.resources))
	at := make(map[schema.GroupResource]int, len(c.resources))
	for _, r := range c.resources {
		i, seen := at[r.GroupResource()]
		switch {
		case !seen:
			at[r.GroupResource()] = len(found)
			found = append(found, r)
		case r.ClusterWatch() && !found[i].ClusterWatch():
			found[i] = r
		}
	}
	return found
}
