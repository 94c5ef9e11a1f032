package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
)

// bbolt follows what its file says without a look: a page number beyond the end
// is a fault that ends the process (SIGBUS), and a wrong one may be written over.
// So every reference is followed here first. The format has been the same since
// 2013: see internal/common of go.etcd.io/bbolt.

const (
	magic          = 0xED0CDAED
	boltVersion    = 2
	headerSize     = 16 // of a page
	elementSize    = 16 // of a leaf or a branch
	bucketSize     = 16 // of a bucket's header in a leaf
	metaSize       = 64
	minPage        = 512
	maxPage        = 1 << 24
	flagBranch     = 0x01
	flagLeaf       = 0x02
	flagFreelist   = 0x10
	flagBucket     = 0x01 // of a leaf's element
	manyFree       = 0xFFFF
	noPage         = math.MaxUint64
	firstDataPage  = 2
	deepestNesting = 4 // of buckets, in files of this package
)

var order = binary.NativeEndian

var errNotBolt = errors.New("it is no bbolt file, or its first two pages are damaged")

// meta is what one of the first two pages says.
type meta struct {
	pageSize                    uint32
	root, freelist, pages, txid uint64
}

// verifyPages says what is wrong with the file at path, if anything is.
func verifyPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, err := readMeta(f, info.Size())
	if err != nil {
		return err
	}
	if m.pages < firstDataPage+1 || m.pages > uint64(info.Size())/uint64(m.pageSize) {
		return fmt.Errorf("it has been cut off: %d bytes, of %d pages of %d", info.Size(), m.pages, m.pageSize)
	}
	v := verifier{file: f, meta: m, used: make([]bool, m.pages), free: make([]bool, m.pages)}
	if err := v.freelist(); err != nil {
		return err
	}
	return v.tree(m.root, bounds{}, 0)
}

// readMeta returns what the newer one of the valid ones says, as bbolt does.
func readMeta(f *os.File, size int64) (meta, error) {
	first, ok := metaAt(f, 0)
	if ok {
		if second, ok := metaAt(f, int64(first.pageSize)); ok && second.txid > first.txid {
			return second, nil
		}
		return first, nil
	}
	for at := int64(minPage); at <= maxPage && at < size; at *= 2 {
		if second, ok := metaAt(f, at); ok && int64(second.pageSize) == at {
			return second, nil
		}
	}
	return meta{}, errNotBolt
}

func metaAt(f *os.File, offset int64) (meta, bool) {
	b := make([]byte, metaSize)
	if _, err := f.ReadAt(b, offset+headerSize); err != nil {
		return meta{}, false
	}
	sum := fnv.New64a()
	sum.Write(b[:56])
	m := meta{
		pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		pages: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}
	valid := order.Uint32(b) == magic && order.Uint32(b[4:]) == boltVersion && order.Uint64(b[56:]) == sum.Sum64()
	return m, valid && m.pageSize >= minPage && m.pageSize <= maxPage && m.pageSize&(m.pageSize-1) == 0
}

type verifier struct {
	file *os.File
	meta
	used, free []bool // by page
}

