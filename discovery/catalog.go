package discovery

import (
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// catalog is the result of one poll: the resources that the server serves, and
// the APIs that could not be read. It is immutable.
type catalog struct {
	// resources are sorted by group in the server's order, then by version with the
	// preferred one first, then in the server's order.
	resources []gvr.Resource
	// failed are the APIs that the server lists but that could not be read. An empty
	// Version stands for every version of the group.
	failed failures
	// nameless are the APIs with resources that have no name: it could be any.
	nameless failures
	// unusable are resources that are listed, but lack a kind or verbs: they are not gone.
	unusable map[schema.GroupResource]error
}

// failures maps each API that could not be read to the reason.
type failures map[schema.GroupVersion]error

// of returns the APIs that keep accepts, sorted, and their reasons as one error, nil if there are none.
func (f failures) of(keep func(schema.GroupVersion) bool) (apis []schema.GroupVersion, reason error) {
	var causes []error
	for _, gv := range slices.SortedFunc(maps.Keys(f), compareAPIs) {
		if keep(gv) {
			apis, causes = append(apis, gv), append(causes, f[gv])
		}
	}
	return apis, joinErrors(causes)
}

// byGroup returns, for each group with a version that could not be read, the reasons as one error.
func (f failures) byGroup() map[string]error {
	causes := map[string][]error{}
	for _, gv := range slices.SortedFunc(maps.Keys(f), compareAPIs) {
		causes[gv.Group] = append(causes[gv.Group], f[gv])
	}
	reasons := make(map[string]error, len(causes))
	for group, errs := range causes {
		reasons[group] = joinErrors(errs)
	}
	return reasons
}

var (
	errNoVersion  = errors.New("the server lists the group without versions, as it does while the group's API is down")
	errNameless   = errors.New("the document of the version has a resource without a name")
	errNoKind     = errors.New("the server lists the resource without a kind")
	errNoVerbs    = errors.New("the server lists the resource without verbs")
	errNoDocument = errors.New("the server lists the version, but its document is missing or names another version")
)

// newCatalog builds a catalog from the groups that a server lists, what their versions serve, and why some versions
// could not be read.
func newCatalog(groups []metav1.APIGroup, read documents, failed causes) *catalog {
	c := &catalog{failed: failures{}, nameless: failures{}, unusable: map[schema.GroupResource]error{}}
	for gv, err := range failed {
		c.failed[gv] = guard.Redact(err)
	}
	for _, gv := range listedVersions(groups, c.failed) {
		switch list := read[gv]; {
		case list != nil && list.GroupVersion == gv.String():
			c.add(gv, list.APIResources)
		case c.failed[gv] == nil:
			c.failed[gv] = errNoDocument
		}
	}
	return c
}

// listedVersions returns the versions of all groups, each once, in the order in which
// to search them, and adds the groups without versions to failed.
func listedVersions(groups []metav1.APIGroup, failed failures) []schema.GroupVersion {
	var listed []schema.GroupVersion
	seen, failing := map[schema.GroupVersion]bool{}, failed.byGroup()
	for _, g := range groups {
		if len(g.Versions) == 0 && g.Name != "" && failing[g.Name] == nil {
			// client-go drops the stale versions of aggregated discovery, and the errors about them if nothing else is
			// served. (For a server without a core group, it returns a core group without versions.)
			failed[schema.GroupVersion{Group: g.Name}] = errNoVersion
		}
		for _, v := range preferredFirst(g) {
			if gv := (schema.GroupVersion{Group: g.Name, Version: v}); !seen[gv] {
				seen[gv] = true
				listed = append(listed, gv)
			}
		}
	}
	return listed
}

func (c *catalog) add(gv schema.GroupVersion, resources []metav1.APIResource) {
	for _, r := range resources {
		switch {
		case strings.Contains(r.Name, "/"): // a subresource
			continue
		case r.Name == "":
			c.nameless[gv] = errNameless
			continue
		case r.Kind == "":
			c.unusable[gv.WithResource(r.Name).GroupResource()] = errNoKind
			continue
		case len(r.Verbs) == 0: // in a gvr.Resource, no verbs would mean list and watch
			c.unusable[gv.WithResource(r.Name).GroupResource()] = errNoVerbs
			continue
		}
		c.resources = append(c.resources, gvr.Resource{
			GroupVersionResource: gv.WithResource(r.Name),
			Kind:                 r.Kind,
			Singular:             r.SingularName,
			ShortNames:           r.ShortNames,
			Categories:           r.Categories,
			Namespaced:           r.Namespaced,
			Verbs:                r.Verbs,
			StorageVersionHash:   r.StorageVersionHash,
		})
	}
}

// unread returns the APIs of which a resource may be missing.
func (c *catalog) unread() failures {
	if len(c.nameless) == 0 {
		return c.failed
	}
	all := maps.Clone(c.nameless)
	maps.Copy(all, c.failed)
	return all
}

// preferredFirst returns the versions of g, with the preferred one first and again in its place.
func preferredFirst(g metav1.APIGroup) []string {
	var versions []string
	for _, v := range g.Versions {
		versions = append(versions, v.Version)
	}
	if preferred := g.PreferredVersion.Version; slices.Contains(versions, preferred) {
		return slices.Insert(versions, 0, preferred)
	}
	return versions
}

// unavailable returns an error about the failed APIs that keep accepts, or nil if there are none.
func (c *catalog) unavailable(ref gvr.Ref, keep func(schema.GroupVersion) bool) error {
	apis, reason := c.failed.of(keep)
	if reason == nil {
		return nil
	}
	return &UnavailableError{Ref: ref, GroupVersions: apis, Err: reason}
}

// oneVersionEach returns each resource once: in its first version that can be
// watched or, if none can, in its first version.
func (c *catalog) oneVersionEach() []gvr.Resource {
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
