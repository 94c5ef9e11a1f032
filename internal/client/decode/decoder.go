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
	// ErrDeclined says that the input is unusual, valid or not, and that apimachinery has to decode it.
	ErrDeclined = errors.New("decode: unusual input, left to apimachinery's decoder")
	// ErrShort says that the data ends within a value.
	ErrShort = errors.New("decode: the data ends within a value")
	// ErrTooLarge says that an item of a list has more than MaxObject bytes.
	ErrTooLarge = errors.New("decode: an object is too large")
)

const (
	// MaxObject is how many bytes of JSON an item of a list may have: the limit of client-go for an event of a watch
	// (streaming.NewDecoder).
	MaxObject = 16 << 20
	// MaxMemory is how many bytes of memory an event or a list may take, as package size estimates it.
	MaxMemory = 256 << 20
)

// Decoder decodes objects, events and lists. It is not for concurrent use. It uses what it has learned from one object
// to decode the next one faster. Its results stay valid when the data changes.
type Decoder struct {
	input
	drop []string // the path of a field to leave out of objects; may be nil
	kind kind     // the last one that isUnstructured accepted
	table

	items   []any  // of the lists that are being decoded
	scratch []byte // a string without its escapes
	view    MetadataView
	ownStrings
}

// input is what is being decoded.
type input struct {
	data   []byte
	err    error // the first one, or ErrTooLarge
	depth  int
	memory int64 // that maps and lists have taken
}

// ownStrings holds the strings of an object that are not in the table.
type ownStrings struct {
	block  strings.Builder
	used   int // bytes of the object's strings
	last   int // bytes of the last object's strings
	expect int // for this object: the smaller number of the last two objects, and an eighth more
}

const (
	places = 4096
	// maxDepth is how deeply values may be nested; apimachinery allows 10,000.
	maxDepth = 500
	// maxBlock bounds how much other memory a string may keep in use.
	maxBlock = 4 << 10
	// maxItems and maxScratch bound the buffers that are kept from one object to the next.
	maxItems, maxScratch = 1 << 10, 16 << 10
)

// managedFields is the path of metadata.managedFields, which is large and seldom wanted.
var managedFields = []string{"metadata", "managedFields"}

// New returns a Decoder. If dropManagedFields, it leaves out the managedFields of objects.
func New(dropManagedFields bool) *Decoder {
	d := &Decoder{table: newTable(places)}
	if dropManagedFields {
		d.drop = managedFields
	}
	return d
}

func (d *Decoder) begin(data []byte) { d.input = input{data: data} }

// take counts memory. It returns i, the position in the data, or a negative one if it was too much.
func (d *Decoder) take(memory int64, i int) int {
	if d.memory += memory; d.memory > MaxMemory {
		return d.fail(ErrDeclined)
	}
	return i
}

// end forgets the data. If the position i stands for an error, end returns that error.
func (d *Decoder) end(i int) error {
	d.data = nil
	if i < 0 {
		d.block, d.used = strings.Builder{}, 0 // a broken object teaches nothing
	} else {
		d.finish()
	}
	clear(d.items) // of lists that end early
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

// finish ends an object: the next one gets its own block of strings.
func (d *Decoder) finish() {
	d.block = strings.Builder{}
	d.expect = min(d.used, d.last)
	d.expect += d.expect / 8
	d.last, d.used = d.used, 0
}

// fail keeps the first error, and returns -1, the position that stands for an error.
func (d *Decoder) fail(err error) int {
	if d.err == nil {
		d.err = err
	}
	return -1
}

// kind is the apiVersion and kind of an object.
type kind struct{ apiVersion, kind string }

// structKinds has the kinds that client-go's dynamic client decodes into structs, such as Status.
var structKinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// isUnstructured reports whether client-go would decode m into an unstructured object.
func (d *Decoder) isUnstructured(m map[string]any) bool {
	var k kind
	k.apiVersion, _ = m["apiVersion"].(string)
	k.kind, _ = m["kind"].(string)
	return d.isOf(k)
}

func (d *Decoder) isOf(k kind) bool {
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

// misleading reports whether encoding/json might take a key of an object for "kind" or "apiVersion". Client-go finds
// these with it, and it ignores case.
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
