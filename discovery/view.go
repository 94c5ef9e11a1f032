package discovery

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// view is what one range over Changes has told. It does no I/O.
type view struct {
	resources map[schema.GroupResource]told
	apis      map[schema.GroupVersion]bool // told as Unknown
	server    bool                         // told as Unknown
	synced    bool
}

type told struct {
	gvr.Resource
	unknown bool
}

// failed tells of a look that read nothing, which says nothing of any type.
func (v *view) failed(err error) []Change {
	if v.server {
		return nil
	}
	v.server = true
	return []Change{{Type: Unknown, Err: &UnavailableError{Err: err}}}
}

// read tells what c changes.
func (v *view) read(c *catalog) []Change {
	var changes []Change
	if v.server {
		v.server = false
		changes = append(changes, Change{Type: Known})
	}
	changes = append(changes, v.readAPIs(c)...)
	changes = append(changes, v.readResources(c)...)
	if !v.synced {
		v.synced = true
		changes = append(changes, Change{Type: Synced})
	}
	return changes
}

func (v *view) readAPIs(c *catalog) []Change {
	var changes []Change
	for _, gv := range slices.SortedFunc(maps.Keys(v.apis), compareAPIs) {
		if c.failed[gv] == nil {
			changes = append(changes, Change{Type: Known, Resource: api(gv)})
		}
	}
	for _, gv := range slices.SortedFunc(maps.Keys(c.failed), compareAPIs) {
		if !v.apis[gv] {
			changes = append(changes, Change{Type: Unknown, Resource: api(gv), Err: c.failed[gv]})
		}
	}
	v.apis = map[schema.GroupVersion]bool{}
	for gv := range c.failed {
		v.apis[gv] = true
	}
	return changes
}

func (v *view) readResources(c *catalog) []Change {
	var changes []Change
	before := v.resources
	v.resources = make(map[schema.GroupResource]told, len(before))
	tell := func(change Change) {
		changes = append(changes, change)
		switch r := change.Resource; change.Type {
		case Unknown:
			v.resources[r.GroupResource()] = told{r, true}
		case Added, Changed, Known:
			v.resources[r.GroupResource()] = told{r, false}
		}
	}
	for _, r := range c.chosen() {
		old, had := before[r.GroupResource()]
		delete(before, r.GroupResource())
		why := c.failed[old.GroupVersion()]
		if r.Version == old.Version {
			why = nil // it was read, whatever the client says
		}
		switch {
		case !had:
			tell(Change{Type: Added, Resource: r})
		case why != nil && !old.unknown:
			// Another version can be read. But what is one resource in storage is not
			// worth a change that is taken back as soon as its own version answers.
			tell(Change{Type: Unknown, Resource: old.Resource, Err: why})
		case why != nil:
			v.resources[r.GroupResource()] = old
		case !same(old.Resource, r):
			tell(Change{Type: Changed, Resource: r, Old: old.Resource})
		case old.unknown:
			tell(Change{Type: Known, Resource: r})
		default:
			v.resources[r.GroupResource()] = told{r, false}
		}
	}
	for _, gr := range slices.SortedFunc(maps.Keys(before), compareNames) {
		switch old, why := before[gr], c.failed.ofGroup(gr.Group); {
		case why == nil:
			tell(Change{Type: Removed, Resource: old.Resource})
		case !old.unknown:
			tell(Change{Type: Unknown, Resource: old.Resource, Err: why})
		default:
			v.resources[gr] = old
		}
	}
	return changes
}

// same says whether there is nothing to tell. The hash of the storage version is
// told by one form of discovery only, and a server may change the form.
func same(a, b gvr.Resource) bool {
	return a.GroupVersionResource == b.GroupVersionResource &&
		a.Kind == b.Kind && a.Singular == b.Singular && a.Namespaced == b.Namespaced &&
		sameSet(a.ShortNames, b.ShortNames) && sameSet(a.Categories, b.Categories) && sameSet(a.Verbs, b.Verbs)
}

func sameSet(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func api(gv schema.GroupVersion) gvr.Resource {
	return gvr.Resource{GroupVersionResource: gv.WithResource("")}
}

func compareAPIs(a, b schema.GroupVersion) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version))
}

func compareNames(a, b schema.GroupResource) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
}
