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
	d := levenshtein(name, strings.ToLower(r.Resource))
	d = min(d, levenshtein(name, strings.ToLower(r.Kind)))
	if r.Singular != "" {
		d = min(d, levenshtein(name, strings.ToLower(r.Singular)))
	}
	return d
}

// levenshtein counts the bytes to insert, delete or replace between a and b.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
