package decode

import (
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// Raw is an object as JSON, and what identifies it and its state.
type Raw struct {
	JSON    []byte // nil if there is no object
	Version objects.Version
}

// Raw returns the object of the event as it is in the data, but without managedFields if the Decoder drops them. It
// returns false if the event must be decoded.
//
// With cut, the end of a line also ends the object, if Metadata has found the event's end by it: no end is searched
// for. What then follows the object within the event, and brackets that do not match, are in the JSON.
func (v *MetadataView) Raw(cut bool) (Raw, bool) {
	if cut && v.scan.parts.whole.end == 0 && !v.broken {
		v.broken = !v.scan.cut(v.parser.drop != nil)
	}
	if !v.rest() || !v.isUnstructured() {
		return Raw{}, false
	}
	return v.raw(), true
}

// IsLine reports whether the event is a line that ends with the object and one brace, as servers send events. Raw must
// have returned true. It says so of an event that Raw has cut without knowing better.
func (v *MetadataView) IsLine() bool { return v.scan.isLine() }

func (v *MetadataView) isUnstructured() bool {
	s, last := &v.scan, &v.parser.kind
	apiVersion, kindOf := s.unquoted(s.parts.apiVersion), s.unquoted(s.parts.kind)
	known := last.kind != "" && last.kind == string(kindOf) && last.apiVersion == string(apiVersion)
	return !s.ambiguous && (known || v.parser.isOf(kind{string(apiVersion), string(kindOf)}))
}

func (v *MetadataView) raw() Raw {
	return Raw{v.scan.json(v.parser.drop != nil), v.version()}
}

// version returns what identifies the object and its state, in one block of memory.
func (v *MetadataView) version() objects.Version {
	found, b := &v.scan.id, v.parser.scratch[:0]
	b = append(append(append(append(b, found.namespace...), found.name...), found.uid...), found.version...)
	v.parser.scratch = b
	all := string(b)
	next := func(part []byte) string {
		s := all[:len(part)]
		all = all[len(part):]
		return s
	}
	id := objects.ID{Namespace: next(found.namespace), Name: next(found.name), UID: types.UID(next(found.uid))}
	return objects.Version{ID: id, ResourceVersion: all}
}

// viewOf returns a view of the metadata of the object that begins at i. It returns false if the object must be decoded.
// With early, it does not look for the end of the object.
func (d *Decoder) viewOf(i int, early bool) (*MetadataView, bool) {
	v, in := &d.view, &d.parser.in
	*v = MetadataView{parser: d.parser, scan: scan{in: in, data: in.data, alone: true}}
	s := &v.scan
	to := ToEnd
	if early {
		to = ToManaged
	}
	return v, s.object(i) >= 0 && s.run(to) && (s.parts.metadata.end > 0 || early && s.id.complete())
}

// metadataOf returns a view of the metadata of an object, as viewOf does.
func (d *Decoder) metadataOf(json []byte, early bool) (*MetadataView, bool) {
	in := &d.parser.in
	in.begin(json)
	v, ok := d.viewOf(in.space(0), early)
	in.data = nil
	return v, ok
}

// Object decodes an object. Around it there may be only white space.
func (d *Decoder) Object(json []byte) (map[string]any, error) {
	p := d.parser
	p.in.begin(json)
	m, i := p.object(p.in.space(0), p.drop, root)
	if i >= 0 && p.in.space(i) != len(json) {
		i = p.in.fail(ErrDeclined)
	}
	return m, p.end(i)
}

// IsWhole reports whether a text is an object and nothing more, by its brackets. It does not check what is within.
func IsWhole(json []byte) bool {
	in := input{data: json}
	begin := in.space(0)
	if begin >= len(json) || json[begin] != '{' {
		return false
	}
	end := in.skip(begin)
	return end >= 0 && in.space(end) == len(json)
}

// spare are Decoders for objects that the caller has received as JSON.
var spare = sync.Pool{New: func() any { return New(false) }}

// Decode decodes an object as apimachinery does, but does not require a kind.
func Decode(json []byte) (*unstructured.Unstructured, error) {
	d := spare.Get().(*Decoder)
	defer spare.Put(d)
	m, err := d.Object(json)
	if err != nil && size.OfJSON(json) > MaxMemory {
		return nil, errObjectTooLarge
	}
	if err != nil {
		m = nil
		if err = utiljson.Unmarshal(json, &m); err == nil && m == nil {
			err = errNull
		}
	}
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: m}, nil
}

var (
	errNull           = errors.New("invalid object: null")
	errObjectTooLarge = errors.New("the object takes more than 256 MiB of memory")
)

// Meta gives access to the metadata of an object as JSON. It decodes no more than it is asked for. Metadata that is
// not valid is empty.
type Meta struct {
	json     []byte
	read     func() []byte              // returns json for NewMetaOf; else nil
	identity *objects.Version           // nil before identify
	decoded  *unstructured.Unstructured // nil before object
}

// NewMeta returns a Meta of the JSON of an object.
func NewMeta(json []byte) *Meta { return &Meta{json: json} }

// NewMetaOf returns a Meta of an object whose identity is known. It calls read when it is asked for more.
func NewMetaOf(id objects.Version, read func() []byte) *Meta { return &Meta{identity: &id, read: read} }

func (m *Meta) identify() *objects.Version {
	if m.identity == nil {
		id, ok := m.scan()
		if !ok {
			id = identify(m.object())
		}
		m.identity = &id
	}
	return m.identity
}

func (m *Meta) scan() (objects.Version, bool) {
	d := spare.Get().(*Decoder)
	defer spare.Put(d)
	defer d.view.Forget()
	v, ok := d.metadataOf(m.json, true)
	if !ok {
		return objects.Version{}, false
	}
	return v.version(), true
}

// object returns an object with the metadata, except managedFields unless the JSON is unusual.
func (m *Meta) object() *unstructured.Unstructured {
	if m.decoded != nil {
		return m.decoded
	}
	if m.read != nil {
		m.json = m.read()
	}
	d := spare.Get().(*Decoder)
	defer spare.Put(d)
	defer d.view.Forget()
	if v, ok := d.metadataOf(m.json, false); ok {
		if m.decoded = v.object(); !v.broken {
			return m.decoded
		}
	}
	if m.decoded, _ = Decode(m.json); m.decoded == nil {
		m.decoded = &unstructured.Unstructured{}
	}
	return m.decoded
}

func identify(o *unstructured.Unstructured) objects.Version {
	id := objects.ID{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	return objects.Version{ID: id, ResourceVersion: o.GetResourceVersion()}
}

func (m *Meta) GetNamespace() string                        { return m.identify().Namespace }
func (m *Meta) GetName() string                             { return m.identify().Name }
func (m *Meta) GetUID() types.UID                           { return m.identify().UID }
func (m *Meta) GetResourceVersion() string                  { return m.identify().ResourceVersion }
func (m *Meta) GetGeneration() int64                        { return m.object().GetGeneration() }
func (m *Meta) GetCreationTimestamp() metav1.Time           { return m.object().GetCreationTimestamp() }
func (m *Meta) GetDeletionTimestamp() *metav1.Time          { return m.object().GetDeletionTimestamp() }
func (m *Meta) GetLabels() map[string]string                { return m.object().GetLabels() }
func (m *Meta) GetAnnotations() map[string]string           { return m.object().GetAnnotations() }
func (m *Meta) GetFinalizers() []string                     { return m.object().GetFinalizers() }
func (m *Meta) GetOwnerReferences() []metav1.OwnerReference { return m.object().GetOwnerReferences() }
