package discovery

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

const maxSimilar = 5

// similar returns the resources whose names are closest to ref's, whatever
// their group and version: a wrong group or version is a slip as well.
func (c *catalog) similar(ref gvr.Ref) []gvr.Resource {
	type scored struct {
		gvr.Resource
		distance int
	}
	var found []scored
	seen := map[schema.GroupResource]bool{}
	if len(ref.Name) > 63 {
		return nil // no name is that long, and comparing takes its time
	}
	for _, r := range c.resources {
		d := distance(ref.Name, r)
		if d > max(1, len(ref.Name)/3) || seen[r.GroupResource()] {
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
		resources = append(resources, s.Resource)
	}
	return resources
}

// distance is the smallest edit distance from name to one of r's names. Short
// names count only when hit: nearly every two letters are one edit from some.
func distance(name string, r gvr.Resource) int {
	if match(name, r) != noMatch {
		return 0
	}
	name = strings.ToLower(name)
	d := edits(name, strings.ToLower(r.Resource))
	d = min(d, edits(name, strings.ToLower(r.Kind)))
	if r.Singular != "" {
		d = min(d, edits(name, strings.ToLower(r.Singular)))
	}
	return d
}

// edits counts the bytes to insert, delete, replace or swap with their neighbour
// between a and b (the optimal string alignment distance).
func edits(a, b string) int {
	var before []int // the row above the last one
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
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
		before, last = last, row
	}
	return last[len(b)]
}
