package apiserver

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// change is one revision of one object. Its maps are immutable.
type change struct {
	rev      int64
	epoch    int
	at       time.Time
	resource schema.GroupResource
	key      string         // "name" or "namespace/name"
	old, new map[string]any // nil if the object did not exist, or no longer does
}

// store keeps every revision of every object, as etcd does until it compacts. Compaction only limits what clients may
// read. Versions of one resource (v1, v2) share their objects, as those of a CRD do.
type store struct {
	rev       int64 // one counter for all resources; 1 is the empty store
	epoch     int
	compacted int64 // versions below have expired
	all       []*change
	changes   []*change // all, without those that a rewind has undone
	rewinds   []Rewind
	tables    map[schema.GroupResource]*table
	uids      int
}

type table struct {
	changes []*change                 // of this resource, without those that a rewind has undone
	objects map[string]map[string]any // in their newest state
	oldest  int64                     // versions below have expired for this resource

	// snap is the state after the first snapAt changes. It is cached for the pages of a long list.
	snap   []item
	snapAt int
}

type item struct {
	key    string
	object map[string]any
}

func newStore() *store {
	return &store{rev: 1, tables: map[schema.GroupResource]*table{}}
}

func (st *store) table(r schema.GroupResource) *table {
	t := st.tables[r]
	if t == nil {
		t = &table{objects: map[string]map[string]any{}, snapAt: -1}
		st.tables[r] = t
	}
	return t
}

// write makes the next revision. A nil object deletes.
func (st *store) write(r schema.GroupResource, key string, object map[string]any) *change {
	t := st.table(r)
	st.rev++
	c := &change{rev: st.rev, epoch: st.epoch, at: time.Now(), resource: r, key: key, old: t.objects[key], new: object}
	st.all, st.changes, t.changes = append(st.all, c), append(st.changes, c), append(t.changes, c)
	c.apply(t.objects)
	return c
}

func (c *change) apply(objects map[string]map[string]any) {
	if c.new == nil {
		delete(objects, c.key)
	} else {
		objects[c.key] = c.new
	}
}

// expired reports whether clients may no longer read a resource at rev, or the changes after it.
func (st *store) expired(r schema.GroupResource, rev int64) bool {
	return rev < st.compacted || rev < st.table(r).oldest
}

// after returns the changes after rev.
func (st *store) after(r schema.GroupResource, rev int64) []*change {
	changes := st.table(r).changes
	return changes[countUpTo(changes, rev):]
}

func countUpTo(changes []*change, rev int64) int {
	return sort.Search(len(changes), func(i int) bool { return changes[i].rev > rev })
}

// snapshot returns what existed at rev, sorted by key.
func (st *store) snapshot(r schema.GroupResource, rev int64) []item {
	t := st.table(r)
	n := countUpTo(t.changes, rev)
	if n == t.snapAt {
		return t.snap
	}
	objects := t.objects
	if n < len(t.changes) {
		objects = objectsAfter(t.changes[:n])
	}
	t.snap, t.snapAt = make([]item, 0, len(objects)), n
	for key, o := range objects {
		t.snap = append(t.snap, item{key, o})
	}
	slices.SortFunc(t.snap, func(a, b item) int { return strings.Compare(a.key, b.key) })
	return t.snap
}

func objectsAfter(changes []*change) map[string]map[string]any {
	objects := map[string]map[string]any{}
	for _, c := range changes {
		c.apply(objects)
	}
	return objects
}

// compact lets versions below rev expire.
func (st *store) compact(rev int64) { st.compacted = max(st.compacted, min(rev, st.rev)) }

// back returns the revision n changes ago.
func (st *store) back(n int) int64 {
	switch {
	case n <= 0:
		return st.rev
	case n > len(st.changes):
		return 1
	}
	// Not the revision of the change before: creating or deleting a CRD makes revisions without a change.
	return st.changes[len(st.changes)-n].rev - 1
}

// rewind makes the state of rev the newest again, as if etcd were restored from a backup of that time. The revisions
// after rev are used again.
func (st *store) rewind(rev int64) {
	st.rev = rev
	st.epoch++
	st.compacted = min(st.compacted, rev)
	st.rewinds = append(st.rewinds, Rewind{To: formatVersion(rev), At: time.Now()})
	st.changes = slices.Clone(st.changes[:countUpTo(st.changes, rev)])
	for _, t := range st.tables {
		t.changes = slices.Clone(t.changes[:countUpTo(t.changes, rev)])
		t.objects = objectsAfter(t.changes)
		t.oldest = min(t.oldest, rev)
		t.snap, t.snapAt = nil, -1
	}
}

// clear deletes all objects of a resource, each at a revision of its own.
func (st *store) clear(r schema.GroupResource) {
	for _, key := range slices.Sorted(maps.Keys(st.table(r).objects)) {
		st.write(r, key, nil)
	}
}
