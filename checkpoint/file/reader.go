package file

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// reader takes texts from the next bytes of a file, and sums all that it takes.
type reader struct {
	in   *bufio.Reader
	left int64 // bytes that may be taken
	sum  uint32
	bad  bool  // a text was incomplete or too long
	err  error // from the file
}

// buffered reads a file from an offset up to another.
func buffered(f io.ReaderAt, from, to int64) *bufio.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(f, from, to-from), chunkSize)
}

// text takes a text with its length. The result is valid until the next call.
func (r *reader) text(longest int64) []byte {
	n, size := r.peekLength()
	if r.bad = r.bad || n > longest; r.bad {
		return nil
	}
	return r.take(size + n)[size:]
}

// length takes the length of a text that follows.
func (r *reader) length() int64 {
	n, size := r.peekLength()
	r.take(size)
	return n
}

// peekLength returns the length of the next text, and how many bytes the length has.
func (r *reader) peekLength() (n, size int64) {
	b, _ := r.in.Peek(int(min(r.left, binary.MaxVarintLen64)))
	length, bytes := binary.Uvarint(b)
	if r.bad = r.bad || bytes <= 0 || length > uint64(r.left-int64(bytes)); r.bad {
		return 0, 0
	}
	return int64(length), int64(bytes)
}

// take takes n of the bytes that are left, all of which are then in memory. It always returns n bytes.
func (r *reader) take(n int64) []byte {
	b, err := r.in.Peek(int(n))
	if err == bufio.ErrBufferFull {
		b = make([]byte, n)
		_, err = io.ReadFull(r.in, b)
	} else if err == nil {
		_, err = r.in.Discard(int(n))
	}
	if err != nil {
		r.bad, r.err = true, cmp.Or(r.err, err)
		return make([]byte, n)
	}
	r.left -= n
	r.sum = crc32.Update(r.sum, castagnoli, b)
	return b
}

// skip takes n of the bytes that are left.
func (r *reader) skip(n int64) {
	for n > 0 && r.err == nil {
		some := min(n, chunkSize/2)
		r.take(some)
		n -= some
	}
}

// object takes an object, and encodes it again, because a length can be written in several ways. It reuses b. The first
// n bytes of the result identify the object. An object that is gone has no others.
func (r *reader) object(b []byte) (encoded []byte, n int) {
	b = appendText(b[:0], r.text(maxText))
	b = appendText(b, r.text(maxText))
	uid := r.text(maxText)
	switch {
	case len(uid) > 0 && uid[0] == 0:
		_, usual := parseUID(types.UID(uid[1:]))
		r.bad = r.bad || usual
	case len(uid) != 17 || uid[0] != 1:
		r.bad = true
	}
	b = appendText(b, uid)
	n = len(b)
	if version := r.text(maxText); len(version) > 0 {
		r.bad = r.bad || version[0] != 0
		b = appendText(b, version)
	}
	return b, n
}

// saved is the JSON text of a section. Unknown fields are refused, so that a new field needs a new format.
type saved struct {
	Identity         checkpoint.Identity `json:"identity"`
	ResourceVersions map[string]string   `json:"resourceVersions,omitempty"`
	Partial          bool                `json:"partial,omitempty"`
	Rewound          bool                `json:"rewound,omitempty"`
	Unclean          bool                `json:"unclean,omitempty"`
	Committed        time.Time           `json:"committed"`
}

func decodeSaved(text []byte) (s saved, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil {
		return s, false
	}
	_, err := d.Token()
	return s, err == io.EOF
}

// decode decodes an object that reader.object has encoded.
func decode(id, version string) checkpoint.Object {
	namespace, id := cut(id)
	name, id := cut(id)
	uid, _ := cut(id)
	version, _ = cut(version)
	o := checkpoint.Object{Namespace: namespace, Name: name, UID: types.UID(uid[1:]), ResourceVersion: version[1:]}
	if uid[0] == 1 {
		o.UID = types.UID(uuid.UUID([]byte(uid[1:])).String())
	}
	return o
}

// cut splits s after its first text.
func cut(s string) (text, rest string) {
	n, size := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	return s[size:][:n], s[size:][n:]
}
