package decode

import (
	"errors"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// ErrUnlike: whether it is JSON, and what it means, is left to apimachinery.
	ErrDeclined = errors.New("decode: left to apimachinery's decoder")
	// ErrShort: the data ends within a value.
	ErrShort = errors.New("decode: the data ends within a value")
)

// Decoder is not for concurrent use. It learns from one object what the next one
// will have; what it returns is independent of that, and of the data.
type Decoder struct {
	input
	drop    []string // the path of a field that is left out of objects; may be nil
	kind    kind     // that was found to be usual last
	strings table
	numbers table

	items   []any  // of the lists that are being read
	scratch []byte // a string without its escapes
	view    MetadataView
	ownStrings
}

// input is what is being decoded.
type input struct {
	data  []byte
	err   error // the first one
	depth int
}

// rest holds the strings of an object that no other object shares.
type ownStrings struct {
	block  strings.Builder
	used   int // bytes of strings of the object
	last   int // ... of the last one
	expect int // ... of it, or the one before, whichever had less
}

const (
	stringPlaces, numberPlaces = 2048, 256
	// deepest is how deeply values may be nested; apimachinery takes 10,000.
	maxDepth = 500
	// biggestBlock bounds what a string keeps in memory besides itself.
	maxBlock = 4 << 10
	// mostItems and mostScratch are kept from one object to the next.
	maxItems, maxScratch = 1 << 10, 16 << 10
)

// managedFields is the path of a field that is large and seldom wanted.
var managedFields = []string{"metadata", "managedFields"}

// New returns a Decoder. With dropManagedFields objects come without them.
func New(dropManagedFields bool) *Decoder {
	d := &Decoder{strings: newTable(stringPlaces), numbers: newTable(numberPlaces)}
	if dropManagedFields {
		d.drop = managedFields
	}
	return d
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
	if cap(d.items) > maxItems {
		d.items = nil
	}
	if cap(d.scratch) > maxScratch {
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

// kind is what an object says it is.
type kind struct{ apiVersion, kind string }

// typed has the kinds that client-go's dynamic client makes structs of, such as
// Status.
var structKinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// isUsual says whether client-go would make an unstructured object of m.
func (d *Decoder) isUnstructured(m map[string]any) bool {
	var k kind
	k.apiVersion, _ = m["apiVersion"].(string)
	k.kind, _ = m["kind"].(string)
	if k == d.kind && k.kind != "" {
		return true
	}
	gv, err := schema.ParseGroupVersion(k.apiVersion)
	if err != nil || gv.Version == "" || k.kind == "" {
		return false
	}
	if _, err := structKinds.New(gv.WithKind(k.kind)); err == nil {
		return false
	}
	d.kind = kind{strings.Clone(k.apiVersion), strings.Clone(k.kind)}
	return true
}

// misleading says whether a key of an object looks like "kind" or "apiVersion" to
// encoding/json, which client-go looks for those with, whatever their case.
func misleading(key string) bool {
	if len(key) == 4 && key != "kind" && strings.EqualFold(key, "kind") ||
		len(key) == 10 && key != "apiVersion" && strings.EqualFold(key, "apiVersion") {
		return true
	}
	for i := range len(key) {
		if key[i] >= utf8.RuneSelf {
			return true
		}
	}
	return false
}
