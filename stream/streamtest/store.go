package streamtest

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// change is one revision of one object. Its maps are never changed.
type change struct {
	rev      int64
	epoch    int
	at       time.Time
	resource schema.GroupResource
	key      string         // name, or namespace/name
	old, new map[string]any // nil where there was none, or is none
}

// store keeps every revision of every object, as etcd does before it compacts.
// Compaction here only says what may still be asked for: the history stays whole.
// Versions of one resource (v1, v2) share their objects, as a CRD's do.
type store struct {
	rev       int64 // one counter for all resources; 1 is the empty store
	epoch     int
	compacted int64 // versions below have expired
	all       []*change
	line      []*change // those of all that no rewind has undone
	rewinds   []Rewind
	tables    map[schema.GroupResource]*table
}

type table struct {
	line    []*change
	objects map[string]map[string]any // the newest
	oldest  int64                     // versions below have expired, of this resource

	// snap is the state after the first snapAt of line, kept because the pages of a
	// long list ask for it again and again.
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

// write makes the next revision: object is nil to delete.
func (st *store) write(r schema.GroupResource, key string, object map[string]any) *change {
	t := st.table(r)
	st.rev++
	c := &change{rev: st.rev, epoch: st.epoch, at: time.Now(), resource: r, key: key, old: t.objects[key], new: object}
	st.all, st.line, t.line = append(st.all, c), append(st.line, c), append(t.line, c)
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

// expired says whether the server no longer says what a resource was at rev, or
// what happened after it.
func (st *store) expired(r schema.GroupResource, rev int64) bool {
	return rev < st.compacted || rev < st.table(r).oldest
}

// after is what happened after rev.
func (st *store) after(r schema.GroupResource, rev int64) []*change {
	line := st.table(r).line
	return line[countUpTo(line, rev):]
}

func countUpTo(line []*change, rev int64) int {
	return sort.Search(len(line), func(i int) bool { return line[i].rev > rev })
}

// snapshot is what existed at rev, in the order of the keys.
func (st *store) snapshot(r schema.GroupResource, rev int64) []item {
	t := st.table(r)
	n := countUpTo(t.line, rev)
	if n == t.snapAt {
		return t.snap
	}
	objects := t.objects
	if n < len(t.line) {
		objects = fold(t.line[:n])
	}
	t.snap, t.snapAt = make([]item, 0, len(objects)), n
	for key, o := range objects {
		t.snap = append(t.snap, item{key, o})
	}
	slices.SortFunc(t.snap, func(a, b item) int { return strings.Compare(a.key, b.key) })
	return t.snap
}

func fold(line []*change) map[string]map[string]any {
	objects := map[string]map[string]any{}
	for _, c := range line {
		c.apply(objects)
	}
	return objects
}

// compact makes versions below rev expire.
func (st *store) compact(rev int64) { st.compacted = max(st.compacted, min(rev, st.rev)) }

// back is the revision n changes ago.
func (st *store) back(n int) int64 {
	switch {
	case n <= 0:
		return st.rev
	case n > len(st.line):
		return 1
	}
	// The revision in front of that change, which is not always a change's own: the
	// creation of a CRD makes revisions too.
	return st.line[len(st.line)-n].rev - 1
}

// rewind makes the state of rev the newest again, as if etcd had been restored
// from a backup of that time. The revisions after it are given out once more.
func (st *store) rewind(rev int64) {
	st.rev = rev
	st.epoch++
	st.compacted = min(st.compacted, rev)
	st.rewinds = append(st.rewinds, Rewind{To: formatVersion(rev), At: time.Now()})
	st.line = slices.Clone(st.line[:countUpTo(st.line, rev)])
	for _, t := range st.tables {
		t.line = slices.Clone(t.line[:countUpTo(t.line, rev)])
		t.objects = fold(t.line)
		t.oldest = min(t.oldest, rev)
		t.snap, t.snapAt = nil, -1
	}
}

// clear deletes all objects of a resource, each at its own revision.
func (st *store) clear(r schema.GroupResource) {
	for _, key := range slices.Sorted(maps.Keys(st.table(r).objects)) {
		st.write(r, key, nil)
	}
}
