package decode

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// Protobuf decodes events and lists of PartialObjectMetadata from protobuf into the maps that JSON decoding makes of
// them, without managedFields. It declines everything but what a kube-apiserver writes: then apimachinery's generated
// decoder has to decode it. Like a Decoder, it is not for concurrent use.
type Protobuf struct {
	meta metadataParser
	view MetadataView
}

// NewProtobuf returns a decoder of protobuf.
func NewProtobuf() *Protobuf { return &Protobuf{meta: metadataParser{New(true).parser}} }

// The fields of messages: their number, times 8, and their wire type, 0 for a varint or 2 for bytes.
const (
	eventType      = 1<<3 | 2
	eventObject    = 2<<3 | 2
	extensionRaw   = 1<<3 | 2
	unknownRaw     = 2<<3 | 2
	objectMetadata = 1<<3 | 2
)

const (
	metadataVersion  = "meta.k8s.io/v1"
	metadataKind     = "PartialObjectMetadata"
	metadataListKind = "PartialObjectMetadataList"

	// What an object begins with: the magic number of Kubernetes, and a runtime.Unknown with apiVersion and kind.
	metadataPrefix     = "k8s\x00\x0a\x27\x0a\x0e" + metadataVersion + "\x12\x15" + metadataKind
	metadataListPrefix = "k8s\x00\x0a\x2b\x0a\x0e" + metadataVersion + "\x12\x19" + metadataListKind
)

// LengthSize is how many bytes before each frame of a watch have its length, the highest byte first.
const LengthSize = 4

// Event decodes the event that data begins with, and returns its length.
func (p *Protobuf) Event(data []byte) (Event, int, error) {
	kind, metadata, n := p.event(data)
	ev := Event{Type: kind}
	if n >= 0 {
		if ev.Object, ev.Version = p.meta.object(metadata); ev.Object == nil {
			n = -1
		}
	}
	ev.Memory = p.meta.parser.in.memory
	return ev, n, p.meta.parser.end(n)
}

// event returns the type of the event that data begins with, the ObjectMeta in it, and its length.
func (p *Protobuf) event(data []byte) (kind watch.EventType, metadata []byte, n int) {
	in := &p.meta.parser.in
	in.begin(nil)
	if len(data) < LengthSize {
		return "", nil, in.fail(ErrShort)
	}
	size := uint64(binary.BigEndian.Uint32(data))
	if size > uint64(len(data)-LengthSize) {
		return "", nil, in.fail(ErrShort)
	}
	n = LengthSize + int(size)
	text, object, ok := pair(data[LengthSize:n], eventType, eventObject)
	if !ok {
		return "", nil, in.fail(ErrDeclined)
	}
	for _, t := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark} {
		if string(text) == string(t) { // a conversion of the text would allocate
			kind = t
		}
	}
	if metadata, ok = metadataIn(object); !ok || kind == "" {
		return "", nil, in.fail(ErrDeclined)
	}
	return kind, metadata, n
}

// metadataIn returns the ObjectMeta in the object of an event, a runtime.RawExtension.
func metadataIn(object []byte) (metadata []byte, ok bool) {
	tag, _, raw, end := nextField(object, 0)
	if tag != extensionRaw || end != len(object) || !hasPrefix(raw, metadataPrefix) {
		return nil, false
	}
	tag, _, object, end = nextField(raw, len(metadataPrefix))
	if tag != unknownRaw || end < 0 || endOfUnknown(raw, end) != len(raw) {
		return nil, false
	}
	return onlyMetadata(object)
}

// onlyMetadata returns the ObjectMeta of a PartialObjectMetadata.
func onlyMetadata(object []byte) (metadata []byte, ok bool) {
	tag, _, metadata, end := nextField(object, 0)
	return metadata, tag == objectMetadata && end == len(object)
}

// endOfUnknown skips contentEncoding and contentType, which apimachinery ignores.
func endOfUnknown(b []byte, i int) int {
	for i >= 0 && i < len(b) {
		tag, _, _, end := nextField(b, i)
		if tag != 3<<3|2 && tag != 4<<3|2 || end < 0 {
			return i
		}
		i = end
	}
	return i
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// pair returns the contents of a message with two fields, in this order.
func pair(b []byte, first, second uint64) (x, y []byte, ok bool) {
	tag, _, x, i := nextField(b, 0)
	if tag != first || i < 0 {
		return nil, nil, false
	}
	tag, _, y, i = nextField(b, i)
	return x, y, tag == second && i == len(b)
}

// nextField returns the field that begins at i, a varint or bytes, and where it ends. The end is negative if there is
// no such field.
func nextField(b []byte, i int) (tag, value uint64, content []byte, end int) {
	if i+1 < len(b) && b[i] < 0x80 && b[i+1] < 0x80 { // most are that short
		tag, value, i = uint64(b[i]), uint64(b[i+1]), i+2
	} else if tag, i = varint(b, i); i < 0 {
		return 0, 0, nil, -1
	} else if value, i = varint(b, i); i < 0 {
		return 0, 0, nil, -1
	}
	switch tag & 7 {
	case 0:
		return tag, value, nil, i
	case 2:
		if value <= uint64(len(b)-i) {
			end = i + int(value)
			return tag, value, b[i:end:end], end
		}
	}
	return 0, 0, nil, -1
}

// varint returns the number that begins at i, and where it ends, which is negative if there is none.
func varint(b []byte, i int) (uint64, int) {
	v, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}

// object returns the object with an ObjectMeta, or nil if that is declined, and its identity.
func (p metadataParser) object(metadata []byte) (map[string]any, objects.Version) {
	m, id := p.metadata(metadata)
	if m == nil || p.parser.in.take(size.Map(3), 0) < 0 {
		p.parser.in.fail(ErrDeclined)
		return nil, id
	}
	return map[string]any{"apiVersion": metadataVersion, "kind": metadataKind, "metadata": m}, id
}

// MemoryOfProtobuf returns how much memory a message of n bytes takes at most, decoded by apimachinery and converted
// into maps: an owner reference of two bytes is a struct and a map.
func MemoryOfProtobuf(n int) int64 { return int64(n) * 256 }

// Metadata returns a view of the metadata in the event that data begins with, and the event's length. It returns nil if
// the event must be decoded.
func (p *Protobuf) Metadata(data []byte, _ Extent) (*MetadataView, int) {
	kind, metadata, n := p.event(data)
	v := &p.view
	*v = MetadataView{parser: p.meta.parser, change: kind, protobuf: metadata}
	var m objectMeta
	if n < 0 || kind == watch.Bookmark || !m.read(metadata) {
		return nil, 0
	}
	id := &v.scan.id
	id.namespace, id.name = m.bytes[metaNamespace>>3], m.bytes[metaName>>3]
	id.uid, id.version = m.bytes[metaUID>>3], m.bytes[metaVersion>>3]
	if len(id.name) == 0 || len(id.version) == 0 {
		return nil, 0
	}
	return v, n
}
