package decode

import (
	"bytes"

	"k8s.io/apimachinery/pkg/watch"
)

// scan finds what identifies the object of an event, and where parts of it are.
type scan struct {
	in        *input
	data      []byte // the event
	at        int    // it is scanned up to here
	atKey     bool   // a key begins there; else a value or the metadata ends there
	alone     bool   // the data is an object, not an event
	line      bool   // the data is a line: its end has shown where the event ends
	ambiguous bool   // decoders may differ about the kind
	parts     parts
	id        identity
}

// identity is what identifies an object and its state, without quotes. It is empty where it was not found.
type identity struct{ namespace, name, uid, version []byte }

// complete reports whether all that identifies an object in a namespace was found.
func (id *identity) complete() bool {
	return len(id.namespace) > 0 && len(id.name) > 0 && len(id.uid) > 0 && len(id.version) > 0
}

// parts are where parts of the object are.
type parts struct {
	whole            span // the object; its end is 0 before all is scanned
	apiVersion, kind span // with quotes
	metadata         span // its end is 0 before all of it is scanned
	labels           span
	managedFields    span // with the key
}

// span is a part of the data.
type span struct{ begin, end int }

func (s span) of(data []byte) []byte { return data[s.begin:s.end] }

// event reads the type of the event, and returns where the object's first key begins.
func (s *scan) event() (change watch.EventType, i int) {
	if change, i = s.in.envelope(); i < 0 || change == watch.Bookmark {
		return change, -1
	}
	return change, s.object(i)
}

// object begins with the object at i, and returns where its first key begins.
func (s *scan) object(i int) int {
	s.parts.whole.begin = i
	s.at, s.atKey = s.in.open(i, '{'), true
	return s.at
}

// lineEnd returns where the event ends whose object is open at i, if line ends show that. In JSON, a brace that closes,
// a line end, and a brace that opens follow each other only between two events. More than one event may be on the line,
// but then the key "object" is there again. (Letters of keys could be escaped: no encoder does that.) As a value,
// "object" is common: schemas have it.
func (s *scan) lineEnd(i int) (end int, ok bool) {
	data := s.in.data
	if i < 0 {
		return 0, false
	}
	n := bytes.IndexByte(data[i:], '\n')
	if n < 0 || i+n+1 >= len(data) || data[i+n-1] != '}' || data[i+n+1] != '{' {
		return 0, false
	}
	for line := data[i : i+n]; ; {
		j := bytes.IndexByte(line, 'j') // a rare letter: most objects have few
		switch {
		case j < 0:
			return i + n, true
		case j >= 3 && bytes.HasPrefix(line[j-3:], []byte(`"object"`)):
			if after := bytes.TrimLeft(line[j-3+len(`"object"`):], " \t\r"); bytes.HasPrefix(after, []byte(":")) {
				return 0, false
			}
		}
		line = line[j+1:]
	}
}

// Extent is how far an event is scanned.
type Extent int

const (
	ToEnd      Extent = iota // of the event
	ToMetadata               // to the end of the metadata
	ToManaged                // before managedFields if what identifies the object is known by then, else ToMetadata
	ToIdentity               // until what identifies the object is known, else ToMetadata
)

// run scans on from s.at. It returns false if the event must be decoded.
func (s *scan) run(to Extent) bool {
	in := s.in
	for in.data = s.data; ; {
		for !s.atKey { // a value or the metadata ends at s.at
			i, more := in.more(s.at, '}')
			switch s.at = i; {
			case i < 0:
				return false
			case more:
				s.atKey = true
			case !s.inMetadata():
				if s.parts.whole.end = i; !s.alone {
					s.at = in.endOfEvent(i)
				}
				return s.at >= 0
			default:
				if s.parts.metadata.end = i; to != ToEnd {
					return true
				}
			}
		}
		key, i := in.rawText(s.at)
		if i >= 0 {
			i = in.colon(i)
		}
		switch {
		case i < 0:
			return false
		case s.inMetadata():
			if to >= ToManaged && s.id.complete() && (to == ToIdentity || string(key) == "managedFields") {
				return true
			}
			s.at, s.atKey = s.metadataField(key, s.at, i), false
		case string(key) != "metadata":
			s.at, s.atKey = s.objectField(key, i), false
		case s.parts.metadata.begin > 0:
			return false // Event decides which of the two counts
		default:
			s.parts.metadata.begin = i
			s.at = in.open(i, '{')
		}
		if s.at < 0 {
			return false
		}
	}
}

