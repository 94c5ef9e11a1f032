package decode

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// MetadataView is the metadata of an event's object, without the event being decoded. It is valid until its Decoder is
// used again or the data changes.
//
// The rest of the event is only searched for its end, not checked: it may be invalid.
type MetadataView struct {
	d       *Decoder
	change  watch.EventType
	decoded *unstructured.Unstructured // an object with only the metadata; nil before object is called
	broken  bool
	scanned
	protobuf []byte // an ObjectMeta, which is not scanned
}

// Metadata returns a view of the metadata in the event that data begins with, and the event's length. It returns nil if
// the event must be decoded: because it is not complete, is not about a change of an object, or is unusual. With whole,
// the caller will want all of the object.
func (d *Decoder) Metadata(data []byte, whole bool) (*MetadataView, int) {
	v := &d.view
	*v = MetadataView{d: d}
	d.begin(data)
	i := v.event()
	end, known := 0, false
	if !whole {
		if end, known = v.lineEnd(i); known {
			data = data[:end]
		}
	}
	v.data = data
	if i < 0 || !v.scan(known) || len(v.name) == 0 || len(v.version) == 0 {
		d.data = nil
		v.Forget()
		return nil, 0
	}
	if d.data = nil; !known {
		end = v.at
	}
	return v, end
}

// Type returns the type of the event.
func (v *MetadataView) Type() watch.EventType { return v.change }

// Identity returns the object's namespace, name and resourceVersion, as slices of the data.
func (v *MetadataView) Identity() (namespace, name, version []byte) {
	return v.namespace, v.name, v.version
}

func (v *MetadataView) interned(b []byte) string {
	if v.d == nil || len(b) == 0 {
		return ""
	}
	found, p := v.d.find(b, plainText, nothing)
	if found = v.d.admitPlain(found, p, b); found != nothing {
		return v.d.entries[found].text
	}
	return string(b)
}

func (v *MetadataView) GetNamespace() string       { return v.interned(v.namespace) }
func (v *MetadataView) GetName() string            { return v.interned(v.name) }
func (v *MetadataView) GetUID() types.UID          { return types.UID(v.interned(v.uid)) }
func (v *MetadataView) GetResourceVersion() string { return v.interned(v.version) }

// GetLabels returns a map that the caller may change.
func (v *MetadataView) GetLabels() map[string]string {
	if v.protobuf != nil {
		return v.object().GetLabels()
	}
	if v.d == nil || v.labels.end == 0 && (!v.rest() || v.labels.end == 0) {
		return nil
	}
	v.d.begin(v.labels.of(v.data))
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
		if key, _, i = d.key(i, nothing, nothing); i < 0 {
			return nil, i
		}
		if i < len(d.data) && d.data[i] == '"' {
			text, _, i = d.stringKey(i, nothing) // not stringValue, which would allocate an interface value
		} else {
			var value any
			value, i = d.value(i, nil, nothing)
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
		if v.d != nil && (v.protobuf != nil || v.rest()) {
			m, err := v.decode()
			if err != nil {
				v.broken = true
			} else {
				v.decoded.Object["metadata"] = m
			}
		}
	}
	return v.decoded
}

func (v *MetadataView) decode() (m map[string]any, err error) {
	i := 0
	v.d.begin(v.metadata.of(v.data))
	if v.protobuf == nil {
		m, i = v.d.object(0, managedFields[1:], nothing)
	} else if m, _ = (&Protobuf{v.d}).metadata(v.protobuf); m == nil {
		i = v.d.fail(ErrDeclined)
	}
	return m, v.d.end(i)
}

// IdentityOnly returns an object with no more than namespace, name, uid and resourceVersion.
func (v *MetadataView) IdentityOnly() map[string]any {
	m := map[string]any{"name": v.interned(v.name), "uid": v.interned(v.uid), "resourceVersion": v.interned(v.version)}
	if len(v.namespace) > 0 {
		m["namespace"] = v.interned(v.namespace)
	}
	return map[string]any{"metadata": m}
}

// Broken reports whether a method of the view has met invalid input, so that its result was wrong.
func (v *MetadataView) Broken() bool { return v.broken }

// Forget makes the view empty, for a caller that keeps it longer than it is valid.
func (v *MetadataView) Forget() { *v = MetadataView{} }
