package file_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

const pageSize = 4096

var order = binary.NativeEndian

// pages are those of a bbolt file.
type pages []byte

func (p pages) page(id uint64) []byte { return p[id*pageSize : (id+1)*pageSize] }

// meta returns the newer one.
func (p pages) meta() []byte {
	a, b := p.page(0)[16:80], p.page(1)[16:80]
	if order.Uint64(b[48:]) > order.Uint64(a[48:]) {
		return b
	}
	return a
}

// metas changes both, with their checksums.
func (p pages) metas(change func(m []byte)) {
	for id := range uint64(2) {
		m := p.page(id)[16:80]
		change(m)
		sum := fnv.New64a()
		sum.Write(m[:56])
		order.PutUint64(m[56:], sum.Sum64())
	}
}

func (p pages) root() []byte     { return p.page(order.Uint64(p.meta()[16:])) }
func (p pages) freelist() []byte { return p.page(order.Uint64(p.meta()[32:])) }

// branch is the root of the bucket with the objects, and child a leaf below it.
func (p pages) branch() []byte {
	for id := uint64(2); id < uint64(len(p)/pageSize); id++ {
		if b := p.page(id); order.Uint16(b[8:]) == 1 && order.Uint64(b) == id && !p.isFree(id) {
			return b
		}
	}
	panic("no branch")
}

func (p pages) child(i int) []byte { return p.page(order.Uint64(p.branch()[16+16*i+8:])) }

func (p pages) isFree(id uint64) bool {
	f := p.freelist()
	for i := range int(order.Uint16(f[10:])) {
		if order.Uint64(f[16+8*i:]) == id {
			return true
		}
	}
	return false
}

// add adds a page to the list of free ones.
func (p pages) add(id uint64) {
	f := p.freelist()
	n := order.Uint16(f[10:])
	order.PutUint64(f[16+8*int(n):], id)
	order.PutUint16(f[10:], n+1)
}

// leaf is the element of a leaf: flags, position, size of key and value.
func leaf(page []byte, i int) []byte { return page[16+16*i:][:16] }

func key(page []byte, i int) []byte {
	e := leaf(page, i)
	return page[16+16*i+int(order.Uint32(e[4:])):][:order.Uint32(e[8:])]
}

