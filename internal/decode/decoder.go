package decode

import (
	"errors"
	"strings"
)

var (
	// ErrUnlike: whether it is JSON, and what it means, is left to apimachinery.
	ErrUnlike = errors.New("decode: left to apimachinery's decoder")
	// ErrShort: the data ends within a value.
	ErrShort = errors.New("decode: the data ends within a value")
)

// Options say what is built.
type Options struct {
	// Drop are the paths of fields that are left out of objects.
	Drop [][]string
	// MetadataOnly builds apiVersion, kind and metadata alone.
	MetadataOnly bool
}

// Decoder is not for concurrent use. It learns from one object what the next one
// will have; what it returns is independent of that, and of the data.
type Decoder struct {
	data  []byte
	err   error // the first one
	depth int

	drop    *pruned
	meta    *pruned // of the metadata that a Sight shows
	kind    kind    // that was found to be usual last
	strings table
	numbers table

	items   []any  // of the lists that are being read
	scratch []byte // a string without its escapes
	sight   Sight
	block   strings.Builder
	used    int // bytes of strings of the object
	last    int // ... of the last one
	expect  int // ... of it, or the one before, whichever had less
}

const (
	stringPlaces, numberPlaces = 2048, 256
	// deepest is how deeply values may be nested; apimachinery takes 10,000.
	deepest = 500
	// biggestBlock bounds what a string keeps in memory besides itself.
	biggestBlock = 4 << 10
	// mostItems and mostScratch are kept from one object to the next.
	mostItems, mostScratch = 1 << 10, 16 << 10
)

// New returns a Decoder.
func New(o Options) *Decoder {
	return &Decoder{strings: newTable(stringPlaces), numbers: newTable(numberPlaces), drop: prune(o), meta: pruneMetadata(o)}
}

// Object decodes one object, with nothing but white space around it.
func (d *Decoder) Object(data []byte) (map[string]any, error) {
	d.begin(data)
	m, i := d.object(d.space(0), d.drop, nil)
	if i >= 0 && d.space(i) != len(data) {
		i = d.fail(ErrUnlike)
	}
	return m, d.end(i)
}

func (d *Decoder) begin(data []byte) { d.data, d.err, d.depth = data, nil, 0 }

// end forgets what the data was, and returns why it could not be read.
func (d *Decoder) end(i int) error {
	d.data = nil
	if i < 0 {
		d.block, d.used = strings.Builder{}, 0 // as if it had never begun
	} else {
		d.finish()
	}
	clear(d.items) // of what could not be read to its end
	d.items = d.items[:0]
	if cap(d.items) > mostItems {
		d.items = nil
	}
	if cap(d.scratch) > mostScratch {
		d.scratch = nil
	}
	if i >= 0 {
		return nil
	}
	return d.err
}

// finish is the end of an object: the next one has strings of its own.
func (d *Decoder) finish() {
	d.block = strings.Builder{}
	d.expect = min(d.used, d.last)
	d.expect += d.expect / 8
	d.last, d.used = d.used, 0
}

// fail keeps the first error and returns a position that says that there is one.
func (d *Decoder) fail(err error) int {
	if d.err == nil {
		d.err = err
	}
	return -1
}
