package stream

import (
	"iter"

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
// everything is packed anew, so that names that come and go for ever don't fill it.
type table struct {
	packed packed
	odd    map[types.NamespacedName]oddity
	mostly int // the most that odd has held since it was made
}

// oddity is what is known of an object and can't be packed.
type oddity struct {
	uid          types.UID
	version      string
	hidden, seen bool
}

func newTable() table { return table{packed: newPacked(widest)} }

func (t *table) len() int { return t.packed.live + len(t.odd) }

func (t *table) get(name types.NamespacedName) (known, bool) { return t.getLike(name, "") }

func (t *table) getLike(name types.NamespacedName, uid types.UID) (known, bool) {
	if slot, ok := t.packed.find(name); ok {
		r := t.packed.at(slot)
		if packed, ok := packUID(uid); !ok || packed != r.uid {
			uid = r.unpackUID()
		}
		return known{identity{name, uid, r.unpackVersion()}, r.space&flagHidden != 0}, true
	}
	o, ok := t.odd[name]
	return known{identity{name, o.uid, o.version}, o.hidden}, ok
}

// saw says whether an object is there and was seen.
func (t *table) saw(name types.NamespacedName) bool {
	if slot, ok := t.packed.find(name); ok {
		return t.packed.at(slot).space&flagSeen != 0
	}
	return t.odd[name].seen
}

// set enters an object, or what is new of it.
func (t *table) set(k known, seen bool) {
	r, usual := pack(k, seen)
	slot, found := t.packed.find(k.NamespacedName)
	switch {
	case found && usual:
		t.packed.replace(slot, r)
	case found:
		t.packed.delete(slot)
		t.setOdd(k, seen)
		t.tidy()
	case usual && t.packed.insert(k.NamespacedName, r):
		t.deleteOdd(k.NamespacedName)
	default:
		t.setOdd(k, seen)
	}
}

func (t *table) delete(name types.NamespacedName) {
	if slot, ok := t.packed.find(name); ok {
		t.packed.delete(slot)
		t.tidy()
		return
	}
	t.deleteOdd(name)
}

func (t *table) setOdd(k known, seen bool) {
	if t.odd == nil {
		t.odd = map[types.NamespacedName]oddity{}
	}
	t.odd[k.NamespacedName] = oddity{k.uid, k.version, k.hidden, seen}
	t.mostly = max(t.mostly, len(t.odd))
}

func (t *table) deleteOdd(name types.NamespacedName) {
	delete(t.odd, name)
	if t.mostly <= 4*len(t.odd)+t.packed.limits.waste {
		return
	}
	small := make(map[types.NamespacedName]oddity, len(t.odd)) // a map does not shrink
	for name, o := range t.odd {
		small[name] = o
	}
	t.odd, t.mostly = small, len(small)
}

// tidy packs everything anew if too much of it is holes.
func (t *table) tidy() {
	if !t.packed.wasteful() {
		return
	}
	old := t.packed
	t.packed = newPacked(old.limits)
	t.packed.reserve(old.live + old.live/8)
	for r := range old.all() {
		name := old.name(r)
		if !t.packed.insert(name, *r) { // the same names may lie less tightly in another order
			t.setOdd(known{identity{name, r.unpackUID(), r.unpackVersion()}, r.space&flagHidden != 0}, r.space&flagSeen != 0)
		}
	}
}

// unsee makes every object unseen.
func (t *table) unsee() {
	for r := range t.packed.all() {
		r.space &^= flagSeen
	}
	for name, o := range t.odd {
		o.seen = false
		t.odd[name] = o
	}
}

// all yields every object, and whether it was seen. The table must not be changed
// meanwhile.
func (t *table) all() iter.Seq2[known, bool] {
	return func(yield func(known, bool) bool) {
		for r := range t.packed.all() {
			k := known{identity{t.packed.name(r), r.unpackUID(), r.unpackVersion()}, r.space&flagHidden != 0}
			if !yield(k, r.space&flagSeen != 0) {
				return
			}
		}
		for name, o := range t.odd {
			if !yield(known{identity{name, o.uid, o.version}, o.hidden}, o.seen) {
				return
			}
		}
	}
}
