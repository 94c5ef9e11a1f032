package decode

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// MetadataView is the metadata of an event's object, without the event being decoded. It is valid until its Decoder is
// used again or the data changes.
//
// The rest of the event is only searched for its end, not checked: it may be invalid JSON.
type MetadataView struct {
	d        *Decoder
	kind     watch.EventType
	metadata []byte                     // the object's, as JSON
	labels   []byte                     // the object's, as JSON
	decoded  *unstructured.Unstructured // an object with only the metadata; nil before object is called
	broken   bool

	namespace, name, uid, version []byte
}

// Metadata returns a view of the metadata in the event that data begins with, and the event's length. It returns nil if
// the event must be decoded: because it is not complete, is not about a change of an object, or is unusual.
func (d *Decoder) Metadata(data []byte) (*MetadataView, int) {
	d.begin(data)
	v := &d.view
	*v = MetadataView{d: d}
	end := v.event()
	d.data = nil
	if end < 0 || len(v.name) == 0 || len(v.version) == 0 {
		return nil, 0
	}
	return v, end
}

func (v *MetadataView) event() int {
	var i int
	if v.kind, i = v.d.envelope(); i < 0 || v.kind == watch.Bookmark {
		return -1
	}
	if i = v.d.fields(i, v.objectField); i < 0 {
		return -1
	}
	return v.d.endOfEvent(i)
}

// objectField notes a field of the object, and returns where its value ends. The value begins at i.
func (v *MetadataView) objectField(key []byte, i int) int {
	if string(key) != "metadata" {
		return v.d.skip(i)
	}
	if v.metadata != nil {
		return -1 // Event decides which of the two counts
	}
	end := v.d.fields(i, v.metadataField)
	v.metadata = v.d.data[i:max(i, end)]
	return end
}

func (v *MetadataView) metadataField(key []byte, i int) (end int) {
	switch string(key) {
	case "namespace":
		v.namespace, end = v.d.rawText(i)
	case "name":
		v.name, end = v.d.rawText(i)
	case "uid":
		v.uid, end = v.d.rawText(i)
	case "resourceVersion":
		v.version, end = v.d.rawText(i)
	case "labels":
		end = v.d.skip(i)
		v.labels = v.d.data[i:max(i, end)]
	default:
		end = v.d.skip(i)
	}
	return end
}

// fields calls f for each field of the object that begins at i, and returns where the object ends. f gets the position
// where the value begins, and returns where it ends. An object without fields is declined.
func (d *Decoder) fields(i int, f func(key []byte, i int) int) int {
	i = d.open(i, '{')
	for more := true; i >= 0 && more; {
		var key []byte
		if key, i = d.rawText(i); i >= 0 {
			i = d.colon(i)
		}
		if i < 0 {
			return -1
		}
		if i = f(key, i); i >= 0 {
			i, more = d.more(i, '}')
		}
	}
	return i
}

// rawText returns a string without escapes, and only of ASCII.
func (d *Decoder) rawText(i int) ([]byte, int) {
	if i >= len(d.data) || d.data[i] != '"' {
		return nil, -1
	}
	end, plain := d.quoted(i + 1)
	if !plain {
		return nil, -1
	}
	return d.data[i+1 : end], end + 1
}

// skip returns where the value that begins at i ends. It does not check the value.
func (d *Decoder) skip(i int) int {
	data := d.data
	for depth := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			if i = textEnd(data, i+1); depth == 0 && i < len(data) {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			} else if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
	}
	return d.fail(ErrShort)
}

// textEnd returns the position of the closing quote of the string whose content begins at i, or at least len(data) if
// there is none.
func textEnd(data []byte, i int) int {
	for begin := i; ; i++ {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return len(data)
		}
		i += n
		escape := i
		for escape > begin && data[escape-1] == '\\' {
			escape--
		}
		if (i-escape)%2 == 0 {
			return i
		}
	}
}

// Type returns the type of the event.
func (v *MetadataView) Type() watch.EventType { return v.kind }

