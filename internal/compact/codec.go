package compact

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// The encodings of the text in a Record. Larger numbers are S2 with a dictionary: the first one is withDictionary.
const (
	plain byte = iota
	compressed
	withDictionary
)

const (
	// dictionarySize is the size of a dictionary in bytes. What S2 keeps to encode with it takes as much again.
	dictionarySize = 32 << 10
	// The first dictionary is made after firstDue bytes of objects, because objects of less would not pay for it.
	// Each further one is made after dueGrowth times as many as the one before.
	firstDue        = 256 << 10
	dueGrowth       = 16
	maxDictionaries = 4 // after 256 KiB, 4 MiB, 64 MiB and 1 GiB
)

// Codec encodes and decodes the texts of objects. One goroutine at a time encodes; all may decode at any time.
//
// A dictionary is made of some of the new objects, which are taken at equal distances from the last half of those
// before it. It is never dropped, because objects that were encoded with it may still be in use.
type Codec struct {
	compresses   bool
	dictionaries atomic.Pointer[[]*s2.Dict]
	seen         int // bytes of new objects
	due          int // bytes of new objects after which the next dictionary is made
	samples      []byte
	scratch      []byte
}

// NewCodec returns a Codec that compresses, or keeps texts as they are.
func NewCodec(compresses bool) *Codec {
	c := &Codec{compresses: compresses, due: firstDue}
	c.dictionaries.Store(&[]*s2.Dict{})
	return c
}

// Encode returns an encoding of a text, which is valid until the next call. Only texts of new objects are examples for
// dictionaries: an object that changes often is no reason for another one.
func (c *Codec) Encode(text []byte, isNew bool) (encoding byte, payload []byte) {
	if !c.compresses {
		return plain, text
	}
	n := s2.MaxEncodedLen(len(text))
	if n < 0 {
		return plain, text // too large
	}
	if isNew {
		c.learn(text)
	}
	if cap(c.scratch) < n {
		c.scratch = make([]byte, n)
	}
	dictionaries := *c.dictionaries.Load()
	if newest := len(dictionaries) - 1; newest >= 0 {
		encoding, payload = withDictionary+byte(newest), dictionaries[newest].Encode(c.scratch[:n], text)
	} else {
		encoding, payload = compressed, s2.EncodeBetter(c.scratch[:n], text)
	}
	if cap(c.scratch) > maxScratch {
		c.scratch = nil
	}
	if len(payload) >= len(text) {
		return plain, text
	}
	return encoding, payload
}

// learn takes a text for the next dictionary, and makes that once it is due.
func (c *Codec) learn(text []byte) {
	old := *c.dictionaries.Load()
	if len(old) == maxDictionaries {
		return
	}
	c.seen += len(text)
	half := c.due / 2
	if room := dictionarySize - len(c.samples); room > 0 && len(c.samples)*half <= (c.seen-half)*dictionarySize {
		c.samples = append(c.samples, text[:min(room, len(text))]...)
	}
	if c.seen < c.due {
		return
	}
	d := s2.MakeDict(c.samples, c.samples[:min(len(c.samples), 64)])
	c.due *= dueGrowth
	c.samples = nil
	if d == nil {
		return // too little
	}
	// The new copies of the old ones only decode, and lack what takes memory for encoding.
	all := make([]*s2.Dict, 0, len(old)+1)
	for _, d := range old {
		all = append(all, s2.NewDict(d.Bytes()))
	}
	all = append(all, d)
	c.dictionaries.Store(&all)
}

// TextSize returns how many bytes the text of a Record has.
func (r Record) TextSize() int {
	encoding, payload := r.Payload()
	if encoding == plain {
		return len(payload)
	}
	n, _ := Record(payload).number() // S2 begins with it
	return n
}

// buffers hold the texts of objects while they are decoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const (
	// maxBuffer is the size of the largest buffer that is kept for all Codecs.
	maxBuffer = 1 << 20
	// maxScratch is the size of the largest buffer that a Codec keeps. A program may have hundreds of them.
	maxScratch = 16 << 10
)

func release(b *[]byte) {
	if cap(*b) <= maxBuffer {
		buffers.Put(b)
	}
}

// With calls f with the text of a Record, which is valid until f returns.
func (c *Codec) With(r Record, f func(text []byte) error) error {
	b := buffers.Get().(*[]byte)
	defer release(b)
	text, err := c.Decode((*b)[:0], r)
	if err != nil {
		return err
	}
	*b = text
	return f(text)
}

// Decode returns the text of a Record, in the memory of to if that is large enough.
func (c *Codec) Decode(to []byte, r Record) ([]byte, error) {
	encoding, payload := r.Payload()
	if encoding == plain {
		return append(to[:0], payload...), nil
	}
	b := buffers.Get().(*[]byte)
	defer release(b)
	*b = append((*b)[:0], payload...)
	var text []byte
	var err error
	if encoding == compressed {
		text, err = s2.Decode(to, *b)
	} else {
		text, err = (*c.dictionaries.Load())[encoding-withDictionary].Decode(to, *b)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decompress an object: %w", err)
	}
	return text, nil
}
