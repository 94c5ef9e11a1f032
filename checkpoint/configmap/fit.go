package configmap

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// optimism is how much smaller an index is hoped to become, compared to the last
	// one: what needs more room than there is even so is not tried.
	optimism = 0.9
	// usualDensity is a guess, until an index has been packed.
	usualDensity = 25
)

// add puts entries into c, and as many of their indexes as there is room for,
// smallest first. It returns the keys of those that are left out, sorted.
func (c content) add(entries map[string]*entry, maxBytes int) (leftOut []string, err error) {
	keys := slices.Sorted(maps.Keys(entries))
	for _, key := range keys {
		// Its length is the same with the index, or less.
		if c.data[checkpointPrefix+key], err = entries[key].saved(true).write(key, nil); err != nil {
			return nil, err
		}
	}
	room := maxBytes - c.bytes()
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(entries[a].size(), entries[b].size()) })
	with := &compressor{}
	for _, key := range keys {
		e := entries[key]
		if !e.pack(room, with) {
			leftOut = append(leftOut, key)
			continue
		}
		if c.data[checkpointPrefix+key], err = e.saved(false).write(key, e.index); err != nil {
			return nil, err
		}
		if len(e.index) > 0 {
			c.binary[indexPrefix+key] = e.index
		}
		room -= len(e.index)
	}
	slices.Sort(leftOut)
	return leftOut, nil
}

// size is that of the index, as far as it is known.
func (e *entry) size() float64 {
	if e.index != nil {
		return float64(len(e.index))
	}
	return cmp.Or(e.density, usualDensity) * float64(len(e.objects))
}

// pack sees to it that there is an index, if it has no more bytes than there is
// room for.
func (e *entry) pack(room int, with *compressor) bool {
	switch {
	case len(e.objects) == 0:
		e.index = nil
		return true
	case e.index != nil:
		return len(e.index) <= room
	case e.density > 0 && e.size()*optimism > float64(room), room <= 0:
		return false
	}
	index, packed := with.pack(e.objects, room)
	if index == nil {
		e.density = max(e.density, float64(room)/float64(packed))
		return false
	}
	e.index, e.density = index, float64(len(index))/float64(len(e.objects))
	return true
}
