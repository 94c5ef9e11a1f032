package decode

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"k8s.io/apimachinery/pkg/watch"
)

// scanned is what a scan of an event has found.
type scanned struct {
	data  []byte // the event
	at    int    // it is scanned up to here
	atKey bool   // a key begins there; else a value or the metadata ends there
	alone bool   // the data is an object, not an event
	parts
	namespace, name, uid, version []byte
	ambiguous                     bool // decoders may differ about the kind
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
func (v *MetadataView) event() int {
	var i int
	if v.change, i = v.d.envelope(); i < 0 || v.change == watch.Bookmark {
		return -1
	}
	v.whole.begin = i
	i = v.d.open(i, '{')
	v.at, v.atKey = i, true
	return i
}

// lineEnd returns where the event ends whose object is open at i, if line ends show that. In JSON, a brace that closes,
// a line end, and a brace that opens follow each other only between two events. More than one event may be on the line,
// but then the key "object" is there again. (Letters of keys could be escaped: no encoder does that.)
func (v *MetadataView) lineEnd(i int) (end int, ok bool) {
	data := v.d.data
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
			return 0, false
		}
		line = line[j+1:]
	}
}

// scan reads on from v.at, to the end of the event. With early, it stops once it knows what identifies the object:
// before managedFields, or after the metadata. It returns false if the event must be decoded.
func (v *MetadataView) scan(early bool) bool {
	d := v.d
	for d.data = v.data; ; {
		for !v.atKey { // a value or the metadata ends at v.at
			i, more := d.more(v.at, '}')
			switch v.at = i; {
			case i < 0:
				return false
			case more:
				v.atKey = true
			case !v.inMetadata():
				if v.whole.end = i; !v.alone {
					v.at = d.endOfEvent(i)
				}
				return v.at >= 0
			default:
				if v.metadata.end = i; early {
					return true
				}
			}
		}
		key, i := d.rawText(v.at)
		if i >= 0 {
			i = d.colon(i)
		}
		switch {
		case i < 0:
			return false
		case v.inMetadata():
			if early && v.identified() && string(key) == "managedFields" {
				return true
			}
			v.at, v.atKey = v.metadataField(key, v.at, i), false
		case string(key) != "metadata":
			v.at, v.atKey = v.objectField(key, i), false
		case v.metadata.begin > 0:
			return false // Event decides which of the two counts
		default:
			v.metadata.begin = i
			v.at = d.open(i, '{')
		}
		if v.at < 0 {
			return false
		}
	}
}

func (v *MetadataView) inMetadata() bool { return v.metadata.begin > 0 && v.metadata.end == 0 }

// identified reports whether all that identifies an object in a namespace was found.
func (v *MetadataView) identified() bool {
	return len(v.namespace) > 0 && len(v.name) > 0 && len(v.uid) > 0 && len(v.version) > 0
}

// rest scans what an early end has left. It reports whether the event is valid so far.
func (v *MetadataView) rest() bool {
	if v.whole.end == 0 && !v.broken {
		v.broken = !v.scan(false)
	}
	return !v.broken
}

// objectField notes a field of the object, and returns where its value ends. The value begins at i.
func (v *MetadataView) objectField(key []byte, i int) (end int) {
	end = v.d.skip(i)
	switch {
	case string(key) == "kind" && v.kind == (span{}):
		v.kind = span{i, end}
	case string(key) == "apiVersion" && v.apiVersion == (span{}):
		v.apiVersion = span{i, end}
	case len(key) == 4 && bytes.EqualFold(key, []byte("kind")),
		len(key) == 10 && bytes.EqualFold(key, []byte("apiVersion")):
		v.ambiguous = true
	}
	return end
}

// metadataField notes a field of the metadata, and returns where its value ends. The value begins at i, its key at
// begin.
func (v *MetadataView) metadataField(key []byte, begin, i int) (end int) {
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
		v.labels = span{i, end}
	case "managedFields":
		if v.managedFields.end > 0 {
			return -1
		}
		end = v.d.skip(i)
		v.managedFields = span{begin, end}
	default:
		end = v.d.skip(i)
	}
	return end
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

// classOf says what a byte means to skip, outside of a string.
var classOf = func() (classes [256]class) {
	classes['"'], classes['{'], classes['['], classes['}'], classes[']'] = quote, opens, opens, closes, closes
	for _, c := range ", \n\r\t" {
		classes[c] = separates
	}
	return classes
}()

type class uint8

const (
	_ class = iota
	quote
	opens
	closes
	separates
)

// skip returns where the value that begins at i ends. It does not check the value.
func (d *Decoder) skip(i int) int {
	data := d.data
	for depth := 0; i < len(data); i++ {
		switch classOf[data[i]] {
		case quote:
			if i = textEnd(data, i+1); depth == 0 && i < len(data) {
				return i + 1
			}
		case opens:
			depth++
		case closes:
			if depth--; depth < 0 {
				return i
			} else if depth == 0 {
				return i + 1
			}
		case separates:
			if depth == 0 {
				return i
			}
		}
	}
	return d.fail(ErrShort)
}

// textEnd returns the position of the closing quote of the string whose content begins at i, or at least len(data) if
// there is none. Most strings are short, so it compares words, and calls nothing.
func textEnd(data []byte, i int) int {
	for i+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[i:])
		end, escape := x^each*'"', x^each*'\\'
		found := ((end-each)&^end | (escape-each)&^escape) & high
		if found == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(found) >> 3; data[i] == '"' {
			return i
		}
		i += 2
	}
	for ; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}
