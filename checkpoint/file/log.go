package file

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// The file is a line of text, a head, and records. The first record is a snapshot, written before the file gets its
// name; each of the others is a commit. A record is
//
//	8 bytes  length of the payload
//	4 bytes  checksum of the payloads of all records up to this one
//	4 bytes  checksum of these 12 bytes
//	payload  sections
//
// with little-endian numbers and CRC-32C checksums. A section is a commit's change to one checkpoint. It has three
// texts: the key, the checkpoint without objects as JSON (see saved), and the objects that were put or are gone. An
// empty JSON text deletes the checkpoint (if it was reset, the next section starts it again). An object has four texts:
// namespace, name, uid (a 1 and the 16 bytes of a UUID, or a 0 and any other uid), and version (a 0 and the version;
// empty if the object is gone). A text begins with its length as a uvarint.
//
// The head looks like the first 16 bytes of a record: in the place of the length the size that the file had on disk
// when the head was written, and in the place of the payloads' checksum a 1 if the file is Unclean (see
// Store.MarkUnclean), else a 0. It is overwritten in place, within one sector.
const (
	format     = 3 // the one that this version reads and writes; no release had formats 1 and 2
	firstLine  = "gvrwatch checkpoint format 3\n"
	headerSize = 16
	recordsAt  = int64(len(firstLine) + headerSize) // the offset of the first record
	sectorSize = 512                                // the smallest unit that a disk writes
	pageSize   = 4096                               // and the smallest hole in a sparse file

	// A damaged or sparse file must not take much memory.
	maxKey    = 1 << 10  // bytes of a key, which has one at least
	maxText   = 16 << 20 // bytes of any other text, except that of all objects
	chunkSize = 64 << 10 // that is read at once
)

// maxFile is the size of a file of 40 million objects, half of it commits. A larger sparse file would take minutes to
// read. Tests replace it.
var maxFile int64 = 8 << 30

var slack int64 = 1 << 20 // by how much the commits may be longer than the snapshot; tests replace it

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// damaged is an error about the contents of a file.
type damaged struct {
	what string
	key  string // of the checkpoint that is damaged; empty: the file is
}

func (d damaged) Error() string {
	if d.key == "" {
		return d.what + ": restore a copy of the file, or move it away to start from the beginning"
	}
	return fmt.Sprintf("checkpoint %q: %s: delete the checkpoint (Store.Delete, gvrwatch checkpoint reset), "+
		"or restore a copy of the file", d.key, d.what)
}

const (
	unknown = "unknown contents with valid checksums"
	rotten  = "it was changed while the file was open"
)

var errChanged = damaged{what: "the file was changed, cut off or replaced while it was open"}

// log describes a file's records. It holds no objects.
type log struct {
	size  int64  // of the first line and the records: the offset of the next record
	last  int64  // offset of the last record
	limit int64  // if size exceeds it, the next commit writes a snapshot first
	sum   uint32 // checksum of the payloads of all records
	torn  bool   // an incomplete record follows
	keys  map[string][]section
}

// section is the place of a section in the file, without its key.
type section struct {
	at, length    int64
	before, after uint32 // checksum of all payloads up to the section, and up to its end
}

