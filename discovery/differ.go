package discovery

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// differ compares each catalog with what one run of Changes has reported so far. It does no I/O.
type differ struct {
	resources     map[schema.GroupResource]reported
	unknownAPIs   failures // reported as Unknown
	unknownServer bool     // reported as Unknown
	synced        bool
}

// reported is a resource as it was last reported.
type reported struct {
	resource gvr.Resource
	unknown  bool
}

// fail returns the changes after a poll that read nothing. Such a poll says nothing about any resource.
func (d *differ) fail(err error) []Change {
	if d.unknownServer {
		return nil
	}
	d.unknownServer = true
	return []Change{{Type: Unknown, Err: &UnavailableError{Err: err}}}
}

// update returns the changes after a poll that read c.
func (d *differ) update(c *catalog) []Change {
	var changes []Change
	if d.unknownServer {
		d.unknownServer = false
		changes = append(changes, Change{Type: Known})
	}
	known, unknown := d.updateAPIs(c)
	changes = slices.Concat(changes, unknown, d.updateResources(c), known)
	if !d.synced {
		d.synced = true
		changes = append(changes, Change{Type: Synced})
	}
	return changes
}

func (d *differ) updateAPIs(c *catalog) (known, unknown []Change) {
	unread := c.unread()
	for _, gv := range slices.SortedFunc(maps.Keys(d.unknownAPIs), compareAPIs) {
		if unread[gv] == nil {
			known = append(known, Change{Type: Known, Resource: onlyAPI(gv)})
		}
	}
	for _, gv := range slices.SortedFunc(maps.Keys(unread), compareAPIs) {
		if d.unknownAPIs[gv] == nil {
			unknown = append(unknown, Change{Type: Unknown, Resource: onlyAPI(gv), Err: unread[gv]})
		}
	}
	d.unknownAPIs = unread
	return known, unknown
}

func (d *differ) updateResources(c *catalog) []Change {
	var changes []Change
	before := d.resources
	d.resources = make(map[schema.GroupResource]reported, len(before))
	report := func(change Change) {
		changes = append(changes, change)
		switch r := change.Resource; change.Type {
		case Unknown:
			d.resources[r.GroupResource()] = reported{r, true}
		case Added, Changed, Known:
			d.resources[r.GroupResource()] = reported{r, false}
		}
	}
	for _, r := range c.oneVersionEach() {
		old, found := before[r.GroupResource()]
		delete(before, r.GroupResource())
		failure := c.failed[old.resource.GroupVersion()]
		if r.Version == old.resource.Version {
			failure = nil // the version was read, even if the client reports a failure as well
		}
		switch {
		case !found:
			report(Change{Type: Added, Resource: r})
		case failure != nil && !old.unknown:
			// Another version can be read. Both versions show the same stored objects, so
			// do not report a change that ends as soon as the old version answers again.
			report(Change{Type: Unknown, Resource: old.resource, Err: failure})
		case failure != nil:
			d.resources[r.GroupResource()] = old
		case !equal(old.resource, r):
			report(Change{Type: Changed, Resource: r, Old: old.resource})
		case old.unknown:
			report(Change{Type: Known, Resource: r})
		default:
			d.resources[r.GroupResource()] = reported{r, false}
		}
	}
	failures := c.unread().byGroup()
	for _, gr := range slices.SortedFunc(maps.Keys(before), compareNames) {
		switch old, failure := before[gr], cmp.Or(c.unusable[gr], failures[gr.Group]); {
		case failure == nil:
			report(Change{Type: Removed, Resource: old.resource})
		case !old.unknown:
			report(Change{Type: Unknown, Resource: old.resource, Err: failure})
		default:
			d.resources[gr] = old
		}
	}
	return changes
}

// equal ignores StorageVersionHash: only one form of discovery has it, and a server may change the form.
func equal(a, b gvr.Resource) bool {
	return a.GroupVersionResource == b.GroupVersionResource &&
		a.Kind == b.Kind && a.Singular == b.Singular && a.Namespaced == b.Namespaced &&
		equalSets(a.ShortNames, b.ShortNames) && equalSets(a.Categories, b.Categories) && equalSets(a.Verbs, b.Verbs)
}

func equalSets(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// onlyAPI returns the Resource of a Change that concerns an API.
func onlyAPI(gv schema.GroupVersion) gvr.Resource {
	return gvr.Resource{GroupVersionResource: gv.WithResource("")}
}

func compareAPIs(a, b schema.GroupVersion) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version))
}

func compareNames(a, b schema.GroupResource) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
}
