package configmap

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"strconv"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// An index is the objects, in the order of compare, in blocks of blockSize,
// compressed. A block has columns, with the length of each in front: what is alike
// compresses well where it is together, and uids, which are random, not at all.
//
// For an object there is
//
//	a byte of flags;
//	with flagNamespace its namespace, a text;
//	how much of the name before is the beginning of its own, a length, and the rest, a text;
//	its uid, 16 bytes, or with flagUID a text;
//	its version less the last one that was a number, a varint, or with flagVersion a text.
//
// A text is in a column of its own, and its length with the lengths, a uvarint.
const blockSize = 4096

const (
	flagHidden = 1 << iota
	flagUnacked
	flagNamespace // another one than that of the object before
	flagUID       // is no lower-case UUID
	flagVersion   // is no plain decimal number of 64 bits
	allFlags      = 1<<iota - 1
)

const (
	columnFlags = iota
	columnLengths
	columnTexts
	columnUIDs
	columnVersions
	columns
)

// previous is what an object is packed relative to.
type previous struct {
	namespace, name string
	version         uint64
}

// compressor can be used for one index after the other, since it takes a megabyte
// of memory. The zero value is one.
type compressor struct{ w *flate.Writer }

func (c *compressor) to(out io.Writer) *flate.Writer {
	if c.w == nil {
		var err error
		if c.w, err = flate.NewWriter(out, flate.DefaultCompression); err != nil {
			panic(err) // only a level that there isn't
		}
	} else {
		c.w.Reset(out)
	}
	return c.w
}

// pack returns the index of some objects, or nil if it would have more bytes than
// room: then packed is how many it came to.
func (c *compressor) pack(objects []checkpoint.Object, room int) (index []byte, packed int) {
	out := &limited{room: room}
	w, p := c.to(out), &packer{}
	for _, o := range objects {
		p.add(o)
		packed++
		if packed%blockSize != 0 && packed < len(objects) {
			continue
		}
		if _, err := w.Write(p.block()); err != nil {
			return nil, packed
		}
	}
	if err := w.Close(); err != nil {
		return nil, packed
	}
	return out.Bytes(), packed
}

type packer struct {
	columns [columns][]byte
	before  previous
}

func (p *packer) add(o checkpoint.Object) {
	var flags byte
	if o.Hidden {
		flags |= flagHidden
	}
	if o.Unacked {
		flags |= flagUnacked
	}
	if o.Namespace != p.before.namespace {
		flags |= flagNamespace
		p.text(o.Namespace)
		p.before.namespace = o.Namespace
	}
	shared := sharedPrefix(p.before.name, o.Name)
	p.length(shared)
	p.text(o.Name[shared:])
	p.before.name = o.Name
	if uid, ok := packUID(string(o.UID)); ok {
		p.columns[columnUIDs] = append(p.columns[columnUIDs], uid[:]...)
	} else {
		flags |= flagUID
		p.text(string(o.UID))
	}
	if v, ok := packVersion(o.ResourceVersion); ok {
		p.columns[columnVersions] = binary.AppendVarint(p.columns[columnVersions], int64(v-p.before.version))
		p.before.version = v
	} else {
		flags |= flagVersion
		p.text(o.ResourceVersion)
	}
	p.columns[columnFlags] = append(p.columns[columnFlags], flags)
}

func (p *packer) length(n int) {
	p.columns[columnLengths] = binary.AppendUvarint(p.columns[columnLengths], uint64(n))
}

func (p *packer) text(text string) {
	p.length(len(text))
	p.columns[columnTexts] = append(p.columns[columnTexts], text...)
}

// block returns what was added since the last one.
func (p *packer) block() []byte {
	var b []byte
	for i, column := range p.columns {
		b = binary.AppendUvarint(b, uint64(len(column)))
		b = append(b, column...)
		p.columns[i] = column[:0]
	}
	return b
}

func sharedPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func packVersion(version string) (uint64, bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == version
}

// limited is a buffer that refuses more than it has room for.
type limited struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("there is no room")

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.room {
		return 0, errFull
	}
	return l.Buffer.Write(b)
}
