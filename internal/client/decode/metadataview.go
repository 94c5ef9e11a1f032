package decode

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Sight is the metadata of an event's object, found without decoding the event. It is
// valid until its Decoder is used again, or the data changes.
//
// The rest of the frame is searched for its end, and not checked: it may be no JSON.
type MetadataView struct {
	d        *Decoder
	kind     watch.EventType
	metadata []byte                     // of the object, as JSON
	labels   []byte                     // of those
	decoded  *unstructured.Unstructured // the object with its metadata alone, once they were decoded
	broken   bool

	namespace, name, uid, version []byte
}

// Sight finds the metadata of the object of the event that data begins with, and
// returns how long that is. It returns nil if the event is not all there, changes no
// object, or is unusual: then it has to be decoded.
func (d *Decoder) Metadata(data []byte) (*MetadataView, int) {
	d.begin(data)
	s := &d.view
	*s = MetadataView{d: d}
	end := s.event()
	d.data = nil
	if end < 0 || len(s.name) == 0 || len(s.version) == 0 {
		return nil, 0
	}
	return s, end
}

func (s *MetadataView) event() int {
	var i int
	if s.kind, i = s.d.envelope(); i < 0 || s.kind == watch.Bookmark {
		return -1
	}
	if i = s.d.fields(i, s.objectField); i < 0 {
		return -1
	}
	return s.d.endOfEvent(i)
}

// ofObject takes a field of the object, whose value begins at i, and returns where
// that ends.
func (s *MetadataView) objectField(key []byte, i int) int {
	if string(key) != "metadata" {
		return s.d.skip(i)
	}
	if s.metadata != nil {
		return -1 // which of the two counts is for the decoder to say
	}
	end := s.d.fields(i, s.metadataField)
	s.metadata = s.d.data[i:max(i, end)]
	return end
}

func (s *MetadataView) metadataField(key []byte, i int) (end int) {
	switch string(key) {
	case "namespace":
		s.namespace, end = s.d.rawText(i)
	case "name":
		s.name, end = s.d.rawText(i)
	case "uid":
		s.uid, end = s.d.rawText(i)
	case "resourceVersion":
		s.version, end = s.d.rawText(i)
	case "labels":
		end = s.d.skip(i)
		s.labels = s.d.data[i:max(i, end)]
	default:
		end = s.d.skip(i)
	}
	return end
}

// fields calls f for each field of the object that begins at i, which has some, with
// where its value begins, and returns where the object ends. f returns where the value
// ends.
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

// rawText returns a string that means what is written.
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

// pass returns where the value ends that begins at i. Whether that is JSON it does not
// check.
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

// textEnd returns where the quote is that ends the string whose content begins at i, or
// if there is none at least len(data).
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

func (s *MetadataView) Type() watch.EventType { return s.kind }

// Identity is the object's name and version as they are written.
func (s *MetadataView) Identity() (namespace, name, version []byte) {
	return s.namespace, s.name, s.version
}

func (s *MetadataView) text(b []byte) string {
	if s.d == nil || len(b) == 0 {
		return ""
	}
	if len(b) <= maxInterned {
		if e, h := s.d.strings.find(b); e.has(b) || s.d.admit(e, h, b) {
			return e.text
		}
	}
	return string(b)
}

func (s *MetadataView) GetNamespace() string       { return s.text(s.namespace) }
func (s *MetadataView) GetName() string            { return s.text(s.name) }
func (s *MetadataView) GetUID() types.UID          { return types.UID(s.text(s.uid)) }
func (s *MetadataView) GetResourceVersion() string { return s.text(s.version) }

// GetLabels returns a map of its own.
func (s *MetadataView) GetLabels() map[string]string {
	if s.d == nil {
		return nil
	}
	if len(s.labels) == 0 {
		return nil
	}
	s.d.begin(s.labels)
	labels, i := s.d.texts()
	if s.d.end(i) != nil {
		s.broken = true
		return nil
	}
	return labels
}

// texts decodes an object whose values are strings: null is an empty one, and any
// other means that there are none, as for unstructured.NestedNullCoercingStringMap.
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
			text, _, i = d.stringKey(i + 1) // and not stringValue, which would box it
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

func (s *MetadataView) GetGeneration() int64               { return s.object().GetGeneration() }
func (s *MetadataView) GetCreationTimestamp() metav1.Time  { return s.object().GetCreationTimestamp() }
func (s *MetadataView) GetDeletionTimestamp() *metav1.Time { return s.object().GetDeletionTimestamp() }
func (s *MetadataView) GetAnnotations() map[string]string  { return s.object().GetAnnotations() }
func (s *MetadataView) GetFinalizers() []string            { return s.object().GetFinalizers() }
func (s *MetadataView) GetOwnerReferences() []metav1.OwnerReference {
	return s.object().GetOwnerReferences()
}

// object has all of the metadata but the managedFields.
func (s *MetadataView) object() *unstructured.Unstructured {
	if s.decoded == nil {
		s.decoded = &unstructured.Unstructured{Object: map[string]any{}}
		if s.d != nil {
			s.d.begin(s.metadata)
			m, i := s.d.object(0, managedFields[1:], nil)
			if s.d.end(i) != nil {
				s.broken = true
			} else {
				s.decoded.Object["metadata"] = m
			}
		}
	}
	return s.decoded
}

// Sketch returns an object that has no more than what tells it and its version
// apart from others.
func (s *MetadataView) IdentityOnly() map[string]any {
	m := map[string]any{"name": s.text(s.name), "uid": s.text(s.uid), "resourceVersion": s.text(s.version)}
	if len(s.namespace) > 0 {
		m["namespace"] = s.text(s.namespace)
	}
	return map[string]any{"metadata": m}
}

// Broken says that something that was asked for could not be read, so that the
// answer was wrong.
func (s *MetadataView) Broken() bool { return s.broken }

// Forget makes sure that who has kept a Sight against the rules sees nothing.
func (s *MetadataView) Forget() { *s = MetadataView{} }
