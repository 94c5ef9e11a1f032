package index

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// shard holds the entries of some names. An entry with a usual uid, version and name is packed: 32 bytes for the uid,
// the version and the place of the name, a slot of 4 bytes to find it, and the name. Any other entry, or one that finds
// no room, is plain: in a map that takes more memory.
type shard struct {
	packed     packed
	plain      map[types.NamespacedName][]plainEntry
	plainCount int // entries in plain
}

// key is a name with its hash.
type key struct {
	types.NamespacedName
	hash uint64
}

// plainEntry is the entry of an object that is not packed.
type plainEntry struct {
	uid         types.UID
	version     string
	seen, stale bool
}

func versionOf(name types.NamespacedName, uid types.UID, resourceVersion string) objects.Version {
	id := objects.ID{Namespace: name.Namespace, Name: name.Name, UID: uid}
	return objects.Version{ID: id, ResourceVersion: resourceVersion}
}

// newShard returns an empty shard that expects a number of packed entries.
func newShard(s *spaces, expected int) *shard {
	of := &shard{packed: newPacked(s)}
	if expected > 0 {
		of.packed.reserve(expected + expected/8)
	}
	return of
}

func (s *shard) len() int { return s.packed.live + s.plainCount }

func (s *shard) get(name key, uid types.UID) (e objects.Version, stale, ok bool) {
	if slot, ok := s.packed.find(name, uid); ok {
		r := s.packed.at(slot)
		if packed, ok := packUID(uid); !ok || packed != r.uid {
			uid = r.unpackUID()
		}
		return versionOf(name.NamespacedName, uid, r.unpackVersion()), r.space&flagStale != 0, true
	}
	if o := s.plainOf(name.NamespacedName, uid); o != nil {
		return versionOf(name.NamespacedName, o.uid, o.version), o.stale, true
	}
	return e, false, false
}

// has is get without an allocation.
func (s *shard) has(name key, uid types.UID) bool {
	_, ok := s.packed.find(name, uid)
	return ok || s.plainOf(name.NamespacedName, uid) != nil
}

func (s *shard) plainOf(name types.NamespacedName, uid types.UID) *plainEntry {
	of := s.plain[name]
	for n := range of {
		if objects.SameUID(of[n].uid, uid) {
			return &of[n]
		}
	}
	return nil
}

// hasName reports whether there is an object of a name.
func (s *shard) hasName(hash uint64, namespace, name []byte) bool {
	return s.packed.hasName(hash, namespace, name) ||
		len(s.plain) > 0 && len(s.plain[named(string(namespace), string(name))]) > 0
}

// others returns the objects of a name that have another uid.
func (s *shard) others(name key, uid types.UID) (found []objects.Version) {
	s.packed.eachNamed(name, func(r *record) {
		if e := versionOf(name.NamespacedName, r.unpackUID(), r.unpackVersion()); !objects.SameUID(e.UID, uid) {
			found = append(found, e)
		}
	})
	for _, o := range s.plain[name.NamespacedName] {
		if !objects.SameUID(o.uid, uid) {
			found = append(found, versionOf(name.NamespacedName, o.uid, o.version))
		}
	}
	return found
}

// saw reports whether an object was seen.
func (s *shard) saw(name key, uid types.UID) bool {
	if slot, ok := s.packed.find(name, uid); ok {
		return s.packed.at(slot).space&flagSeen != 0
	}
	o := s.plainOf(name.NamespacedName, uid)
	return o != nil && o.seen
}

// set enters an object, or updates its entry.
func (s *shard) set(name key, e objects.Version, seen bool) {
	r, ok := pack(e, seen)
	slot, found := s.packed.find(name, e.UID)
	switch {
	case found && ok:
		s.packed.replace(slot, r)
	case found:
		s.packed.delete(slot)
		s.setPlain(e, seen)
	case ok && s.packed.insert(name, r):
		s.deletePlain(e.NamespacedName(), e.UID)
	default:
		s.setPlain(e, seen)
	}
}

// renew replaces a packed entry by a newer one.
func (s *shard) renew(name key, e objects.Version) bool {
	r, ok := pack(e, true)
	if !ok || e.UID == "" {
		return false
	}
	slot, ok := s.packed.search(name.hash, func(old *record) bool { return old.uid == r.uid && s.packed.is(old, name) })
	if !ok || s.packed.at(slot).version >= r.version {
		return false
	}
	s.packed.replace(slot, r)
	return true
}

func (s *shard) delete(name key, uid types.UID) {
	if slot, ok := s.packed.find(name, uid); ok {
		s.packed.delete(slot)
	} else {
		s.deletePlain(name.NamespacedName, uid)
	}
}

func (s *shard) setPlain(e objects.Version, seen bool) {
	uid, version := types.UID(strings.Clone(string(e.UID))), strings.Clone(e.ResourceVersion)
	now := plainEntry{uid: uid, version: version, seen: seen}
	if o := s.plainOf(e.NamespacedName(), e.UID); o != nil {
		*o = now
		return
	}
	s.addPlain(named(strings.Clone(e.Namespace), strings.Clone(e.Name)), now) // the object's strings share memory
}

func (s *shard) addPlain(name types.NamespacedName, more ...plainEntry) {
	if s.plain == nil {
		s.plain = map[types.NamespacedName][]plainEntry{}
	}
	s.plain[name] = append(s.plain[name], more...)
	s.plainCount += len(more)
}

func (s *shard) deletePlain(name types.NamespacedName, uid types.UID) {
	of := s.plain[name]
	n := slices.IndexFunc(of, func(o plainEntry) bool { return objects.SameUID(o.uid, uid) })
	if n < 0 {
		return
	}
	s.plainCount--
	if len(of) > 1 {
		s.plain[name] = slices.Delete(of, n, n+1)
		return
	}
	if delete(s.plain, name); s.plainCount == 0 {
		s.plain = nil // a map does not shrink
	}
}

// moveTo enters every entry into the shard for its hash.
func (s *shard) moveTo(to func(hash uint64) *shard) {
	for r := range s.packed.all() {
		hash := s.packed.hash(r)
		to(hash).packed.add(hash, *r, s.packed.textOf(r))
	}
	for name, of := range s.plain {
		to(s.packed.spaces.hash(name)).addPlain(name, of...)
	}
}

// mark calls inPacked or inPlain for every entry.
func (s *shard) mark(inPacked func(*record), inPlain func(*plainEntry)) {
	for r := range s.packed.all() {
		inPacked(r)
	}
	for _, of := range s.plain {
		for n := range of {
			inPlain(&of[n])
		}
	}
}

// unsee marks every object as not seen.
func (s *shard) unsee() {
	s.mark(func(r *record) { r.space &^= flagSeen }, func(o *plainEntry) { o.seen = false })
}

// distrust makes every entry stale until it is set again.
func (s *shard) distrust() {
	s.mark(func(r *record) { r.space |= flagStale }, func(o *plainEntry) { o.stale = true })
}

// all yields every entry, and whether the object was seen. The shard must not be changed meanwhile.
func (s *shard) all() iter.Seq2[objects.Version, bool] {
	return func(yield func(objects.Version, bool) bool) {
		for r := range s.packed.all() {
			e := versionOf(s.packed.name(r), r.unpackUID(), r.unpackVersion())
			if !yield(e, r.space&flagSeen != 0) {
				return
			}
		}
		for name, of := range s.plain {
			for _, o := range of {
				if !yield(versionOf(name, o.uid, o.version), o.seen) {
					return
				}
			}
		}
	}
}
