package index

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// table holds what an index knows. What is as usual is packed: 32 bytes for the
// uid, the version and where the name is, a slot of 4 bytes by which it is found,
// and the name. The namespace is kept once for all its objects, and nothing is a
// pointer that the garbage collector would follow for every object. What is not
// as usual, or finds no room, is in a map of its own, which is larger but holds
// anything. An object is in one of them.
//
// Deletions leave holes. After half as many of them as there are objects
// everything is packed again, so that names that come and go for ever don't fill it.
type table struct {
	packed     packed
	plain      map[types.NamespacedName][]plainEntry
	plainCount int // in odd
}

// oddity is what is known of an object and can't be packed.
type plainEntry struct {
	uid         types.UID
	version     string
	seen, stale bool
}

func (o plainEntry) entry(name types.NamespacedName) Entry { return Entry{name, o.uid, o.version} }

func newTable() table { return table{packed: newPacked(widest)} }

func (t *table) len() int { return t.packed.live + t.plainCount }

// same says whether two uids may be those of one object. What does not say who it is
// is no proof of another one.
func same(a, b types.UID) bool { return a == b || a == "" || b == "" }

func (t *table) get(name types.NamespacedName, uid types.UID) (i Entry, stale, ok bool) {
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
	return i, false, false
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

// hasBytes says whether there is an object of a name.
func (t *table) hasName(namespace, name []byte) bool {
	return t.packed.hasName(namespace, name) ||
		len(t.plain) > 0 && len(t.plain[named(string(namespace), string(name))]) > 0
}

// others returns the objects of a name that have another uid.
func (t *table) others(name types.NamespacedName, uid types.UID) (found []Entry) {
	t.packed.eachNamed(name, func(r *record) {
		if i := (Entry{name, r.unpackUID(), r.unpackVersion()}); !same(i.UID, uid) {
			found = append(found, i)
		}
	})
	for _, o := range t.plain[name] {
		if !same(o.uid, uid) {
			found = append(found, o.entry(name))
		}
	}
	return found
}

// saw says whether an object of a name was seen.
func (t *table) saw(name types.NamespacedName) bool {
	seen := slices.ContainsFunc(t.plain[name], func(o plainEntry) bool { return o.seen })
	t.packed.eachNamed(name, func(r *record) { seen = seen || r.space&flagSeen != 0 })
	return seen
}

// set enters an object, or what is new of it.
func (t *table) set(i Entry, seen bool) {
	r, usual := pack(i, seen)
	if slot, found := t.packed.find(i.NamespacedName, i.UID); found {
		if usual {
			t.packed.replace(slot, r)
			return
		}
		t.packed.delete(slot)
		t.setPlain(i, seen)
		t.repack()
		return
	}
	if usual && t.packed.insert(i.NamespacedName, r) {
		t.deletePlain(i.NamespacedName, i.UID)
	} else {
		t.setPlain(i, seen)
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

func (t *table) setPlain(i Entry, seen bool) {
	now := plainEntry{uid: i.UID, version: i.Version, seen: seen}
	if o := t.plainOf(i.NamespacedName, i.UID); o != nil {
		*o = now
		return
	}
	if t.plain == nil {
		t.plain = map[types.NamespacedName][]plainEntry{}
	}
	t.plain[i.NamespacedName] = append(t.plain[i.NamespacedName], now)
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

// tidy packs everything again if too much of it is holes.
func (t *table) repack() {
	if !t.packed.wasteful() {
		return
	}
	old := t.packed
	t.packed = newPacked(old.limits)
	t.packed.reserve(old.live + old.live/8)
	for r := range old.all() {
		name := old.name(r)
		if !t.packed.insert(name, *r) { // the same names may lie less tightly in another order
			t.setPlain(Entry{name, r.unpackUID(), r.unpackVersion()}, r.space&flagSeen != 0)
			t.plainOf(name, r.unpackUID()).stale = r.space&flagStale != 0
		}
	}
}

// unsee makes every object unseen.
func (t *table) unsee() {
	t.mark(func(r *record) { r.space &^= flagSeen }, func(o *plainEntry) { o.seen = false })
}

// distrust makes what is known of every object stale, until it is set again.
func (t *table) distrust() {
	t.mark(func(r *record) { r.space |= flagStale }, func(o *plainEntry) { o.stale = true })
}

func (t *table) mark(usual func(*record), odd func(*plainEntry)) {
	for r := range t.packed.all() {
		usual(r)
	}
	for _, of := range t.plain {
		for n := range of {
			odd(&of[n])
		}
	}
}

// all yields every object, and whether it was seen. The table must not be changed
// meanwhile.
func (t *table) all() iter.Seq2[Entry, bool] {
	return func(yield func(Entry, bool) bool) {
		for r := range t.packed.all() {
			i := Entry{t.packed.name(r), r.unpackUID(), r.unpackVersion()}
			if !yield(i, r.space&flagSeen != 0) {
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
