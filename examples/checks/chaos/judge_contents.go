package main

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// contentsCounts are what the judge found out about what a cache contains.
type contentsCounts struct {
	Compared int `json:"compared"` // with what the server answered, in all ways to read it
	Wrong    int `json:"wrong"`    // it was another, or etcd had it at no version after the one before
	// Apart counts those that etcd had at no version after the one before, because the last list was none of etcd's.
	Apart int `json:"apart"`

	violations []violation
}

// holder is a cache.
type holder struct {
	run int
	as  string
}

// held is where in etcd's history the contents of a cache are.
type held struct {
	epoch int
	to    int64
}

// followContents follows a report of what a cache contains.
func followContents(j *judgement, i int, r report) {
	v := j.verdict
	v.Contents.Compared++
	if r.Wrong != "" {
		v.Contents.Wrong++
		describeContents(j, i, r.Wrong)
		return
	}
	who := holder{r.Run, r.Worker}
	at, found := j.view.versionOf(j.resource, j.held[who], j.view.history.newest(r.At), r.Has)
	switch j.held[who] = at; {
	case found:
	case r.Unversioned:
		v.Contents.Apart++
	default:
		v.Contents.Wrong++
		describeContents(j, i, fmt.Sprintf("it has %v, as etcd at no version after %d", r.Has, at.to))
	}
}

func describeContents(j *judgement, i int, text string) {
	if c := &j.verdict.Contents; len(c.violations) < perKind {
		c.violations = append(c.violations, around(j, i, "", fmt.Sprintf("%s: %s", j.reports[i], text)))
	}
}

// versionOf returns the first version from one on, in epochs up to newest, at which a resource has these objects. If
// there is none, it returns from.
func (v *view) versionOf(resource string, from held, newest int, has map[types.UID]string) (held, bool) {
	after := from.to
	for e := from.epoch; e <= newest; e++ {
		if e > from.epoch {
			after = min(after, v.history.epochs[e].After)
		}
		if to, found := v.versionIn(resource, e, after, has); found {
			return held{e, to}, true
		}
	}
	return from, false
}

func (v *view) versionIn(resource string, epoch int, after int64, has map[types.UID]string) (int64, bool) {
	var facts []*fact
	for _, k := range v.cells(resource) {
		facts = append(facts, v.timeline(k, epoch)...)
	}
	slices.SortFunc(facts, func(a, b *fact) int { return int(a.Revision - b.Revision) })
	state := map[types.UID]int64{}
	differ := len(has)
	differs := func(uid types.UID) int {
		if version, found := has[uid]; found == (state[uid] > 0) && (!found || revision(version) == state[uid]) {
			return 0
		}
		return 1
	}
	for i, f := range facts {
		differ -= differs(f.UID)
		if state[f.UID] = f.Revision; f.Kind == deleted {
			state[f.UID] = 0
		}
		differ += differs(f.UID)
		last := i+1 == len(facts)
		if differ == 0 && (last || facts[i+1].Revision > after) {
			return max(f.Revision, after), true
		}
	}
	return 0, differ == 0 && len(facts) == 0
}
