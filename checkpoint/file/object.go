package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// The value of an object is a byte of flags, the uid and the version: the uid as
// the 16 bytes of a UUID and the version as a uvarint where they are such, else as
// texts that begin with their length.
const (
	flagHidden = 1 << iota
	flagUUID
	flagNumber
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum of an entry. Those of all entries are added up, so their bits are
// spread over 64.
func checksum(key, value []byte) uint64 {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return (uint64(sum) + 1) * 0x9e3779b97f4a7c15
}

// objectKey: neither part may hold a zero byte in Kubernetes; if one does, the
// first separates.
func objectKey(name types.NamespacedName) []byte {
	key := make([]byte, 0, len(name.Namespace)+1+len(name.Name))
	key = append(key, name.Namespace...)
	key = append(key, 0)
	return append(key, name.Name...)
}

// unackedKey: there may be several objects of a name. (The uid is in the value.)
func unackedKey(id checkpoint.ID) []byte {
	uid := []byte(id.UID)
	if len(uid) > maxUID {
		sum := sha256.Sum256(uid)
		uid = sum[:]
	}
	return append(append(objectKey(id.NamespacedName), 0), uid...)
}

// maxUID is what a key has room for; bbolt's are bounded.
const maxUID = 256

func encode(o checkpoint.Object) []byte {
	value := make([]byte, 1, 1+16+binary.MaxVarintLen64)
	if o.Hidden {
		value[0] |= flagHidden
	}
	if id, err := uuid.Parse(string(o.UID)); err == nil && id.String() == string(o.UID) {
		value[0] |= flagUUID
		value = append(value, id[:]...)
	} else {
		value = appendText(value, string(o.UID))
	}
	if n, err := strconv.ParseUint(o.ResourceVersion, 10, 64); err == nil && strconv.FormatUint(n, 10) == o.ResourceVersion {
		value[0] |= flagNumber
		return binary.AppendUvarint(value, n)
	}
	return appendText(value, o.ResourceVersion)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errObject = errors.New("it is too short, too long, or has unknown flags")

func decode(key, value []byte, unacked bool, spaces interned) (checkpoint.Object, error) {
	namespace, name, ok := bytes.Cut(key, []byte{0})
	if unacked {
		name, _, _ = bytes.Cut(name, []byte{0})
	}
	if !ok || len(name) == 0 || len(value) == 0 || value[0]&^(flagHidden|flagUUID|flagNumber) != 0 {
		return checkpoint.Object{}, errObject
	}
	flags, rest := value[0], value[1:]
	o := checkpoint.Object{Namespace: spaces.text(namespace), Name: string(name), Hidden: flags&flagHidden != 0, Unacked: unacked}
	if flags&flagUUID == 0 {
		var uid string
		uid, rest, ok = cutText(rest)
		o.UID = types.UID(uid)
	} else if ok = len(rest) >= 16; ok {
		o.UID = types.UID(uuid.UUID(rest[:16]).String())
		rest = rest[16:]
	}
	if !ok {
		return o, errObject
	}
	if flags&flagNumber == 0 {
		o.ResourceVersion, rest, ok = cutText(rest)
	} else {
		n, length := binary.Uvarint(rest)
		if ok = length > 0; ok {
			o.ResourceVersion = strconv.FormatUint(n, 10)
			rest = rest[length:]
		}
	}
	if !ok || len(rest) > 0 {
		return o, errObject
	}
	return o, nil
}

func cutText(b []byte) (text string, rest []byte, ok bool) {
	n, length := binary.Uvarint(b)
	if length <= 0 || n > uint64(len(b)-length) {
		return "", nil, false
	}
	b = b[length:]
	return string(b[:n]), b[n:], true
}

// interned keeps one copy of the names of namespaces.
type interned map[string]string

func (i interned) text(b []byte) string {
	if s, ok := i[string(b)]; ok {
		return s
	}
	s := string(b)
	i[s] = s
	return s
}
