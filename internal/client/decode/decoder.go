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
	parser *parser
	view   MetadataView
}

// parser decodes values, objects and events.
type parser struct {
	in      input
	table   table
	own     ownStrings
	drop    []string // the path of a field to leave out of objects; may be nil
	kind    kind     // the last one that isUnstructured accepted
	items   []any    // of the lists that are being decoded
	scratch []byte   // a string without its escapes
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
	p := &parser{table: newTable(places)}
	if dropManagedFields {
		p.drop = managedFields
	}
	return &Decoder{parser: p}
}

// end forgets the data. If the position i stands for an error, end returns that error.
func (p *parser) end(i int) error {
	p.in.data = nil
	p.own.finish(i >= 0)
	clear(p.items) // of lists that end early
	p.items = p.items[:0]
	if cap(p.items) > maxItems {
		p.items = nil
	}
	if cap(p.scratch) > maxScratch {
		p.scratch = nil
	}
	if i >= 0 {
		return nil
	}
	return p.in.err
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
func (p *parser) isUnstructured(m map[string]any) bool {
	var k kind
	k.apiVersion, _ = m["apiVersion"].(string)
	k.kind, _ = m["kind"].(string)
	return p.isOf(k)
}

func (p *parser) isOf(k kind) bool {
	if k == p.kind && k.kind != "" {
		return true
	}
	gv, err := schema.ParseGroupVersion(k.apiVersion)
	if err != nil || gv.Version == "" || k.kind == "" {
		return false
	}
	if _, err := structKinds.New(gv.WithKind(k.kind)); err == nil {
		return false
	}
	p.kind = kind{strings.Clone(k.apiVersion), strings.Clone(k.kind)}
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
