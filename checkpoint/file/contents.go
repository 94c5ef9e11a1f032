package file

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// What the file holds, in format 1:
//
//	header/      header       sealed JSON: the format and the keys
//	checkpoints/ KEY/ record  sealed JSON: what a checkpoint says besides objects
//	             KEY/ objects/ namespace 0x00 name -> object (object.go)
//	             KEY/ unacked/ namespace 0x00 name 0x00 uid -> object
//
// A sealed text begins with its checksum. The record holds the number of the
// objects of both kinds and the sum of their checksums.
var (
	bucketHeader      = []byte("header")
	bucketCheckpoints = []byte("checkpoints")
	keyHeader         = []byte("header")
	keyRecord         = []byte("record")
	bucketObjects     = []byte("objects")
	bucketUnacked     = []byte("unacked")
)

// format is the newest that can be read.
const format = 1

type header struct {
	Format int      `json:"format"`
	Keys   []string `json:"keys"` // sorted
}

type record struct {
	Key              string              `json:"key"`
	Identity         checkpoint.Identity `json:"identity"`
	ResourceVersions map[string]string   `json:"resourceVersions"`
	Partial          bool                `json:"partial,omitempty"`
	Rewound          bool                `json:"rewound,omitempty"`
	Unclean          bool                `json:"unclean,omitempty"`
	Committed        time.Time           `json:"committed"`
	Objects          int                 `json:"objects"`
	Sum              uint64              `json:"sum,string"`
}

// contentError says what is wrong with the contents.
type contentError struct{ what string }

func (e *contentError) Error() string { return e.what }

func wrong(format string, args ...any) error { return &contentError{fmt.Sprintf(format, args...)} }

// seal returns v as JSON behind its checksum.
func seal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "%08x ", crc32.Checksum(text, castagnoli)), text...), nil
}

func unseal(sealed []byte, v any) error {
	sum, text, ok := bytes.Cut(sealed, []byte(" "))
	if !ok || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) {
		return errors.New("it does not fit its checksum")
	}
	return json.Unmarshal(text, v)
}

func readHeader(tx *bbolt.Tx) (header, error) {
	var h header
	b := tx.Bucket(bucketHeader)
	if b == nil || tx.Bucket(bucketCheckpoints) == nil {
		return h, wrong("it is a bbolt file of something else")
	}
	if err := unseal(b.Get(keyHeader), &h); err != nil {
		return h, wrong("its header can't be read: %v", err)
	}
	if h.Format > format {
		return h, &checkpoint.FormatError{Format: h.Format, Known: format}
	}
	return h, nil
}

func writeHeader(tx *bbolt.Tx, h header) error {
	text, err := seal(h)
	return cmp.Or(err, tx.Bucket(bucketHeader).Put(keyHeader, text))
}

// checkContents looks at all but the objects.
func (s *Store) checkContents(tx *bbolt.Tx) error {
	h, err := readHeader(tx)
	if err != nil {
		return s.corrupt(err)
	}
	all := tx.Bucket(bucketCheckpoints)
	n := 0
	err = all.ForEach(func(key, _ []byte) error {
		n++
		_, err := readRecord(all.Bucket(key), string(key))
		if _, ok := slices.BinarySearch(h.Keys, string(key)); !ok {
			err = wrong("it holds a checkpoint %q that its header does not", key)
		}
		return err
	})
	if err == nil && n != len(h.Keys) {
		err = wrong("of %d checkpoints it holds only %d", len(h.Keys), n)
	}
	return s.corrupt(err)
}

func readRecord(b *bbolt.Bucket, key string) (record, error) {
	var r record
	if b == nil || b.Bucket(bucketObjects) == nil || b.Bucket(bucketUnacked) == nil {
		return r, wrong("the checkpoint %q is none", key)
	}
	if err := unseal(b.Get(keyRecord), &r); err != nil {
		return r, wrong("the checkpoint %q can't be read: %v", key, err)
	}
	if r.Key != key {
		return r, wrong("the checkpoint %q says that it is %q", key, r.Key)
	}
	return r, nil
}