func appendHeader(b []byte, length int64, sum uint32) []byte {
	n := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	b = binary.LittleEndian.AppendUint32(b, sum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// header reads the header of a record, if b begins with one.
func header(b []byte) (length int64, sum uint32, ok bool) {
	if len(b) < headerSize || binary.LittleEndian.Uint64(b) > uint64(maxFile) ||
		crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, 0, false
	}
	return int64(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint32(b[8:]), true
}

// head is what stands before the records.
type head struct {
	synced  int64 // the size of the file that was on disk when the head was written: a shorter file was cut off
	unclean bool
}

func (h head) encode() []byte {
	sum := uint32(0)
	if h.unclean {
		sum = 1
	}
	return appendHeader(nil, h.synced, sum)
}

func decodeHead(b []byte) (h head, ok bool) {
	synced, sum, ok := header(b)
	return head{synced, sum == 1}, ok && sum <= 1
}

// parse reads the records of a file whose first line and head have been checked.
func parse(f io.ReaderAt, size int64) (log, error) {
	l := log{size: recordsAt, keys: map[string][]section{}}
	in := buffered(f, l.size, size)
	for l.last == 0 || l.size < size {
		b, err := in.Peek(headerSize)
		length, sum, ok := header(b)
		if ok = ok && length <= size-l.size-headerSize; ok {
			_, _ = in.Discard(headerSize)
			ok, err = l.add(in, length, sum)
		} else if err == io.EOF {
			err = nil
		}
		if !ok && err == nil {
			if l.torn, err = isTorn(f, l.size, size); l.torn && l.last > 0 {
				break
			}
			err = cmp.Or[error](err, damaged{what: fmt.Sprintf(
				"invalid record at byte %d of %d: must fit its checksums", l.size, size)})
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// isTorn reports whether the invalid record at an offset may be an incomplete write: it is cut short, or one of its
// sectors is zeros, and no record follows.
func isTorn(f io.ReaderAt, at, size int64) (bool, error) {
	in := buffered(f, at, size)
	b, err := in.Peek(headerSize)
	if err == io.EOF {
		return true, nil
	}
	length, _, _ := header(b)
	end := at + headerSize + length
	torn := end > size
	for from := at; from < end && !torn && err == nil; {
		b, err = in.Peek(int(min(end-from, sectorSize-from%sectorSize)))
		torn = isZero(b)
		from += int64(len(b))
		_, _ = in.Discard(len(b))
	}
	if !torn || err != nil {
		return false, err
	}
	for in = buffered(f, at+1, size); err == nil; {
		b, err = in.Peek(pageSize)
		for i := 0; i <= len(b)-headerSize; i++ {
			if _, _, ok := header(b[i:]); ok {
				return false, nil
			} else if i == 0 && isZero(b) { // no header has zeros only; without this, a large hole takes minutes
				break
			}
		}
		_, _ = in.Discard(max(0, len(b)-headerSize+1))
	}
	if err == io.EOF {
		err = nil
	}
	return err == nil, err
}

func isZero(b []byte) bool { return bytes.Count(b, []byte{0}) == len(b) }

// add reads the payload of the next record. It is not ok if the checksum is another one: then nothing is added.
func (l *log) add(in *bufio.Reader, length int64, sum uint32) (ok bool, err error) {
	type change struct {
		key     string
		section // of no length if the checkpoint is deleted
	}
	var changes []change
	start, r := l.size+headerSize, reader{in: in, left: length, sum: l.sum}
	for r.left > 0 && !r.bad {
		c := change{key: string(r.text(maxKey))}
		c.at, c.before = start+length-r.left, r.sum
		text := r.length()
		r.skip(text)
		r.skip(r.length())
		if text > 0 {
			c.length, c.after = start+length-r.left-c.at, r.sum
		}
		r.bad = r.bad || c.key == ""
		changes = append(changes, c)
	}
	r.skip(r.left)
	switch {
	case r.err != nil || r.sum != sum:
		return false, r.err
	case r.bad:
		return true, damaged{what: unknown}
	}
	for _, c := range changes {
		if c.length == 0 {
			delete(l.keys, c.key)
		} else {
			l.keys[c.key] = append(l.keys[c.key], c.section)
		}
	}
	if l.last == 0 {
		l.limit = start + 2*length + slack
	}
	l.last, l.size, l.sum = l.size, start+length, sum
	return true, nil
}

func appendSection(b []byte, key string, text, objects []byte) []byte {
	return appendText(appendText(appendText(b, key), text), objects)
}

func appendID(b []byte, o checkpoint.Object) []byte {
	uid := "\x00" + string(o.UID)
	if u, ok := parseUID(o.UID); ok {
		uid = "\x01" + string(u[:])
	}
	return appendText(appendText(appendText(b, o.Namespace), o.Name), uid)
}

// parseUID returns the bytes of a usual uid.
func parseUID(uid types.UID) (uuid.UUID, bool) {
	u, err := uuid.Parse(string(uid))
	return u, err == nil && u.String() == string(uid)
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
