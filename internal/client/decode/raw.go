package decode

import (
	"bytes"
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
func (v *MetadataView) Raw() (Raw, bool) {
	if !v.rest() || !v.isUnstructured() {
		return Raw{}, false
	}
	return v.raw(), true
}

func (v *MetadataView) isUnstructured() bool {
	apiVersion, kindOf := v.unquoted(v.apiVersion), v.unquoted(v.kind)
	last := &v.d.kind
	known := last.kind != "" && last.kind == string(kindOf) && last.apiVersion == string(apiVersion)
	return !v.ambiguous && (known || v.d.isOf(kind{string(apiVersion), string(kindOf)}))
}

// hasKind reports whether the object has an apiVersion and a kind that are not empty.
func (v *MetadataView) hasKind() bool {
	list := v.d.input
	defer func() { v.d.input = list }()
	return len(v.unquoted(v.apiVersion)) > 0 && len(v.unquoted(v.kind)) > 0
}

// unquoted returns a string without escapes. It returns nil if the value is none.
func (v *MetadataView) unquoted(s span) []byte {
	v.d.begin(v.data[:s.end])
	text, _ := v.d.rawText(s.begin)
	v.d.data = nil
	return text
}

func (v *MetadataView) raw() Raw {
	r := Raw{Version: v.identity()}
	if v.managedFields.end == 0 || v.d.drop == nil {
		r.JSON = bytes.Clone(v.whole.of(v.data))
		return r
	}
	cut := v.managedFields.withComma(v.data)
	r.JSON = make([]byte, 0, v.whole.end-v.whole.begin-(cut.end-cut.begin))
	r.JSON = append(r.JSON, v.data[v.whole.begin:cut.begin]...)
	r.JSON = append(r.JSON, v.data[cut.end:v.whole.end]...)
	return r
}

// identity returns the identity in one block of memory.
func (v *MetadataView) identity() objects.Version {
	b := append(v.d.scratch[:0], v.namespace...)
	b = append(b, v.name...)
	b = append(b, v.uid...)
	b = append(b, v.version...)
	v.d.scratch = b
	s := string(b)
	name := len(v.namespace)
	uid := name + len(v.name)
	version := uid + len(v.uid)
	id := objects.ID{Namespace: s[:name], Name: s[name:uid], UID: types.UID(s[uid:version])}
	return objects.Version{ID: id, ResourceVersion: s[version:]}
}

// withComma extends a span of a member of an object by the comma after it, or else before it.
func (s span) withComma(data []byte) span {
	if end := s.end + white(data[s.end:]); data[end] == ',' {
		return span{s.begin, end + 1}
	}
	begin := len(bytes.TrimRight(data[:s.begin], " \t\r\n"))
	if data[begin-1] == ',' {
		begin--
	}
	return span{begin, s.end}
}

func white(data []byte) int { return len(data) - len(bytes.TrimLeft(data, " \t\r\n")) }

// viewOf returns a view of the metadata of the object that begins at i. It returns false if the object must be decoded.
// With early, it does not look for the end of the object.
func (d *Decoder) viewOf(i int, early bool) (*MetadataView, bool) {
	v := &d.view
	*v = MetadataView{d: d}
	v.data, v.alone, v.whole.begin = d.data, true, i
	v.at, v.atKey = d.open(i, '{'), true
	return v, v.at >= 0 && v.scan(early) && (v.metadata.end > 0 || early && v.identified())
}

// Object decodes an object. Around it there may be only white space.
func (d *Decoder) Object(json []byte) (map[string]any, error) {
	d.begin(json)
	m, i := d.object(d.space(0), d.drop, root)
	if i >= 0 && d.space(i) != len(json) {
		i = d.fail(ErrDeclined)
	}
	return m, d.end(i)
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
	d.begin(m.json)
	v, ok := d.viewOf(d.space(0), true)
	if d.data = nil; !ok {
		return objects.Version{}, false
	}
	return v.identity(), true
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
	d.begin(m.json)
	v, ok := d.viewOf(d.space(0), false)
	if ok {
		m.decoded = v.object()
		ok = !v.broken
	}
	if d.data = nil; !ok {
		if m.decoded, _ = Decode(m.json); m.decoded == nil {
			m.decoded = &unstructured.Unstructured{}
		}
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
