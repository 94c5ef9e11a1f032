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
	inA, inB, begin := map[types.UID]bool{}, map[types.UID]bool{}, map[int64][]string{}
	for _, resource := range resources {
		from := max(a.first(resource), b.first(resource))
		if from > to {
			f.note("%s is not judged: one ends at version %d, and the other begins at %d.", resource, to, from)
			continue
		}
		shared, begin[from] = append(shared, resource), append(begin[from], resource)
		a.objects(resource, to, inA)
		b.objects(resource, to, inB)
	}
	for _, from := range slices.Sorted(maps.Keys(begin)) {
		f.note("Both have versions %d to %d of %s.", from, to, strings.Join(begin[from], ", "))
	}
	if len(shared) == 0 {
		return nil, errors.New("they have no version in common")
	}
	apart := !slices.ContainsFunc(slices.Collect(maps.Keys(inA)), func(uid types.UID) bool { return inB[uid] })
	if apart && len(inA) > 0 && len(inB) > 0 {
		return nil, fmt.Errorf("of %d and %d objects up to version %d none is the same: they are not of one cluster, "+
			"or one has invented all of its objects", len(inA), len(inB), to)
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

// objects adds the objects that were reported up to a version to a set.
func (r *recordFile) objects(resource string, to int64, set map[types.UID]bool) {
	for _, one := range r.reports {
		if one.Resource == resource && one.UID != "" && revision(one.ResourceVersion) <= to {
			set[one.UID] = true
		}
	}
}

// asRecord returns a history as a record of all resources in it.
func (h *history) asRecord(s span) *recordFile {
	r := &recordFile{}
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
