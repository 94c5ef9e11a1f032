package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// overlap returns the resources that two records have of the same versions, and notes which those are. The error says
// that there are none, or that they are of two clusters.
func (f *finding) overlap(a, b *recordFile, resources []string) (shared []string, err error) {
	if a.cluster != "" && b.cluster != "" && a.cluster != b.cluster {
		return nil, fmt.Errorf("they are of two clusters: %s and %s", a.cluster, b.cluster)
	}
	to := min(a.last(b.reports), b.last(a.reports))
	begin := map[int64][]string{}
	for _, resource := range resources {
		from := max(a.first(resource), b.first(resource))
		if from > to {
			f.note("%s is not judged: one ends at version %d, and the other begins at %d.", resource, to, from)
			continue
		}
		shared, begin[from] = append(shared, resource), append(begin[from], resource)
	}
	for _, from := range slices.Sorted(maps.Keys(begin)) {
		f.note("Both have versions %d to %d of %s.", from, to, strings.Join(begin[from], ", "))
	}
	if len(shared) == 0 {
		return nil, errors.New("they have no version in common")
	}
	from := slices.Max(slices.Collect(maps.Keys(begin)))
	if a.apart(b, from, to) && (b.complete || b.apart(a, from, to)) {
		return nil, fmt.Errorf("none of the objects of versions after %d, up to %d, are the same: they are not of one "+
			"cluster, or one has invented all of them", from, to)
	}
	return shared, nil
}

// first returns the version from which on a record has a resource: that of its first SYNCED, or a later one of what was
// reported before it. Without a SYNCED it is -1.
func (r *recordFile) first(resource string) (version int64) {
	for _, one := range r.reports {
		if one.Resource != resource {
			continue
		}
		if version = max(version, revision(one.ResourceVersion)); one.Kind == synced {
			return version
		}
	}
	return -1
}

// last returns the last version that a record has or, because nothing may have changed of what it has, another one had
// before it ended.
func (r *recordFile) last(others []report) (version int64) {
	for _, one := range r.reports {
		version = max(version, revision(one.ResourceVersion))
	}
	for _, one := range others {
		if r.timed && one.At.Unix() > 0 && !one.At.After(r.ended) {
			version = max(version, revision(one.ResourceVersion))
		}
	}
	return version
}

// apart reports whether a record has objects of versions after one, up to another, and another record, which has some,
// has none of those.
func (r *recordFile) apart(other *recordFile, from, to int64) bool {
	known, some := map[types.UID]bool{"": true}, false
	for _, one := range other.reports {
		known[one.UID] = true
	}
	for _, one := range r.reports {
		if version := revision(one.ResourceVersion); one.UID != "" && from < version && version <= to {
			if some = true; known[one.UID] {
				return false
			}
		}
	}
	return some && len(known) > 1
}

// asRecord returns a history as a record of all resources in it, which lacks nothing.
func (h *history) asRecord(s span) *recordFile {
	r := &recordFile{complete: true}
	begin := report{Kind: synced, ResourceVersion: fmt.Sprint(s.from)}
	for _, begin.Resource = range resourcesIn(h.changes) {
		r.reports = append(r.reports, begin)
	}
	for _, c := range h.changes {
		r.reports = append(r.reports, report{
			At: c.At, Kind: c.Kind, Resource: c.Resource, UID: c.UID, ResourceVersion: fmt.Sprint(c.Revision),
		})
	}
	r.reports = append(r.reports, report{Kind: synced, ResourceVersion: fmt.Sprint(s.to)})
	return r
}