// cut takes all of a line but its last brace for the object, unless the object has to be scanned. It scans the metadata
// to its end if managedFields are to be dropped. It returns false if the event must be decoded.
func (s *scan) cut(dropManagedFields bool) bool {
	end := len(s.data) - 1
	switch {
	case !s.line || s.data[end-1] != '}' || s.parts.apiVersion.end == 0 || s.parts.kind.end == 0:
		return true
	case dropManagedFields && s.parts.metadata.end == 0 && !s.run(ToMetadata):
		return false
	}
	s.parts.whole.end, s.at = end, end+1
	return true
}

// isLine reports whether a scanned event is a line that ends with the object and one brace.
func (s *scan) isLine() bool {
	switch {
	case s.parts.whole.end+1 != s.at:
		return false
	case s.line:
		return s.at == len(s.data)
	}
	return bytes.IndexByte(s.data, '\n') == s.at
}

func (s *scan) inMetadata() bool { return s.parts.metadata.begin > 0 && s.parts.metadata.end == 0 }

// objectField notes a field of the object, and returns where its value ends. The value begins at i.
func (s *scan) objectField(key []byte, i int) (end int) {
	end = s.in.skip(i)
	switch {
	case string(key) == "kind" && s.parts.kind == (span{}):
		s.parts.kind = span{i, end}
	case string(key) == "apiVersion" && s.parts.apiVersion == (span{}):
		s.parts.apiVersion = span{i, end}
	case len(key) == 4 && bytes.EqualFold(key, []byte("kind")),
		len(key) == 10 && bytes.EqualFold(key, []byte("apiVersion")):
		s.ambiguous = true
	}
	return end
}

// metadataField notes a field of the metadata, and returns where its value ends. The value begins at i, its key at
// begin.
func (s *scan) metadataField(key []byte, begin, i int) (end int) {
	switch string(key) {
	case "namespace":
		s.id.namespace, end = s.in.rawText(i)
	case "name":
		s.id.name, end = s.in.rawText(i)
	case "uid":
		s.id.uid, end = s.in.rawText(i)
	case "resourceVersion":
		s.id.version, end = s.in.rawText(i)
	case "labels":
		end = s.in.skip(i)
		s.parts.labels = span{i, end}
	case "managedFields":
		if s.parts.managedFields.end > 0 {
			return -1
		}
		end = s.in.skip(i)
		s.parts.managedFields = span{begin, end}
	default:
		end = s.in.skip(i)
	}
	return end
}

// unquoted returns a string without escapes. It returns nil if the value is none.
func (s *scan) unquoted(value span) []byte {
	in := input{data: s.data[:value.end]}
	text, _ := in.rawText(value.begin)
	return text
}

// json returns a copy of the object, without managedFields if they are to be dropped.
func (s *scan) json(dropManagedFields bool) []byte {
	whole, managed := s.parts.whole, s.parts.managedFields
	if managed.end == 0 || !dropManagedFields {
		json := make([]byte, whole.end-whole.begin) // bytes.Clone would clear its spare capacity
		copy(json, whole.of(s.data))
		return json
	}
	cut := managed.withComma(s.data)
	json := make([]byte, 0, whole.end-whole.begin-(cut.end-cut.begin))
	json = append(json, s.data[whole.begin:cut.begin]...)
	return append(json, s.data[cut.end:whole.end]...)
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