// load returns the checkpoint under a key, if there is one.
func load(tx *bbolt.Tx, key string) (*checkpoint.Checkpoint, error) {
	b := tx.Bucket(bucketCheckpoints).Bucket([]byte(key))
	if b == nil {
		return nil, nil
	}
	r, err := readRecord(b, key)
	if err != nil {
		return nil, err
	}
	c := &checkpoint.Checkpoint{Identity: r.Identity, Committed: r.Committed, Position: checkpoint.Position{
		ResourceVersions: r.ResourceVersions, Partial: r.Partial, Rewound: r.Rewound, Unclean: r.Unclean,
	}}
	n, sum := 0, uint64(0)
	if r.Objects > 0 {
		c.Position.Objects = make([]checkpoint.Object, 0, min(r.Objects, 1<<20))
	}
	spaces := interned{}
	for _, unacked := range []bool{false, true} {
		err := b.Bucket(bucketOf(unacked)).ForEach(func(k, v []byte) error {
			o, err := decode(k, v, unacked, spaces)
			if err != nil {
				return wrong("the checkpoint %q holds an object that can't be read: %v", key, err)
			}
			c.Position.Objects = append(c.Position.Objects, o)
			n++
			sum += checksum(k, v)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if n != r.Objects || sum != r.Sum {
		return nil, wrong("the objects of the checkpoint %q do not fit their checksum", key)
	}
	return c, nil
}

func bucketOf(unacked bool) []byte {
	if unacked {
		return bucketUnacked
	}
	return bucketObjects
}

// commit enters a delta.
func commit(tx *bbolt.Tx, d checkpoint.Delta, now time.Time) error {
	all := tx.Bucket(bucketCheckpoints)
	b := all.Bucket([]byte(d.Key))
	r := record{Key: d.Key}
	var err error
	if b == nil {
		b, err = add(tx, d.Key)
	} else {
		r, err = readRecord(b, d.Key)
	}
	if err != nil {
		return err
	}
	if d.Reset {
		err := cmp.Or(b.DeleteBucket(bucketObjects), b.DeleteBucket(bucketUnacked), makeRoom(b))
		if err != nil {
			return err
		}
		r.Objects, r.Sum = 0, 0
	}
	objects := b.Bucket(bucketObjects)
	objects.FillPercent = 0.9 // the names of a snapshot come in order
	if err := r.enter(objects, sorted(d)); err != nil {
		return err
	}
	if err := r.enter(b.Bucket(bucketUnacked), ahead(d)); err != nil {
		return err
	}
	r.Identity, r.ResourceVersions, r.Committed = d.Identity, d.ResourceVersions, now
	r.Partial, r.Rewound, r.Unclean = d.Partial, d.Rewound, d.Unclean
	text, err := seal(r)
	return cmp.Or(err, b.Put(keyRecord, text))
}

// enter makes changes, and keeps account of them.
func (r *record) enter(objects *bbolt.Bucket, changes []change) (err error) {
	for _, c := range changes {
		if was := objects.Get(c.key); was != nil {
			r.Objects--
			r.Sum -= checksum(c.key, was)
		}
		if c.value == nil {
			err = objects.Delete(c.key)
		} else {
			r.Objects++
			r.Sum += checksum(c.key, c.value)
			err = objects.Put(c.key, c.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add makes room for a checkpoint.
func add(tx *bbolt.Tx, key string) (*bbolt.Bucket, error) {
	h, err := readHeader(tx)
	if err != nil {
		return nil, err
	}
	i, _ := slices.BinarySearch(h.Keys, key)
	h.Keys = slices.Insert(h.Keys, i, strings.Clone(key))
	if err := writeHeader(tx, h); err != nil {
		return nil, err
	}
	b, err := tx.Bucket(bucketCheckpoints).CreateBucket([]byte(key))
	if err != nil {
		return nil, err
	}
	return b, makeRoom(b)
}

func makeRoom(b *bbolt.Bucket) error {
	_, err := b.CreateBucket(bucketObjects)
	if err == nil {
		_, err = b.CreateBucket(bucketUnacked)
	}
	return err
}

// change of one entry; without a value it is removed.
type change struct{ key, value []byte }

// sorted returns the changes in the order of their keys, in which bbolt takes
// them fastest.
func sorted(d checkpoint.Delta) []change {
	changes := make([]change, 0, len(d.Put)+len(d.Gone))
	for _, o := range d.Put {
		changes = append(changes, change{objectKey(o.NamespacedName()), encode(o)})
	}
	for _, name := range d.Gone {
		changes = append(changes, change{key: objectKey(name)})
	}
	return inOrder(changes)
}

// ahead returns those of what is Unacked likewise.
func ahead(d checkpoint.Delta) []change {
	var changes []change
	for _, o := range d.Told {
		changes = append(changes, change{unackedKey(o.ID()), encode(o)})
	}
	for _, id := range d.Settled {
		changes = append(changes, change{key: unackedKey(id)})
	}
	return inOrder(changes)
}

func inOrder(changes []change) []change {
	slices.SortFunc(changes, func(a, b change) int { return bytes.Compare(a.key, b.key) })
	return changes
}
