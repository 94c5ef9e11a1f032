package configmap

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// unpack returns the objects of an index, which must be so many.
func unpack(index []byte, count int) ([]checkpoint.Object, error) {
	if count == 0 && len(index) == 0 {
		return nil, nil
	}
	raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(index)))
	if err != nil {
		return nil, fmt.Errorf("the index can't be decompressed: %w", err)
	}
	objects, err := unpackBlocks(raw, count)
	if err != nil {
		return nil, fmt.Errorf("the index of %d objects can't be read: %w", count, err)
	}
	return objects, nil
}

func unpackBlocks(raw []byte, count int) ([]checkpoint.Object, error) {
	// Each has a flag, so that a wrong count does not take memory.
	if count < 0 || count > len(raw) {
		return nil, errors.New("there are not as many")
	}
	u := &unpacker{rest: raw}
	objects := make([]checkpoint.Object, count)
	for i := range objects {
		if i%blockSize == 0 {
			u.block()
		}
		objects[i] = u.next()
		if u.err == nil && i > 0 && compare(objects[i-1], objects[i]) >= 0 {
			u.fail("the objects are not in order")
		}
		if u.err != nil {
			break
		}
	}
	u.end()
	if u.err == nil && len(u.rest) > 0 {
		u.fail("there are more")
	}
	return objects, u.err
}

// unpacker undoes what a packer does. After an error what it returns means
// nothing.
type unpacker struct {
	rest    []byte // behind the block
	columns [columns][]byte
	before  previous
	err     error
}

func (u *unpacker) fail(why string) {
	if u.err == nil {
		u.err = errors.New(why)
	}
}

func (u *unpacker) block() {
	u.end()
	for i := range u.columns {
		n := u.uvarint(&u.rest)
		u.columns[i] = u.bytes(&u.rest, n)
	}
}

// end is after all objects of a block.
func (u *unpacker) end() {
	for _, column := range u.columns {
		if len(column) > 0 {
			u.fail("a column is too long")
		}
	}
}

func (u *unpacker) next() checkpoint.Object {
	var o checkpoint.Object
	var flags byte
	if b := u.bytes(&u.columns[columnFlags], 1); b != nil {
		flags = b[0]
	}
	if flags > allFlags {
		u.fail("there is a flag that was never set")
	}
	o.Hidden, o.Unacked = flags&flagHidden != 0, flags&flagUnacked != 0
	if flags&flagNamespace != 0 {
		u.before.namespace = u.text()
	}
	o.Namespace = u.before.namespace
	shared := u.uvarint(&u.columns[columnLengths])
	if shared > uint64(len(u.before.name)) {
		u.fail("a name begins with more than there was")
		shared = 0
	}
	o.Name = u.before.name[:shared] + u.text()
	u.before.name = o.Name
	if flags&flagUID != 0 {
		o.UID = types.UID(u.text())
	} else if b := u.bytes(&u.columns[columnUIDs], uidLength); b != nil {
		o.UID = types.UID(unpackUID(b))
	}
	if flags&flagVersion != 0 {
		o.ResourceVersion = u.text()
	} else {
		u.before.version += uint64(u.varint(&u.columns[columnVersions]))
		o.ResourceVersion = strconv.FormatUint(u.before.version, 10)
	}
	return o
}

func (u *unpacker) text() string {
	return string(u.bytes(&u.columns[columnTexts], u.uvarint(&u.columns[columnLengths])))
}

func (u *unpacker) uvarint(from *[]byte) uint64 {
	v, n := binary.Uvarint(*from)
	u.skip(from, n)
	return v
}

func (u *unpacker) varint(from *[]byte) int64 {
	v, n := binary.Varint(*from)
	u.skip(from, n)
	return v
}

func (u *unpacker) skip(from *[]byte, n int) {
	if n <= 0 {
		u.fail("it ends too early")
		return
	}
	*from = (*from)[n:]
}

// bytes returns the next n, and nil if there are fewer.
func (u *unpacker) bytes(from *[]byte, n uint64) []byte {
	if n > uint64(len(*from)) {
		u.fail("it ends too early")
		return nil
	}
	b := (*from)[:n:n]
	*from = (*from)[n:]
	return b
}
