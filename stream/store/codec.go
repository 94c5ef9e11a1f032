package store

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// The encodings of the JSON in a record. Larger numbers are S2 with a dictionary: the first one is withDictionary.
const (
	plain byte = iota
	compressed
	withDictionary
)

const (
	// firstDictionary is how many objects are encoded before the first dictionary is made. Each further dictionary
	// is made after dictionaryGrowth times as many objects as the one before.
	firstDictionary  = 16
	dictionaryGrowth = 16
	maxDictionaries  = 6 // after 16 objects, 256, 4,096, ... 16,777,216
)

// codec encodes and decodes the JSON of objects. The one writer encodes; all may decode at any time.
//
// A dictionary has examples of what occurs in objects: a random sample of those that the run has delivered in one
// watched namespace, or in the cluster, when it is made. The first one is made early, so that few objects are encoded
// without. A dictionary is never dropped, because objects that were encoded with it may still be in use.
type codec struct {
	compresses   bool
	dictionaries atomic.Pointer[[]*s2.Dict]
	encoded      int // number of objects that were encoded
	due          int // number of objects after which the next dictionary is made
	scratch      []byte
}

func newCodec(compress bool) *codec {
	c := &codec{compresses: compress, due: firstDictionary}
	c.dictionaries.Store(&[]*s2.Dict{})
	return c
}

// encode returns an encoding of the JSON of an object, which is valid until the next call.
func (c *codec) encode(json []byte) (encoding byte, payload []byte) {
	if !c.compresses {
		return plain, json
	}
	c.encoded++
	n := s2.MaxEncodedLen(len(json))
	if n < 0 {
		return plain, json // too large
	}
	if cap(c.scratch) < n {
		c.scratch = make([]byte, n)
	}
	dictionaries := *c.dictionaries.Load()
	if newest := len(dictionaries) - 1; newest >= 0 {
		encoding, payload = withDictionary+byte(newest), dictionaries[newest].EncodeBetter(c.scratch[:n], json)
	} else {
		encoding, payload = compressed, s2.EncodeBetter(c.scratch[:n], json)
	}
	if len(payload) >= len(json) {
		return plain, json
	}
	return encoding, payload
}

// learn makes a dictionary of the objects in a tree, if one is due.
func (c *codec) learn(objects *node) {
	old := *c.dictionaries.Load()
	if !c.compresses || c.encoded < c.due || len(old) == maxDictionaries {
		return
	}
	c.due *= dictionaryGrowth
	var samples []byte
	objects.top(func(n *node) bool {
		if json, err := c.decode(nil, n.record); err == nil {
			samples = append(samples, json...)
		}
		return len(samples) < s2.MaxDictSize
	})
	// Clipped, so that MakeDict copies them: it would keep all that was collected in memory.
	samples = slices.Clip(samples[:min(len(samples), s2.MaxDictSize)])
	d := s2.MakeDict(samples, samples[:min(len(samples), 64)])
	if d == nil {
		return // too few objects are left
	}
	// What a dictionary has for encoding takes more memory than the dictionary. The new copies of the old ones only
	// decode.
	all := make([]*s2.Dict, 0, len(old)+1)
	for _, d := range old {
		all = append(all, s2.NewDict(d.Bytes()))
	}
	all = append(all, d)
	c.dictionaries.Store(&all)
}

// buffers hold the JSON of objects while it is decoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is the size of the largest buffer that is kept.
const maxBuffer = 1 << 20

func release(b *[]byte) {
	if cap(*b) <= maxBuffer {
		buffers.Put(b)
	}
}

// with calls f with the JSON of a record, which is valid until f returns.
func (c *codec) with(r record, f func(json []byte) error) error {
	b := buffers.Get().(*[]byte)
	defer release(b)
	json, err := c.decode((*b)[:0], r)
	if err != nil {
		return err
	}
	*b = json
	return f(json)
}

// decode returns the JSON of a record, in the memory of to if that is large enough.
func (c *codec) decode(to []byte, r record) ([]byte, error) {
	encoding, payload := r.payload()
	if encoding == plain {
		return append(to[:0], payload...), nil
	}
	b := buffers.Get().(*[]byte)
	defer release(b)
	*b = append((*b)[:0], payload...)
	var json []byte
	var err error
	if encoding == compressed {
		json, err = s2.Decode(to, *b)
	} else {
		json, err = (*c.dictionaries.Load())[encoding-withDictionary].Decode(to, *b)
	}
	if err != nil {
		return nil, fmt.Errorf("store: cannot decompress an object: %w", err)
	}
	return json, nil
}
