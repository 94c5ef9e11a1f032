package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// The file is a line of text, followed by records. The first record is a snapshot, written before the file gets its
// name; each of the others is a commit. A record is
//
//	8 bytes  length of the payload
//	4 bytes  checksum of the payloads of all records up to this one
//	4 bytes  checksum of these 12 bytes
//	payload  sections
//
// with little-endian numbers and CRC-32C checksums. A section is a commit's change to one checkpoint. It has three
// texts: the key, the checkpoint without objects as JSON, and the objects that were put or are gone. An empty JSON text
// deletes the checkpoint (if it was reset, the next section starts it again). An object has four texts: namespace,
// name, uid (a 1 and the 16 bytes of a UUID, or a 0 and any other uid), and version (a 0 and the version; empty if the
// object is gone). A text begins with its length as a uvarint.
const (
	format     = 1 // the newest that this version reads
	firstLine  = "gvrwatch checkpoint format 1\n"
	headerSize = 16
	sectorSize = 512     // the smallest unit that a disk writes
	slack      = 1 << 20 // by how much the commits may be longer than the snapshot
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// damaged is an error about the contents of a file.
type damaged string

func (d damaged) Error() string { return string(d) }

const (
	errChanged = damaged("the file was changed, cut off or replaced while it was open")
	errUnknown = damaged("unknown contents with valid checksums")
)

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
	at, length int64
	sum        uint32
}

// appendRecord appends the record that follows those with the given checksum.
func appendRecord(b, payload []byte, sum uint32) []byte {
	n := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(sum, castagnoli, payload))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
	return append(b, payload...)
}

// header reads the header of a record, if b begins with one.
func header(b []byte) (length uint64, sum uint32, ok bool) {
	if len(b) < headerSize || crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), true
}

// parse reads the records of a file whose first line has been checked.
func parse(b []byte) (log, error) {
	l := log{size: int64(len(firstLine)), keys: map[string][]section{}}
	for l.last == 0 || l.size < int64(len(b)) {
		rest := b[l.size:]
		length, sum, ok := header(rest)
		if !ok || length > uint64(len(rest)-headerSize) ||
			sum != crc32.Update(l.sum, castagnoli, rest[headerSize:][:length]) {
			if l.torn = l.last > 0 && isTorn(b, int(l.size)); l.torn {
				break
			}
			return l, damaged(fmt.Sprintf("invalid record at byte %d of %d: must fit its checksums", l.size, len(b)))
		}
		if err := l.add(rest[headerSize:][:length]); err != nil {
			return l, err
		}
	}
	return l, nil
}

// isTorn reports whether the invalid record at b[at:] may be an incomplete write: it is cut short, or one of its
// sectors is zeros, and no record follows.
func isTorn(b []byte, at int) bool {
	for i := at + 1; i < len(b); i++ {
		if _, _, ok := header(b[i:]); ok {
			return false
		}
	}
	length, _, _ := header(b[at:])
	end := at + headerSize + int(min(length, uint64(len(b))))
	torn := end > len(b)
	for at < end && !torn {
		next := min(end, at-at%sectorSize+sectorSize)
		torn = len(bytes.Trim(b[at:next], "\x00")) == 0
		at = next
	}
	return torn
}

// add adds the next record.
func (l *log) add(payload []byte) error {
	start, r := l.size+headerSize, reader{s: string(payload)}
	for r.s != "" {
		key := r.text()
		from := len(payload) - len(r.s)
		text, _ := r.text(), r.text()
		to := len(payload) - len(r.s)
		switch {
		case r.bad:
			return errUnknown
		case text == "":
			delete(l.keys, key)
		default:
			s := section{start + int64(from), int64(to - from), crc32.Checksum(payload[from:to], castagnoli)}
			l.keys[strings.Clone(key)] = append(l.keys[key], s) // a copy does not keep all of the payload
		}
	}
	if l.last == 0 {
		l.limit = start + 2*int64(len(payload)) + slack
	}
	l.last, l.size, l.sum = l.size, start+int64(len(payload)), crc32.Update(l.sum, castagnoli, payload)
	return nil
}

func appendSection(b []byte, key, text string, objects []byte) []byte {
	return appendText(appendText(appendText(b, key), text), string(objects))
}

func appendID(b []byte, o checkpoint.Object) []byte {
	uid := "\x00" + string(o.UID)
	if u, err := uuid.Parse(uid[1:]); err == nil && u.String() == uid[1:] {
		uid = "\x01" + string(u[:])
	}
	return appendText(appendText(appendText(b, o.Namespace), o.Name), uid)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// reader takes texts from the beginning of s. After an incomplete text it is bad.
type reader struct {
	s   string
	bad bool
}

func (r *reader) text() string {
	n, size := binary.Uvarint([]byte(r.s[:min(len(r.s), binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(r.s)-size) {
		r.s, r.bad = "", true
		return ""
	}
	text := r.s[size:][:n]
	r.s = r.s[size:][n:]
	return text
}

// object decodes an object from the texts that join has read.
func object(id, version string) (checkpoint.Object, error) {
	r := reader{s: id}
	o := checkpoint.Object{Namespace: r.text(), Name: r.text(), ResourceVersion: version[1:]}
	switch uid := r.text(); {
	case strings.HasPrefix(uid, "\x00"):
		o.UID = types.UID(uid[1:])
	case strings.HasPrefix(uid, "\x01") && len(uid) == 17:
		o.UID = types.UID(uuid.UUID([]byte(uid[1:])).String())
	default:
		return o, errUnknown
	}
	return o, nil
}