// Identity returns the object's namespace, name and resourceVersion, as slices of the data.
func (v *MetadataView) Identity() (namespace, name, version []byte) {
	return v.namespace, v.name, v.version
}

func (v *MetadataView) text(b []byte) string {
	if v.d == nil || len(b) == 0 {
		return ""
	}
	if len(b) <= maxInterned {
		if e, h := v.d.strings.find(b); e.has(b) || v.d.admit(e, h, b) {
			return e.text
		}
	}
	return string(b)
}

func (v *MetadataView) GetNamespace() string       { return v.text(v.namespace) }
func (v *MetadataView) GetName() string            { return v.text(v.name) }
func (v *MetadataView) GetUID() types.UID          { return types.UID(v.text(v.uid)) }
func (v *MetadataView) GetResourceVersion() string { return v.text(v.version) }

// GetLabels returns a map that the caller may change.
func (v *MetadataView) GetLabels() map[string]string {
	if v.d == nil {
		return nil
	}
	if len(v.labels) == 0 {
		return nil
	}
	v.d.begin(v.labels)
	labels, i := v.d.texts()
	if v.d.end(i) != nil {
		v.broken = true
		return nil
	}
	return labels
}

// texts decodes an object whose values are strings, as unstructured.NestedNullCoercingStringMap does: null becomes "",
// and if there is any other value, the result is nil.
func (d *Decoder) texts() (map[string]string, int) {
	texts := map[string]string{}
	i, all := d.open(0, '{'), true
	if i >= 0 && i < len(d.data) && d.data[i] == '}' {
		return texts, i + 1
	}
	n := 0
	for more := true; i >= 0 && more; n++ {
		var key, text string
		if key, _, i = d.key(i); i < 0 {
			return nil, i
		}
		if i < len(d.data) && d.data[i] == '"' {
			text, _, i = d.stringKey(i + 1) // not stringValue, which would allocate an interface value
		} else {
			var value any
			value, i = d.value(i, nil, nil)
			all = all && value == nil
		}
		if i < 0 {
			return nil, i
		}
		texts[key] = text
		i, more = d.more(i, '}')
	}
	if len(texts) < n {
		return nil, d.fail(ErrDeclined)
	}
	if !all {
		texts = nil
	}
	return texts, i
}

func (v *MetadataView) GetGeneration() int64               { return v.object().GetGeneration() }
func (v *MetadataView) GetCreationTimestamp() metav1.Time  { return v.object().GetCreationTimestamp() }
func (v *MetadataView) GetDeletionTimestamp() *metav1.Time { return v.object().GetDeletionTimestamp() }
func (v *MetadataView) GetAnnotations() map[string]string  { return v.object().GetAnnotations() }
func (v *MetadataView) GetFinalizers() []string            { return v.object().GetFinalizers() }
func (v *MetadataView) GetOwnerReferences() []metav1.OwnerReference {
	return v.object().GetOwnerReferences()
}

// object returns an object with the decoded metadata, except managedFields.
func (v *MetadataView) object() *unstructured.Unstructured {
	if v.decoded == nil {
		v.decoded = &unstructured.Unstructured{Object: map[string]any{}}
		if v.d != nil {
			v.d.begin(v.metadata)
			m, i := v.d.object(0, managedFields[1:], nil)
			if v.d.end(i) != nil {
				v.broken = true
			} else {
				v.decoded.Object["metadata"] = m
			}
		}
	}
	return v.decoded
}

// IdentityOnly returns an object with no more than namespace, name, uid and resourceVersion.
func (v *MetadataView) IdentityOnly() map[string]any {
	m := map[string]any{"name": v.text(v.name), "uid": v.text(v.uid), "resourceVersion": v.text(v.version)}
	if len(v.namespace) > 0 {
		m["namespace"] = v.text(v.namespace)
	}
	return map[string]any{"metadata": m}
}

// Broken reports whether a method of the view has met invalid JSON, so that its result was wrong.
func (v *MetadataView) Broken() bool { return v.broken }

// Forget makes the view empty, for a caller that keeps it longer than it is valid.
func (v *MetadataView) Forget() { *v = MetadataView{} }
