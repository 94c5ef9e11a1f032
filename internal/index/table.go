package index

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// table holds the entries of an Index. An entry with a usual uid, version and name is packed: 32 bytes for the uid, the
// version and the place of the name, a slot of 4 bytes to find it, and the name. All entries of a namespace share its
// name, and the garbage collector follows no pointer for an entry. Any other entry, or one that finds no room, is
// plain: in a map that takes more memory. An entry is either packed or plain.
//
// Deletions leave holes. Once there are more than half as many of them as entries, everything is packed again, so that
// names that come and go don't fill the memory.
type table struct {
	packed     packed
	plain      map[types.NamespacedName][]plainEntry
	plainCount int // entries in plain
}

// plainEntry is the entry of an object that is not packed.
type plainEntry struct {
	uid         types.UID
	version     string
	seen, stale bool
}

func (o plainEntry) entry(name types.NamespacedName) Entry { return Entry{name, o.uid, o.version} }

func newTable() table { return table{packed: newPacked(widest)} }

func (t *table) len() int { return t.packed.live + t.plainCount }

// same reports whether two uids may be those of one object. An object without a uid may be any of its name.
func same(a, b types.UID) bool { return a == b || a == "" || b == "" }

func (t *table) get(name types.NamespacedName, uid types.UID) (e Entry, stale, ok bool) {
	if slot, ok := t.packed.find(name, uid); ok {
		r := t.packed.at(slot)
		if packed, ok := packUID(uid); !ok || packed != r.uid {
			uid = r.unpackUID()
		}
		return Entry{name, uid, r.unpackVersion()}, r.space&flagStale != 0, true
	}
	if o := t.plainOf(name, uid); o != nil {
		return o.entry(name), o.stale, true
	}
	return e, false, false
}

func (t *table) plainOf(name types.NamespacedName, uid types.UID) *plainEntry {
	of := t.plain[name]
	for n := range of {
		if same(of[n].uid, uid) {
			return &of[n]
		}
	}
	return nil
}

// hasName reports whether there is an object of a name.
func (t *table) hasName(namespace, name []byte) bool {
	return t.packed.hasName(namespace, name) ||
		len(t.plain) > 0 && len(t.plain[named(string(namespace), string(name))]) > 0
}

// others returns the objects of a name that have another uid.
func (t *table) others(name types.NamespacedName, uid types.UID) (found []Entry) {
	t.packed.eachNamed(name, func(r *record) {
		if e := (Entry{name, r.unpackUID(), r.unpackVersion()}); !same(e.UID, uid) {
			found = append(found, e)
		}
	})
	for _, o := range t.plain[name] {
		if !same(o.uid, uid) {
			found = append(found, o.entry(name))
		}
	}
	return found
}

// saw reports whether an object of a name was seen.
func (t *table) saw(name types.NamespacedName) bool {
	seen := slices.ContainsFunc(t.plain[name], func(o plainEntry) bool { return o.seen })
	t.packed.eachNamed(name, func(r *record) { seen = seen || r.space&flagSeen != 0 })
	return seen
}

// set enters an object, or updates its entry.
func (t *table) set(e Entry, seen bool) {
	r, ok := pack(e, seen)
	if slot, found := t.packed.find(e.NamespacedName, e.UID); found {
		if ok {
			t.packed.replace(slot, r)
			return
		}
		t.packed.delete(slot)
		t.setPlain(e, seen)
		t.repack()
		return
	}
	if ok && t.packed.insert(e.NamespacedName, r) {
		t.deletePlain(e.NamespacedName, e.UID)
	} else {
		t.setPlain(e, seen)
	}
}

func (t *table) delete(name types.NamespacedName, uid types.UID) {
	if slot, ok := t.packed.find(name, uid); ok {
		t.packed.delete(slot)
		t.repack()
		return
	}
	t.deletePlain(name, uid)
}

func (t *table) setPlain(e Entry, seen bool) {
	now := plainEntry{uid: e.UID, version: e.Version, seen: seen}
	if o := t.plainOf(e.NamespacedName, e.UID); o != nil {
		*o = now
		return
	}
	if t.plain == nil {
		t.plain = map[types.NamespacedName][]plainEntry{}
	}
	t.plain[e.NamespacedName] = append(t.plain[e.NamespacedName], now)
	t.plainCount++
}

func (t *table) deletePlain(name types.NamespacedName, uid types.UID) {
	of := t.plain[name]
	n := slices.IndexFunc(of, func(o plainEntry) bool { return same(o.uid, uid) })
	if n < 0 {
		return
	}
	t.plainCount--
	if len(of) > 1 {
		t.plain[name] = slices.Delete(of, n, n+1)
		return
	}
	if delete(t.plain, name); t.plainCount == 0 {
		t.plain = nil // a map does not shrink
	}
}

// repack packs everything again if too much of the table is holes.
func (t *table) repack() {
	if !t.packed.wasteful() {
		return
	}
	old := t.packed
	t.packed = newPacked(old.limits)
	t.packed.reserve(old.live + old.live/8)
	for r := range old.all() {
		name := old.name(r)
		if !t.packed.insert(name, *r) { // in another order the same names may need more room
			t.setPlain(Entry{name, r.unpackUID(), r.unpackVersion()}, r.space&flagSeen != 0)
			t.plainOf(name, r.unpackUID()).stale = r.space&flagStale != 0
		}
	}
}

// unsee marks every object as not seen.
func (t *table) unsee() {
	t.mark(func(r *record) { r.space &^= flagSeen }, func(o *plainEntry) { o.seen = false })
}

// distrust makes every entry stale until it is set again.
func (t *table) distrust() {
	t.mark(func(r *record) { r.space |= flagStale }, func(o *plainEntry) { o.stale = true })
}

func (t *table) mark(inPacked func(*record), inPlain func(*plainEntry)) {
	for r := range t.packed.all() {
		inPacked(r)
	}
	for _, of := range t.plain {
		for n := range of {
			inPlain(&of[n])
		}
	}
}

// all yields every entry, and whether the object was seen. The table must not be changed meanwhile.
func (t *table) all() iter.Seq2[Entry, bool] {
	return func(yield func(Entry, bool) bool) {
		for r := range t.packed.all() {
			e := Entry{t.packed.name(r), r.unpackUID(), r.unpackVersion()}
			if !yield(e, r.space&flagSeen != 0) {
				return
			}
		}
		for name, of := range t.plain {
			for _, o := range of {
				if !yield(o.entry(name), o.seen) {
					return
				}
			}
		}
	}
}
