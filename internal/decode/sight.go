package decode

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Sight is what can be seen of an event without decoding it: its type and the
// metadata of its object. It is good until the Decoder that returned it is used
// again, or the data changes.
//
// The rest is not looked at, so that it may be no JSON, and what is seen is that of
// an object that has its metadata once.
type Sight struct {
	d        *Decoder
	kind     watch.EventType
	line     []byte
	metadata int // where it begins
	next     int // where the next key of it is that was not looked at; 0 if all were
	labels   []byte
	whole    *unstructured.Unstructured // once it was wanted
	broken   bool
	hasty    bool // the keys are known to be in the usual order
	usual    bool // they were, and there were managedFields
	unusual  bool // they were not

	namespace, name, uid, version []byte
}

// Sight looks at the event on the first line of data, and returns how long that
// is. It returns nil if it is no change of an object, not as usual, or perhaps not
// all that is on the line or not all on it: then it has to be decoded.
//
// If lines is set whoever sends it is known to have one event on a line, so that it
// is looked at less closely whether this is one. If hasty is set it is known that they
// have metadata in the order of a Go struct, the namespace before the last of name,
// uid and resourceVersion, and the managedFields after all else. Then less has to be
// looked at.
func (d *Decoder) Sight(data []byte, lines, hasty bool) (*Sight, int) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 || !bytes.HasSuffix(data[:end], []byte("}}")) || !(lines && looksLikeOne(data[:end])) && !d.isWhole(data[:end]) {
		return nil, 0
	}
	d.begin(data[:end])
	s := &d.sight
	*s = Sight{d: d, line: data[:end], hasty: hasty}
	ok := s.look(d)
	d.data = nil
	if !ok || len(s.name) == 0 || len(s.version) == 0 {
		return nil, 0
	}
	return s, end + 1
}

// endOfKey ends the key of an event's object, and begins with a letter that is rare,
// so that it is found fast.
var endOfKey = []byte(`ject"`)

// looksLikeOne says that the key of an event's object is there once. It may be there
// again without a second event. That it is the first line of one that goes on is found
// out on the next, which then begins none: a watch goes on anew from here. (To count
// braces took a twelfth of the time that it takes to pass an event.)
func looksLikeOne(line []byte) bool {
	i := bytes.Index(line, endOfKey)
	return i >= 0 && !bytes.Contains(line[i+len(endOfKey):], endOfKey)
}

// isWhole says whether a line is one value.
func (d *Decoder) isWhole(line []byte) bool {
	d.begin(line)
	return d.pass(0) == len(line)
}

func (s *Sight) look(d *Decoder) bool {
	var i int
	if s.kind, i = d.envelope(); i < 0 || s.kind == watch.Bookmark {
		return false
	}
	i = d.open(i, '{')
	for more := true; i >= 0 && more; {
		var key []byte
		if key, i = d.rawKey(i); i < 0 {
			return false
		}
		if string(key) == "metadata" {
			s.metadata = i
			s.next = d.open(i, '{')
			return s.lookOn(d, s.identified)
		}
		if i = d.pass(i); i >= 0 {
			i, more = d.more(i, '}')
		}
	}
	return false
}

func (s *Sight) identified() bool { return s.name != nil && s.uid != nil && s.version != nil }

// lookOn looks at the metadata from where that was left off, in haste until it is
// enough.
func (s *Sight) lookOn(d *Decoder, enough func() bool) bool {
	i, last, more := s.next, false, true
	for i >= 0 && more {
		if s.next = i; s.hasty && enough() {
			return true
		}
		var key []byte
		if key, i = d.rawKey(i); i < 0 {
			return false
		}
		begin := i
		s.unusual = s.unusual || last
		switch string(key) {
		case "namespace":
			s.unusual = s.unusual || s.identified()
			s.namespace, i = d.rawText(i)
		case "name":
			s.name, i = d.rawText(i)
		case "uid":
			s.uid, i = d.rawText(i)
		case "resourceVersion":
			s.version, i = d.rawText(i)
		case "managedFields":
			if last = s.identified(); last && s.hasty {
				more = false
				continue
			}
			i = d.pass(i)
		case "labels":
			i = d.pass(i)
			s.labels = d.data[begin:max(i, begin)]
		default:
			i = d.pass(i)
		}
		if i >= 0 {
			i, more = d.more(i, '}')
		}
	}
	s.next = 0
	s.usual = last && !s.unusual
	return i >= 0
}