// page reads one, with those that it overflows to, and takes them as used.
func (v *verifier) page(id uint64) ([]byte, error) {
	if id < firstDataPage || id >= v.pages {
		return nil, fmt.Errorf("it refers to a page %d, which it does not have", id)
	}
	b := make([]byte, v.pageSize)
	if _, err := v.file.ReadAt(b, int64(id)*int64(v.pageSize)); err != nil {
		return nil, err
	}
	more := uint64(order.Uint32(b[12:]))
	if order.Uint64(b) != id || more >= v.pages-id {
		return nil, fmt.Errorf("its page %d is damaged", id)
	}
	for i := id; i <= id+more; i++ {
		if v.used[i] || v.free[i] {
			return nil, fmt.Errorf("its page %d is used twice", i)
		}
		v.used[i] = true
	}
	if more > 0 {
		b = append(b, make([]byte, more*uint64(v.pageSize))...)
		if _, err := v.file.ReadAt(b, int64(id)*int64(v.pageSize)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (v *verifier) freelist() error {
	if v.meta.freelist == noPage {
		return errors.New("its list of free pages is missing")
	}
	b, err := v.page(v.meta.freelist)
	if err != nil {
		return err
	}
	n, ids := uint64(order.Uint16(b[10:])), b[headerSize:]
	if n == manyFree {
		n, ids = order.Uint64(ids), ids[8:]
	}
	if order.Uint16(b[8:]) != flagFreelist || n > uint64(len(ids))/8 {
		return errors.New("its list of free pages is damaged")
	}
	for i := range n {
		id := order.Uint64(ids[8*i:])
		if id < firstDataPage || id >= v.pages || v.used[id] || v.free[id] {
			return errors.New("its list of free pages is damaged")
		}
		v.free[id] = true
	}
	return nil
}

// bounds are those of the keys below a branch.
type bounds struct{ from, below []byte }

func (b bounds) hold(key []byte) bool {
	return (b.from == nil || bytes.Compare(key, b.from) >= 0) && (b.below == nil || bytes.Compare(key, b.below) < 0)
}

// tree follows a page and all below it. No page is used twice, so that it ends.
func (v *verifier) tree(id uint64, within bounds, nesting int) error {
	b, err := v.page(id)
	if err != nil {
		return err
	}
	if err := v.node(b, within, nesting); err != nil {
		return fmt.Errorf("its page %d is damaged: %w", id, err)
	}
	return nil
}

// node checks a page that is a leaf or a branch.
func (v *verifier) node(b []byte, within bounds, nesting int) error {
	flags, n := order.Uint16(b[8:]), uint64(order.Uint16(b[10:]))
	if n*elementSize > uint64(len(b)-headerSize) {
		return errors.New("too many elements")
	}
	branch := flags == flagBranch
	if !branch && flags != flagLeaf || branch && n == 0 {
		return errors.New("of no kind that is expected")
	}
	var keys [][]byte
	var children []uint64
	for i := range n {
		at := headerSize + i*elementSize
		e := b[at:]
		var pos, keySize, valueSize uint64
		if branch {
			pos, keySize = uint64(order.Uint32(e)), uint64(order.Uint32(e[4:]))
			children = append(children, order.Uint64(e[8:]))
		} else {
			pos, keySize, valueSize = uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
		}
		if pos < (n-i)*elementSize || at+pos+keySize+valueSize > uint64(len(b)) {
			return errors.New("an element that is not on it")
		}
		key := b[at+pos : at+pos+keySize]
		if !within.hold(key) || i > 0 && bytes.Compare(keys[i-1], key) >= 0 {
			return errors.New("keys out of order")
		}
		keys = append(keys, key)
		if leafFlags := order.Uint32(e); !branch && leafFlags == flagBucket {
			if err := v.bucket(b[at+pos+keySize:at+pos+keySize+valueSize], nesting+1); err != nil {
				return err
			}
		} else if !branch && leafFlags != 0 {
			return errors.New("an element of no kind that is expected")
		}
	}
	for i, child := range children {
		below := within.below
		if i+1 < len(keys) {
			below = keys[i+1]
		}
		if err := v.tree(child, bounds{keys[i], below}, nesting); err != nil {
			return err
		}
	}
	return nil
}

// bucket checks one that is the value of a leaf's element: a small one is within
// the value itself.
func (v *verifier) bucket(value []byte, nesting int) error {
	switch {
	case nesting > deepestNesting:
		return errors.New("buckets that are nested too deeply")
	case len(value) < bucketSize:
		return errors.New("a bucket that is too short")
	}
	root := order.Uint64(value)
	if root != 0 {
		return v.tree(root, bounds{}, nesting)
	}
	inline := value[bucketSize:]
	if len(inline) < headerSize || order.Uint16(inline[8:]) != flagLeaf {
		return errors.New("a bucket that is too short")
	}
	return v.node(inline, bounds{}, nesting)
}
