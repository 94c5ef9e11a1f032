package discovery

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Ranks of a match between a name and a resource; lower is better. kubectl takes a plural or a singular before a short
// name (k8s.io/client-go/restmapper/shortcut.go) and a kind last, which is only read in lower case until then: as the
// singular that it usually is. A kind ranks with the plurals here, so that no plural takes it from another type.
const (
	byFullName = iota // the group, the version and the plural, as [gvr.Resource.Ref] has it
	byName            // the plural, the singular or the kind
	byShortName
	byListKind
	noMatch
)

// resolve returns the one resource that ref names, by the rules of [Resolver.Resolve].
func (c *catalog) resolve(ctx context.Context, ref gvr.Ref) (gvr.Resource, error) {
	within := func(gv schema.GroupVersion) bool { return inScope(ref, gv) }
	candidates, unread := c.candidates(ref, within), c.unavailable(ref, within)
	if len(candidates) == 0 && unread == nil && isPrefix(ref) {
		within = func(gv schema.GroupVersion) bool { return strings.HasPrefix(gv.Group, ref.Group) }
		candidates, unread = c.candidates(ref, within), c.unavailable(ref, within)
	}
	if len(candidates) == 0 {
		if unread != nil {
			return gvr.Resource{}, unread
		}
		return gvr.Resource{}, &NotFoundError{Ref: ref, Similar: c.similar(ctx, ref), Category: c.category(ref)}
	}
	first := candidates[0]
	if !builtIn(first.Group) && first.Group != ref.Group {
		hidden := func(gv schema.GroupVersion) bool { return within(gv) && builtIn(gv.Group) }
		if err := c.unavailable(ref, hidden); err != nil {
			return gvr.Resource{}, err // the name may be that of a built-in type
		}
	}
	if len(candidates) == 1 || builtIn(first.Group) && candidates[1].Group != first.Group {
		return first, nil
	}
	return gvr.Resource{}, &AmbiguousError{Ref: ref, Candidates: candidates}
}

// candidates returns the resources that match ref best, each in one version: built-in ones if there are any, those of
// the core group first, as kubectl has it ("pods" is also in metrics.k8s.io), and the others in the server's order.
func (c *catalog) candidates(ref gvr.Ref, within func(schema.GroupVersion) bool) []gvr.Resource {
	var found []gvr.Resource
	seen := map[schema.GroupResource]bool{}
	best, isBuiltIn := noMatch, false
	for _, r := range c.resources {
		rank := match(ref.Name, r)
		if ref == r.Ref() {
			rank = byFullName
		}
		if rank == noMatch || !within(r.GroupVersion()) {
			continue
		}
		ours := builtIn(r.Group)
		if better := ours && !isBuiltIn || ours == isBuiltIn && rank < best; better {
			best, isBuiltIn, found = rank, ours, nil
			clear(seen)
		}
		if ours == isBuiltIn && rank == best && !seen[r.GroupResource()] {
			seen[r.GroupResource()] = true
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b gvr.Resource) int {
		return cmp.Compare(min(len(a.Group), 1), min(len(b.Group), 1))
	})
	return found
}

// inScope reports whether ref may name a resource of gv. An empty gv.Version stands for any version.
func inScope(ref gvr.Ref, gv schema.GroupVersion) bool {
	if ref.Version != "" {
		return ref.Group == gv.Group && (gv.Version == "" || ref.Version == gv.Version)
	}
	return ref.Group == "" || ref.Group == gv.Group
}

// isPrefix reports whether the group of ref may be how a group begins, as in kubectl: storageclass.storage. A group
// with a dot is complete, unlike in kubectl: else whoever creates a CRD in example.com.example.org would take
// widgets.example.com as long as that is not served.
func isPrefix(ref gvr.Ref) bool {
	return ref.Group != "" && ref.Version == "" && !strings.Contains(ref.Group, ".")
}

// match returns the rank of the best match between name and r.
func match(name string, r gvr.Resource) int {
	if name == "" {
		return noMatch
	}
	switch {
	case strings.EqualFold(name, r.Resource), strings.EqualFold(name, r.Singular), strings.EqualFold(name, r.Kind):
		return byName
	case slices.ContainsFunc(r.ShortNames, func(short string) bool { return strings.EqualFold(name, short) }):
		return byShortName
	case strings.EqualFold(name, r.Kind+"List"):
		return byListKind
	}
	return noMatch
}

// category returns the resources in the category that ref names, ignoring case.
func (c *catalog) category(ref gvr.Ref) []gvr.Resource {
	if ref != (gvr.Ref{Name: ref.Name}) {
		return nil
	}
	return slices.DeleteFunc(c.oneVersionEach(), func(r gvr.Resource) bool {
		return !slices.ContainsFunc(r.Categories, func(c string) bool { return strings.EqualFold(c, ref.Name) })
	})
}

const (
	maxSimilar = 5
	// maxCompared is how many resources are compared with a misspelled name. A large cluster has some thousands.
	maxCompared = 10_000
)

// similar returns the resources with the names closest to ref's, in any group and version, because the group or the
// version may be the mistake. It returns nil if ctx ends first.
func (c *catalog) similar(ctx context.Context, ref gvr.Ref) []gvr.Resource {
	type scored struct {
		resource gvr.Resource
		distance int
	}
	var found []scored
	seen := map[schema.GroupResource]bool{}
	if len(ref.Name) > 63 {
		return nil // longer than any name, and slow to compare
	}
	limit := max(1, len(ref.Name)/3)
	for _, r := range c.resources[:min(len(c.resources), maxCompared)] {
		if ctx.Err() != nil {
			return nil
		}
		d := distance(ref.Name, r, limit)
		if d > limit || seen[r.GroupResource()] {
			continue
		}
		seen[r.GroupResource()] = true
		if ref.Group != "" && r.Group != ref.Group {
			d++
		}
		found = append(found, scored{r, d})
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(a.distance, b.distance) })
	var resources []gvr.Resource
	for _, s := range found[:min(len(found), maxSimilar)] {
		resources = append(resources, s.resource)
	}
	return resources
}

// distance returns the smallest edit distance from name to one of r's names, or more than limit. A short name counts
// only if it matches: almost any two letters are one edit from one.
func distance(name string, r gvr.Resource, limit int) int {
	if match(name, r) != noMatch {
		return 0
	}
	name = strings.ToLower(name)
	d := limit + 1
	for _, other := range []string{r.Resource, r.Kind, r.Singular} {
		if other != "" && max(len(other)-len(name), len(name)-len(other)) <= limit { // else, as many edits at least
			d = min(d, edits(name, strings.ToLower(other)))
		}
	}
	return d
}

// edits returns how many bytes to insert, delete, replace or swap with their
// neighbor to turn a into b (the optimal string alignment distance).
func edits(a, b string) int {
	row, last, before := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
