package apiserver

import (
	"slices"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// catalog is what the server serves.
type catalog struct {
	served     []gvr.Resource
	known      []gvr.Resource // ever served
	downGroups map[string]bool
}

var everyVerb = []string{"create", "delete", "get", "list", "update", "watch"}

func (c *catalog) add(r gvr.Resource) {
	if len(r.Verbs) == 0 {
		r.Verbs = slices.Clone(everyVerb)
	}
	c.remove(r)
	c.served = append(c.served, r)
	c.known = append(slices.DeleteFunc(c.known, sameName(r)), r)
}

func (c *catalog) remove(r gvr.Resource) {
	c.served = slices.DeleteFunc(c.served, sameName(r))
}

func sameName(r gvr.Resource) func(gvr.Resource) bool {
	return func(x gvr.Resource) bool { return x.GroupVersionResource == r.GroupVersionResource }
}

// find returns the resource that is served under a name.
func (c *catalog) find(group, version, plural string) (gvr.Resource, bool) {
	for _, r := range c.served {
		if r.Group == group && r.Version == version && r.Resource == plural {
			return r, true
		}
	}
	return gvr.Resource{}, false
}

func (c *catalog) serves(r gvr.Resource) bool { return slices.ContainsFunc(c.served, sameName(r)) }

// orAll returns the resources, or if there are none, every resource that was ever served.
func (c *catalog) orAll(resources []gvr.Resource) []gvr.Resource {
	if len(resources) == 0 {
		return slices.Clone(c.known)
	}
	return resources
}

// named reads the name of resources if the words begin with one, and returns the other words.
func (c *catalog) named(words []string) (found []gvr.Resource, rest []string) {
	if len(words) == 0 {
		return nil, words
	}
	for _, r := range c.known {
		names := []string{r.GroupVersionResource.Resource, r.String(), r.GroupResource().String()}
		if slices.Contains(names, words[0]) {
			found, rest = append(found, r), words[1:]
		}
	}
	if found == nil {
		return nil, words
	}
	return found, rest
}
