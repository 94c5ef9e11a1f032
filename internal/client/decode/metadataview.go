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
	parser   *parser
	change   watch.EventType
	decoded  *unstructured.Unstructured // an object with only the metadata; nil before object is called
	broken   bool
	scan     scan
	protobuf []byte // an ObjectMeta, which is not scanned
}

// Metadata returns a view of the metadata in the event that data begins with, and the event's length. It returns nil if
// the event must be decoded: because it is not complete, is not about a change of an object, or is unusual.
//
// It scans the event to the Extent that the caller wants if the end of a line shows where the event ends, else all of
// it. With ToIdentity, the first of several keys of one name counts.
func (d *Decoder) Metadata(data []byte, to Extent) (*MetadataView, int) {
	v, in := &d.view, &d.parser.in
	*v = MetadataView{parser: d.parser, scan: scan{in: in}}
	s, i := &v.scan, 0
	in.begin(data)
	v.change, i = s.event()
	end := 0
	if to != ToEnd {
		if end, s.line = s.lineEnd(i); s.line {
			data = data[:end]
		} else {
			to = ToEnd
		}
	}
	s.data = data
	if i < 0 || !s.run(to) || len(s.id.name) == 0 || len(s.id.version) == 0 {
		in.data = nil
		v.Forget()
		return nil, 0
	}
	if in.data = nil; !s.line {
		end = s.at
	}
	return v, end
}

// Type returns the type of the event.
func (v *MetadataView) Type() watch.EventType { return v.change }

// Identity returns the object's namespace, name and resourceVersion, as slices of the data.
func (v *MetadataView) Identity() (namespace, name, version []byte) {
	return v.scan.id.namespace, v.scan.id.name, v.scan.id.version
}

func (v *MetadataView) interned(b []byte) string {
	if v.parser == nil || len(b) == 0 {
		return ""
	}
	if found := v.parser.table.plain(b, nothing); found != nothing {
		return v.parser.table.entries[found].text
	}
	return string(b)
}

func (v *MetadataView) GetNamespace() string       { return v.interned(v.scan.id.namespace) }
func (v *MetadataView) GetName() string            { return v.interned(v.scan.id.name) }
func (v *MetadataView) GetUID() types.UID          { return types.UID(v.interned(v.scan.id.uid)) }
func (v *MetadataView) GetResourceVersion() string { return v.interned(v.scan.id.version) }

// GetLabels returns a map that the caller may change.
func (v *MetadataView) GetLabels() map[string]string {
	if v.protobuf != nil {
		return v.object().GetLabels()
	}
	if v.parser == nil || v.scan.parts.labels.end == 0 && (!v.rest() || v.scan.parts.labels.end == 0) {
		return nil
	}
	v.parser.in.begin(v.scan.parts.labels.of(v.scan.data))
	labels, i := v.parser.texts()
	if v.parser.end(i) != nil {
		v.broken = true
		return nil
	}
	return labels
}

// texts decodes an object whose values are strings, as unstructured.NestedNullCoercingStringMap does: null becomes "",
// and if there is any other value, the result is nil.
func (p *parser) texts() (map[string]string, int) {
	texts := map[string]string{}
	i, all := p.in.open(0, '{'), true
	if i >= 0 && i < len(p.in.data) && p.in.data[i] == '}' {
		return texts, i + 1
	}
	n := 0
	for more := true; i >= 0 && more; n++ {
		var key, text string
		if key, _, i = p.key(i, nothing, nothing); i < 0 {
			return nil, i
		}
		if i < len(p.in.data) && p.in.data[i] == '"' {
			text, _, i = p.stringKey(i, nothing) // not stringValue, which would allocate an interface value
		} else {
			var value any
			value, i = p.value(i, nil, nothing)
			all = all && value == nil
		}
		if i < 0 {
			return nil, i
		}
		texts[key] = text
		i, more = p.in.more(i, '}')
	}
	if len(texts) < n {
		return nil, p.in.fail(ErrDeclined)
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
		if v.parser != nil && (v.protobuf != nil || v.rest()) {
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
	p, i := v.parser, 0
	p.in.begin(v.scan.parts.metadata.of(v.scan.data))
	if v.protobuf == nil {
		m, i = p.object(0, managedFields[1:], nothing)
	} else if m, _ = (metadataParser{p}).metadata(v.protobuf); m == nil {
		i = p.in.fail(ErrDeclined)
	}
	return m, p.end(i)
}

// IdentityOnly returns an object with no more than namespace, name, uid and resourceVersion.
func (v *MetadataView) IdentityOnly() map[string]any {
	name, uid, version := v.interned(v.scan.id.name), v.interned(v.scan.id.uid), v.interned(v.scan.id.version)
	m := map[string]any{"name": name, "uid": uid, "resourceVersion": version}
	if namespace := v.GetNamespace(); namespace != "" {
		m["namespace"] = namespace
	}
	return map[string]any{"metadata": m}
}

// rest scans what an early end has left. It reports whether the event is valid so far.
func (v *MetadataView) rest() bool {
	if v.scan.parts.whole.end == 0 && !v.broken {
		v.broken = !v.scan.run(ToEnd) || v.scan.line && v.scan.at < len(v.scan.data) // more than one event on a line
	}
	return !v.broken
}

// Broken reports whether a method of the view has met invalid input, so that its result was wrong.
func (v *MetadataView) Broken() bool { return v.broken }

// Forget makes the view empty, for a caller that keeps it longer than it is valid.
func (v *MetadataView) Forget() { *v = MetadataView{} }
