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
	metadata []byte // from its bracket on
	labels   []byte
	whole    *unstructured.Unstructured // once it was wanted
	broken   bool
	hasty    bool // what may follow the managedFields is not looked for
	unusual  bool // something did

	namespace, name, uid, version []byte
}

// Sight looks at the event on the first line of data, and returns how long that
// is. It returns nil if it is no change of an object, not as usual, or perhaps not
// all that is on the line or not all on it: then it has to be decoded. If usual is
// set it is known that whoever sends it has one event on a line, and whether the
// managedFields are the last of an object's metadata, as they are of what is encoded
// from Go structs: then less has to be looked at.
func (d *Decoder) Sight(data []byte, usual bool) (*Sight, int) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 || !bytes.HasSuffix(data[:end], []byte("}}")) || !usual && !d.isWhole(data[:end]) {
		return nil, 0
	}
	d.begin(data[:end])
	s := &d.sight
	*s = Sight{d: d, hasty: usual}
	i := s.look(d)
	d.data = nil
	if i < 0 || len(s.name) == 0 || len(s.version) == 0 {
		return nil, 0
	}
	return s, end + 1
}

// isWhole says whether a line is one value.
func (d *Decoder) isWhole(line []byte) bool {
	d.begin(line)
	return d.pass(0) == len(line)
}

func (s *Sight) look(d *Decoder) (i int) {
	if s.kind, i = d.envelope(); i < 0 {
		return i
	}
	if s.kind == watch.Bookmark {
		return -1
	}
	if i = d.open(i, '{'); i < 0 {
		return i
	}
	for more := true; more; {
		var key []byte
		if key, i = d.rawKey(i); i < 0 {
			return i
		}
		if string(key) == "metadata" {
			s.metadata = d.data[i:]
			return s.lookInto(d, i)
		}
		if i = d.pass(i); i < 0 {
			return i
		}
		if i, more = d.more(i, '}'); i < 0 {
			return i
		}
	}
	return -1
}

func (s *Sight) lookInto(d *Decoder, i int) int {
	last := false
	if i = d.open(i, '{'); i < 0 {
		return i
	}
	for more := true; more; {
		var key []byte
		if key, i = d.rawKey(i); i < 0 {
			return i
		}
		begin := i
		s.unusual = s.unusual || last
		if last = string(key) == "managedFields" && s.uid != nil && s.version != nil && s.name != nil; last && s.hasty {
			return i
		}
		switch string(key) {
		case "namespace":
			s.namespace, i = d.rawText(i)
		case "name":
			s.name, i = d.rawText(i)
		case "uid":
			s.uid, i = d.rawText(i)
		case "resourceVersion":
			s.version, i = d.rawText(i)
		case "labels":
			i = d.pass(i)
			s.labels = d.data[begin:max(i, begin)]
		default:
			i = d.pass(i)
		}
		if i < 0 {
			return i
		}
		if i, more = d.more(i, '}'); i < 0 {
			return i
		}
	}
	return i
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

// Usual says whether whoever sent this may be expected to do so again as Sight's
// usual says.
func (s *Sight) Usual() bool { return !s.unusual }

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
	if s.d == nil || len(s.labels) == 0 {
		return nil
	}
	s.d.begin(s.labels)
	m, i := s.d.object(0, nil, nil)
	if s.d.end(i) != nil {
		s.broken = true
		return nil
	}
	labels := make(map[string]string, len(m))
	for k, v := range m {
		text, ok := v.(string)
		if !ok {
			return nil
		}
		labels[k] = text
	}
	return labels
}

func (s *Sight) GetGeneration() int64                        { return s.object().GetGeneration() }
func (s *Sight) GetCreationTimestamp() metav1.Time           { return s.object().GetCreationTimestamp() }
func (s *Sight) GetDeletionTimestamp() *metav1.Time          { return s.object().GetDeletionTimestamp() }
func (s *Sight) GetAnnotations() map[string]string           { return s.object().GetAnnotations() }
func (s *Sight) GetFinalizers() []string                     { return s.object().GetFinalizers() }
func (s *Sight) GetOwnerReferences() []metav1.OwnerReference { return s.object().GetOwnerReferences() }

var noManagedFields = prune(Options{Drop: [][]string{{"managedFields"}}})

// object has all of the metadata but the managedFields.
func (s *Sight) object() *unstructured.Unstructured {
	if s.whole == nil {
		s.whole = &unstructured.Unstructured{Object: map[string]any{}}
		if s.d != nil {
			s.d.begin(s.metadata)
			m, i := s.d.object(0, noManagedFields, nil)
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