// What bbolt would follow without a look is refused before bbolt sees it.
func TestDamagedPages(t *testing.T) {
	path := inTemp(t)
	// The pages of a new file are as big as the system's; those of this one are 4096.
	if err := os.WriteFile(path, read(t, filepath.Join("..", "..", "testdata", "checkpoint-format-1.db")), 0o600); err != nil {
		t.Fatal(err)
	}
	frozen := open(t, path)
	for key := range contents(t, frozen) {
		if err := frozen.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := frozen.Close(); err != nil {
		t.Fatal(err)
	}
	s := fill(t, path, objects(2_000, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := read(t, path)
	n := uint64(len(whole) / pageSize)
	const cut, free, missing, twice, kind, notOn, keys = "cut off", "list of free pages is damaged", "which it does not have", "used twice", "of no kind", "not on it", "out of order"
	const noBolt = "no bbolt file"
	set := func(offset int, v uint64) func(pages) {
		return func(p pages) { p.metas(func(m []byte) { order.PutUint64(m[offset:], v) }) }
	}
	set32 := func(offset int, v uint32) func(pages) {
		return func(p pages) { p.metas(func(m []byte) { order.PutUint32(m[offset:], v) }) }
	}
	for _, tc := range []struct {
		name string
		edit func(p pages)
		want string // in the error; empty for none
		why  string
	}{
		{"as it is", func(pages) {}, "", "nothing is wrong"},
		{"sealed anew", func(p pages) { p.metas(func([]byte) {}) }, "", "so that the others test what they say"},
		{"no magic", set32(0, 1), noBolt, "it is something else"},
		{"another version", set32(4, 3), noBolt, "its pages may mean anything"},
		{"no checksum", func(p pages) { p.page(0)[16+56]++; p.page(1)[16+56]++ }, noBolt, "both metas are damaged"},
		{"an odd page size", set32(8, 4097), noBolt, "it is a power of two"},
		{"a huge page size", set32(8, 1<<30), noBolt, "memory is made for a page"},
		{"the first meta is lost", func(p pages) { clear(p.page(0)) }, "", "there is a second one for that"},
		{"too few pages", set(40, 2), cut, "two metas are no file"},
		{"one page too many", set(40, n+1), cut, "the last one is not there"},

		{"no list of free pages", set(32, ^uint64(0)), "missing", "bbolt would look at all pages, whatever they are"},
		{"the list is something else", func(p pages) { order.PutUint16(p.freelist()[8:], 2) }, free, "it is a leaf"},
		{"the list is too long", func(p pages) { order.PutUint16(p.freelist()[10:], pageSize/8-2+1) }, free, "it goes beyond its page"},
		{"a meta is free", func(p pages) { p.add(1) }, free, "it would be written over"},
		{"a page beyond the end is free", func(p pages) { p.add(order.Uint64(p.meta()[40:])) }, free, "there is none"},
		{"a page is free twice", func(p pages) { p.add(order.Uint64(p.freelist()[16:])) }, free, "it would be given away twice"},
		{"the list itself is free", func(p pages) { p.add(order.Uint64(p.freelist())) }, free, "it would be written over"},
		{"the root is free", func(p pages) { p.add(order.Uint64(p.root())) }, twice, "it would be written over"},
		{"a long list", func(p pages) {
			f := p.freelist()
			count := order.Uint16(f[10:])
			copy(f[24:], bytes.Clone(f[16:16+8*int(count)]))
			order.PutUint64(f[16:], uint64(count))
			order.PutUint16(f[10:], 0xFFFF)
		}, "", "its length is in the first entry"},

		{"the root is a meta", set(16, 1), missing, "it is no page of the tree"},
		{"the root is beyond the end", func(p pages) { set(16, order.Uint64(p.meta()[40:]))(p) }, missing, "there is none"},
		{"another page's number", func(p pages) { order.PutUint64(p.root(), order.Uint64(p.root())+1) }, "is damaged", "it was written to the wrong place"},
		{"it goes on beyond the end", func(p pages) {
			order.PutUint32(p.root()[12:], uint32(order.Uint64(p.meta()[40:])-order.Uint64(p.root())))
		}, "is damaged", "the pages that it goes on to are not there"},
		{"it goes on to another page", func(p pages) {
			var used []uint64
			for i := range int(order.Uint16(p.branch()[10:])) {
				used = append(used, order.Uint64(p.child(i)))
			}
			for _, id := range used {
				if slices.Contains(used, id+1) {
					order.PutUint32(p.page(id)[12:], 1)
					return
				}
			}
			t.Fatal("no two pages follow each other")
		}, twice, "it would be written over"},
		{"a page below two branches", func(p pages) { copy(p.branch()[16+16+8:16+16+16], p.branch()[16+8:16+16]) }, twice, "the tree would have no end"},

		{"too many elements", func(p pages) { order.PutUint16(p.child(0)[10:], pageSize/16) }, "too many", "they go beyond the page"},
		{"a page of another kind", func(p pages) { order.PutUint16(p.child(0)[8:], 4) }, kind, "neither leaf nor branch"},
		{"an empty branch", func(p pages) { order.PutUint16(p.branch()[10:], 0) }, kind, "bbolt takes its first child"},
		{"a key within the elements", func(p pages) { order.PutUint32(leaf(p.child(0), 0)[4:], 15) }, notOn, "it can't be there"},
		{"a value beyond the end", func(p pages) { order.PutUint32(leaf(p.child(0), 0)[12:], pageSize) }, notOn, "it is not there"},
		{"a key below its branch", func(p pages) { key(p.child(1), 0)[0] = 0 }, keys, "it would not be found"},
		{"a key above its branch", func(p pages) { key(p.child(0), int(order.Uint16(p.child(0)[10:]))-1)[0] = 0xff }, keys, "it would not be found"},
		{"keys that have changed places", func(p pages) {
			a, b := key(p.child(0), 1), key(p.child(0), 2)
			was := bytes.Clone(a)
			copy(a, b)
			copy(b, was)
		}, keys, "they would not be found"},
		{"a key twice", func(p pages) { copy(key(p.child(0), 2), key(p.child(0), 1)) }, keys, "one would never be found"},
		{"an element of another kind", func(p pages) { order.PutUint32(leaf(p.child(0), 0), 2) }, kind, "neither value nor bucket"},
		{"a bucket that is none", func(p pages) { order.PutUint32(leaf(p.child(0), 0), 1); order.PutUint32(leaf(p.child(0), 0)[12:], 15) }, "too short", "it has no header"},
		{"a small bucket that is a branch", func(p pages) { inline(p.root())[8] = 1 }, "too short", "it has no pages"},
		{"a small bucket with too many elements", func(p pages) { inline(p.root())[10] = 200 }, "too many", "they go beyond its value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := inTemp(t)
			p := pages(bytes.Clone(whole))
			tc.edit(p)
			if err := os.WriteFile(path, p, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := file.Open(path)
			if tc.want == "" {
				if err != nil {
					t.Fatalf("%v: %s", err, tc.why)
				}
				_ = s.Close()
				return
			}
			var corrupt *checkpoint.CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want a *CorruptError that says %q: %s", err, tc.want, tc.why)
			}
		})
	}
}

// inline is the page within the first small bucket of a leaf.
func inline(page []byte) []byte {
	for i := range int(order.Uint16(page[10:])) {
		e := leaf(page, i)
		value := page[16+16*i+int(order.Uint32(e[4:]))+int(order.Uint32(e[8:])):]
		if order.Uint32(e) == 1 && order.Uint64(value) == 0 {
			return value[16:]
		}
	}
	panic("no small bucket")
}

// Pages that go on, and buckets within buckets, up to what a file of ours has.
func TestLargePages(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	versions := map[string]string{}
	for i := range 200 {
		versions[fmt.Sprint("namespace-", i)] = fmt.Sprint(i)
	}
	commit(t, s, checkpoint.Delta{Key: "k", Identity: identity("pods"), ResourceVersions: versions}) // a record of more than a page, and less than two
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := load(t, open(t, path), "k"); len(c.Position.ResourceVersions) != len(versions) {
		t.Errorf("it holds %v", c.Position.ResourceVersions)
	}
}

func TestNestedTooDeeply(t *testing.T) {
	path := inTemp(t)
	sample(t, path)
	edit(t, path, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("a"))
		for i := 0; i < 4 && err == nil; i++ {
			b, err = b.CreateBucket([]byte("a"))
		}
		return err
	})
	if _, err := file.Open(path); err == nil || !strings.Contains(err.Error(), "too deeply") {
		t.Errorf("%v, want that it is nested too deeply", err)
	}
}