// rawKey returns a key that means what is written, and where its value begins.
func (d *Decoder) rawKey(i int) ([]byte, int) {
	key, i := d.rawText(i)
	if i < 0 {
		return nil, i
	}
	return key, d.colon(i)
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

// pass is skip without a look at what is passed, but for where it ends.
func (d *Decoder) pass(i int) int {
	if i >= len(d.data) {
		return -1
	}
	switch d.data[i] {
	case '"':
		end, _ := d.quoted(i + 1)
		if end < 0 {
			return end
		}
		return end + 1
	case '{', '[':
	default:
		for i < len(d.data) && d.data[i] > ' ' && d.data[i] != ',' && d.data[i] != '}' && d.data[i] != ']' {
			i++
		}
		return i
	}
	for depth := 0; i < len(d.data); i++ {
		switch d.data[i] {
		case '"':
			if i, _ = d.quoted(i + 1); i < 0 {
				return i
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// Order says whether the metadata was seen to be in the order that Sight's hasty
// speaks of, or not to be.
func (s *Sight) Order() (usual, unusual bool) { return s.usual, s.unusual }

func (s *Sight) Type() watch.EventType { return s.kind }

// Identity is what tells the object and its version apart from others, as it is
// written.
func (s *Sight) Identity() (namespace, name, uid, version []byte) {
	return s.namespace, s.name, s.uid, s.version
}

func (s *Sight) text(b []byte) string {
	if s.d == nil || len(b) == 0 {
		return ""
	}
	if len(b) <= longest {
		if e, h := s.d.strings.find(b); e.has(b) || s.d.admit(e, h, b) {
			return e.text
		}
	}
	return string(b)
}

func (s *Sight) GetNamespace() string       { return s.text(s.namespace) }
func (s *Sight) GetName() string            { return s.text(s.name) }
func (s *Sight) GetUID() types.UID          { return types.UID(s.text(s.uid)) }
func (s *Sight) GetResourceVersion() string { return s.text(s.version) }

// GetLabels returns a map of its own.
func (s *Sight) GetLabels() map[string]string {
	if s.d == nil {
		return nil
	}
	if _, some := s.d.meta.keys["labels"]; some {
		return s.object().GetLabels()
	}
	if s.labels == nil && s.next > 0 {
		s.d.begin(s.line)
		if !s.lookOn(s.d, func() bool { return s.labels != nil }) {
			s.broken = true
		}
	}
	if len(s.labels) == 0 || s.broken {
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
		return nil, d.fail(ErrUnlike)
	}
	if !all {
		texts = nil
	}
	return texts, i
}

func (s *Sight) GetGeneration() int64                        { return s.object().GetGeneration() }
func (s *Sight) GetCreationTimestamp() metav1.Time           { return s.object().GetCreationTimestamp() }
func (s *Sight) GetDeletionTimestamp() *metav1.Time          { return s.object().GetDeletionTimestamp() }
func (s *Sight) GetAnnotations() map[string]string           { return s.object().GetAnnotations() }
func (s *Sight) GetFinalizers() []string                     { return s.object().GetFinalizers() }
func (s *Sight) GetOwnerReferences() []metav1.OwnerReference { return s.object().GetOwnerReferences() }

// object has all of the metadata but the managedFields, and what is dropped.
func (s *Sight) object() *unstructured.Unstructured {
	if s.whole == nil {
		s.whole = &unstructured.Unstructured{Object: map[string]any{}}
		if s.d != nil {
			s.d.begin(s.line[s.metadata:])
			m, i := s.d.object(0, s.d.meta, nil)
			if s.d.end(i) != nil {
				s.broken = true
			} else {
				s.whole.Object["metadata"] = m
			}
		}
	}
	return s.whole
}

// Sketch returns an object that has no more than what tells it and its version
// apart from others.
func (s *Sight) Sketch() map[string]any {
	m := map[string]any{"name": s.text(s.name), "uid": s.text(s.uid), "resourceVersion": s.text(s.version)}
	if len(s.namespace) > 0 {
		m["namespace"] = s.text(s.namespace)
	}
	return map[string]any{"metadata": m}
}

// Broken says that something that was asked for could not be read, so that the
// answer was wrong.
func (s *Sight) Broken() bool { return s.broken }

// Forget makes sure that who has kept a Sight against the rules sees nothing.
func (s *Sight) Forget() { *s = Sight{} }
