package store

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Revision is one change of one object. Its maps are immutable.
type Revision struct {
	Number   int64
	epoch    int
	at       time.Time
	resource schema.GroupResource
	key      string         // as Key makes it
	old, new map[string]any // nil if the object did not exist, or no longer does
}

// Revisions are those of all objects, as etcd keeps them until it compacts. Compaction only limits what clients may
// read. Versions of one resource (v1, v2) share their objects, as those of a CRD do.
type Revisions struct {
	newest    int64 // one counter for all resources; 1 is the empty store
	epoch     int
	compacted int64 // versions below have expired
	all       []*Revision
	changes   []*Revision // all, without those that a rewind has undone
	rewinds   []Change    // with ResourceVersion and At only
	tables    map[schema.GroupResource]*table
}

type table struct {
	changes []*Revision               // of this resource, without those that a rewind has undone
	objects map[string]map[string]any // in their newest state
	oldest  int64                     // versions below have expired for this resource

	// snap is the state after the first snapAt changes. It is cached for the pages of a long list.
	snap   []Item
	snapAt int
}

// Item is an object in a snapshot. Nobody changes it.
type Item struct {
	Key    string // as Key makes it
	Object map[string]any
}

func (rs *Revisions) table(r schema.GroupResource) *table {
	t := rs.tables[r]
	if t == nil {
		t = &table{objects: map[string]map[string]any{}, snapAt: -1}
		rs.tables[r] = t
	}
	return t
}

// object returns the newest state of an object, or nil.
func (rs *Revisions) object(r schema.GroupResource, key string) map[string]any {
	return rs.table(r).objects[key]
}

// write makes the next revision. A nil object deletes.
func (rs *Revisions) write(r schema.GroupResource, key string, object map[string]any) *Revision {
	t := rs.table(r)
	rs.newest++
	c := &Revision{Number: rs.newest, epoch: rs.epoch, at: time.Now(), resource: r, key: key, new: object}
	c.old = t.objects[key]
	rs.all, rs.changes, t.changes = append(rs.all, c), append(rs.changes, c), append(t.changes, c)
	c.apply(t.objects)
	return c
}

func (c *Revision) apply(objects map[string]map[string]any) {
	if c.new == nil {
		delete(objects, c.key)
	} else {
		objects[c.key] = c.new
	}
}

// Expired reports whether clients may no longer read a resource at rev, or the changes after it.
func (rs *Revisions) Expired(r schema.GroupResource, rev int64) bool {
	return rev < rs.compacted || rev < rs.table(r).oldest
}

// Changes returns the changes up to rev, and those after it.
func (rs *Revisions) Changes(r schema.GroupResource, rev int64) (upTo, after []*Revision) {
	changes := rs.table(r).changes
	n := countUpTo(changes, rev)
	return changes[:n], changes[n:]
}

func countUpTo(changes []*Revision, rev int64) int {
	return sort.Search(len(changes), func(i int) bool { return changes[i].Number > rev })
}

// Snapshot returns what existed at rev, sorted by key.
func (rs *Revisions) Snapshot(r schema.GroupResource, rev int64) []Item {
	t := rs.table(r)
	n := countUpTo(t.changes, rev)
	if n == t.snapAt {
		return t.snap
	}
	objects := t.objects
	if n < len(t.changes) {
		objects = objectsAfter(t.changes[:n])
	}
	t.snap, t.snapAt = make([]Item, 0, len(objects)), n
	for key, o := range objects {
		t.snap = append(t.snap, Item{key, o})
	}
	slices.SortFunc(t.snap, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	return t.snap
}

func objectsAfter(changes []*Revision) map[string]map[string]any {
	objects := map[string]map[string]any{}
	for _, c := range changes {
		c.apply(objects)
	}
	return objects
}

// Newest returns the newest revision.
func (rs *Revisions) Newest() int64 { return rs.newest }

// Compact lets versions below rev expire.
func (rs *Revisions) Compact(rev int64) { rs.compacted = max(rs.compacted, min(rev, rs.newest)) }

// Back returns the revision n changes ago.
func (rs *Revisions) Back(n int) int64 {
	switch {
	case n <= 0:
		return rs.newest
	case n > len(rs.changes):
		return 1
	}
	// Not the revision of the change before: creating or deleting a CRD makes revisions without a change.
	return rs.changes[len(rs.changes)-n].Number - 1
}

// Rewind makes the state of rev the newest again, as if etcd were restored from a backup of that time. The revisions
// after rev are used again.
func (rs *Revisions) Rewind(rev int64) {
	rs.newest = rev
	rs.epoch++
	rs.compacted = min(rs.compacted, rev)
	rs.rewinds = append(rs.rewinds, Change{ResourceVersion: FormatVersion(rev), At: time.Now()})
	rs.changes = slices.Clone(rs.changes[:countUpTo(rs.changes, rev)])
	for _, t := range rs.tables {
		t.changes = slices.Clone(t.changes[:countUpTo(t.changes, rev)])
		t.objects = objectsAfter(t.changes)
		t.oldest = min(t.oldest, rev)
		t.snap, t.snapAt = nil, -1
	}
}

// Expire lets all versions of a resource but the newest expire.
func (rs *Revisions) Expire(r schema.GroupResource) { rs.table(r).oldest = rs.newest }

// clear deletes all objects of a resource, each at a revision of its own, then makes the revision of the CRD itself.
func (rs *Revisions) clear(r schema.GroupResource) {
	for _, key := range slices.Sorted(maps.Keys(rs.table(r).objects)) {
		rs.write(r, key, nil)
	}
	rs.newest++
}

// Change is a streamtest.Change.
type Change struct {
	Type            watch.EventType
	Object          *unstructured.Unstructured
	ResourceVersion string
	Epoch           int
	At              time.Time
}

// Log returns what a watch with this view would have received if it had missed nothing, including the changes that a
// rewind undid. Of each rewind it returns the version that became the newest, and when.
func (rs *Revisions) Log(v View) (changes, rewinds []Change) {
	for _, c := range rs.all {
		if c.resource != v.Resource.GroupResource() {
			continue
		}
		if kind, object := v.Event(c); kind != "" {
			changes = append(changes, Change{
				Type: kind, Object: &unstructured.Unstructured{Object: object},
				ResourceVersion: FormatVersion(c.Number), Epoch: c.epoch, At: c.at,
			})
		}
	}
	return changes, slices.Clone(rs.rewinds)
}
