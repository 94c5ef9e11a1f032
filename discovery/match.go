package discovery

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Ranks of a match between a name and a resource; lower is better. A plural takes
// precedence over another resource's kind, and a kind over another one's short name.
const (
	byPlural = iota
	byKind   // the kind or the singular
	byListKind
	byShortName
	noMatch
)

// resolve returns the one resource that ref names, by the rules of [Resolver.Resolve]. The core group wins as it does
// in kubectl: "events" is also in events.k8s.io, and "pods" in metrics.k8s.io.
func (c *catalog) resolve(ctx context.Context, ref gvr.Ref) (gvr.Resource, error) {
	best, candidates := noMatch, []gvr.Resource(nil)
	seen := map[schema.GroupResource]bool{}
	for _, r := range c.resources {
		rank := match(ref.Name, r)
		if rank == noMatch || rank > best || !inScope(ref, r.GroupVersion()) {
			continue
		}
		if rank < best {
			best, candidates = rank, nil
			clear(seen)
		}
		if !seen[r.GroupResource()] {
			seen[r.GroupResource()] = true
			candidates = append(candidates, r)
		}
	}
	switch len(candidates) {
	case 0:
		mayHave := func(gv schema.GroupVersion) bool { return inScope(ref, gv) }
		if err := c.unavailable(ref, mayHave); err != nil {
			return gvr.Resource{}, err
		}
		return gvr.Resource{}, &NotFoundError{Ref: ref, Similar: c.similar(ctx, ref), Category: c.category(ref)}
	case 1:
		return candidates[0], nil
	}
	otherGroup := func(r gvr.Resource) bool { return r.Group != "" }
	if core := slices.DeleteFunc(slices.Clone(candidates), otherGroup); len(core) == 1 {
		return core[0], nil
	}
	return gvr.Resource{}, &AmbiguousError{Ref: ref, Candidates: candidates}
}

// inScope reports whether ref may name a resource of gv. An empty gv.Version stands for any version.
func inScope(ref gvr.Ref, gv schema.GroupVersion) bool {
	if ref.Version != "" {
		return ref.Group == gv.Group && (gv.Version == "" || ref.Version == gv.Version)
	}
	return ref.Group == "" || ref.Group == gv.Group
}

// match returns the rank of the best match between name and r.
func match(name string, r gvr.Resource) int {
	if name == "" {
		return noMatch
	}
	switch {
	case strings.EqualFold(name, r.Resource):
		return byPlural
	case strings.EqualFold(name, r.Kind), strings.EqualFold(name, r.Singular):
		return byKind
	case strings.EqualFold(name, r.Kind+"List"):
		return byListKind
	}
	if slices.ContainsFunc(r.ShortNames, func(short string) bool { return strings.EqualFold(name, short) }) {
		return byShortName
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
