package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// restarted is what was known when a run of the tool began with a snapshot. What the snapshot lacks is gone, which the
// tool could not report.
type restarted struct {
	known map[types.UID]report // not yet reported by the run
}

// begin begins a run after some reports.
func (r *restarted) begin(reports []report) {
	r.known = map[types.UID]report{}
	for _, one := range reports {
		if one.UID == "" {
			continue
		}
		if r.known[one.UID] = one; one.Kind == deleted {
			delete(r.known, one.UID)
		}
	}
}

// before returns the removals that are to precede a report.
func (r *restarted) before(next report) (gone []report) {
	if next.UID != "" {
		delete(r.known, next.UID)
	}
	if next.Kind != synced {
		return nil
	}
	for _, uid := range slices.Sorted(maps.Keys(r.known)) {
		one := r.known[uid]
		if one.Resource == next.Resource && (next.Namespace == "" || next.Namespace == one.Namespace) {
			one.Kind, one.Inferred, one.At, one.Run = deleted, true, next.At, next.Run
			gone = append(gone, one)
			delete(r.known, uid)
		}
	}
	return gone
}

// beginsWithVersion matches TYPE arguments with one slash, such as v1/pods. With one slash, all others name an object.
var beginsWithVersion = regexp.MustCompile(`^v[0-9]`)

// selectsNames reports whether arguments of the tool name single objects: TYPE/NAME, or a type and then names.
func selectsNames(args []string) bool {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "category ") })
	if len(args) == 0 || strings.ContainsAny(args[0], ",*") && len(args) == 1 {
		return false
	}
	slashes := strings.Count(args[0], "/")
	return len(args) > 1 || slashes == 1 && !beginsWithVersion.MatchString(args[0]) || slashes > 2
}
