package decode

import (
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ProtobufLister decodes a PartialObjectMetadataList while it arrives. Until the list is decoded, its Protobuf must not
// be used for anything else.
type ProtobufLister struct {
	p    *Protobuf
	list unstructured.UnstructuredList
	at   int   // what is before is decoded
	end  int   // of the list, which is followed by the rest of its runtime.Unknown; 0 if it is not known yet
	took int64 // the memory of what is decoded
	all  bool  // all data is decoded
}

// Lister returns a ProtobufLister for the next list.
func (p *Protobuf) Lister() *ProtobufLister { return &ProtobufLister{p: p} }

// The fields of a PartialObjectMetadataList.
const (
	listMetadata = 1<<3 | 2
	listItems    = 2<<3 | 2
)

// Decode decodes as much as possible of data, which is everything that has arrived so far. Its errors are those of
// Lister.Decode.
func (l *ProtobufLister) Decode(data []byte) error {
	p := l.p.meta.parser
	p.in.begin(nil)
	p.in.memory, l.all = l.took, false
	return p.end(l.decode(data))
}

func (l *ProtobufLister) decode(data []byte) int {
	in := &l.p.meta.parser.in
	if l.end == 0 {
		n := len(metadataListPrefix)
		if len(data) < n && strings.HasPrefix(metadataListPrefix, string(data)) {
			return in.fail(ErrShort)
		}
		if !hasPrefix(data, metadataListPrefix) {
			return in.fail(ErrDeclined)
		}
		tag, size, begin := l.header(data, n)
		switch {
		case begin < 0:
			return -1
		case tag != unknownRaw || size > maxList:
			return in.fail(ErrDeclined)
		}
		l.at, l.end = begin, begin+int(size)
	}
	for l.at < l.end {
		if l.part(data) < 0 {
			return -1
		}
	}
	for l.at < len(data) { // contentEncoding and contentType, which apimachinery ignores
		tag, size, begin := l.header(data, l.at)
		switch {
		case begin < 0:
			return -1
		case tag != 3<<3|2 && tag != 4<<3|2:
			return in.fail(ErrDeclined)
		case size > uint64(len(data)-begin):
			return in.fail(ErrShort)
		}
		l.at = begin + int(size)
	}
	l.all = true
	return l.at
}

// maxList is how many bytes a list may have. A client refuses shorter ones.
const maxList = 1 << 30

// header returns the tag of the field of bytes that begins at i, their number, and where they begin, which is negative
// if they don't.
func (l *ProtobufLister) header(data []byte, i int) (tag, size uint64, begin int) {
	tag, begin = varint(data, i)
	if begin >= 0 {
		size, begin = varint(data, begin)
	}
	switch {
	case begin >= 0 && tag&7 == 2:
		return tag, size, begin
	case begin < 0 && len(data)-i < 2*binary.MaxVarintLen64:
		return 0, 0, l.p.meta.parser.in.fail(ErrShort)
	}
	return 0, 0, l.p.meta.parser.in.fail(ErrDeclined)
}

// part decodes the next field of the list, and moves on to the one after it. It returns a negative number if it fails.
func (l *ProtobufLister) part(data []byte) int {
	in := &l.p.meta.parser.in
	tag, size, begin := l.header(data, l.at)
	switch {
	case begin < 0:
		return -1
	case begin > l.end || size > uint64(l.end-begin):
		return in.fail(ErrDeclined)
	case size > MaxObject:
		return in.fail(ErrTooLarge)
	case size > uint64(len(data)-begin):
		return in.fail(ErrShort)
	}
	content := data[begin : begin+int(size)]
	switch {
	case tag == listMetadata && l.list.Object == nil:
		m := l.p.listMetadata(content)
		if m == nil {
			return in.fail(ErrDeclined)
		}
		l.list.Object = map[string]any{"apiVersion": metadataVersion, "kind": metadataListKind, "metadata": m}
		l.list.Items = []unstructured.Unstructured{}
	case tag == listItems && l.list.Object != nil:
		metadata, ok := onlyMetadata(content)
		if !ok {
			return in.fail(ErrDeclined)
		}
		o, _ := l.p.meta.object(metadata)
		if o == nil {
			return -1
		}
		l.list.Items = append(l.list.Items, unstructured.Unstructured{Object: o})
		l.p.meta.parser.own.finish(true)
	default:
		return in.fail(ErrDeclined)
	}
	l.at, l.took = begin+len(content), in.memory
	return l.at
}

// listMetadata returns the map of a ListMeta, or nil if it is unusual.
func (p *Protobuf) listMetadata(b []byte) map[string]any {
	m, last := map[string]any{}, uint64(0)
	for i := 0; i < len(b); {
		tag, value, content, end := nextField(b, i)
		if end < 0 || tag <= last {
			return nil
		}
		i, last = end, tag
		switch tag {
		case 1<<3 | 2, 2<<3 | 2, 3<<3 | 2:
			if len(content) > 0 {
				m[[...]string{1: "selfLink", "resourceVersion", "continue"}[tag>>3]] = string(content)
			}
		case 4 << 3:
			m["remainingItemCount"] = int64(value)
		default:
			return nil
		}
	}
	return m
}

// Undecoded returns how many of the bytes that have arrived are not decoded.
func (l *ProtobufLister) Undecoded(arrived int) int { return arrived - l.at }

// List returns the decoded list, or ErrShort if it is not complete.
func (l *ProtobufLister) List() (*unstructured.UnstructuredList, []Raw, error) {
	switch {
	case !l.all:
		return nil, nil, ErrShort
	case l.list.Object == nil:
		return nil, nil, ErrDeclined
	}
	return &l.list, nil, nil
}
