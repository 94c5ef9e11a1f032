package file_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sealed(text string) []byte {
	return fmt.Appendf(nil, "%08x %s", crc32.Checksum([]byte(text), castagnoli), text)
}

// edit changes what a file holds behind the back of the Store.
func edit(t testing.TB, path string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A file whose pages are whole, and whose contents are not, is refused: by Open,
// or where it is the objects by Load.
func TestWrongContents(t *testing.T) {
	header := func(text string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte("header")).Put([]byte("header"), []byte(text)) }
	}
	pods := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte("checkpoints")).Bucket([]byte("pods")) }
	// record changes what is said besides the objects.
	record := func(change func(map[string]any)) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			var r map[string]any
			if err := json.Unmarshal(pods(tx).Get([]byte("record"))[9:], &r); err != nil {
				return err
			}
			change(r)
			text, err := json.Marshal(r)
			return errors.Join(err, pods(tx).Put([]byte("record"), sealed(string(text))))
		}
	}
	// object adds one, in a record that knows of it.
	object := func(key, value string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			return errors.Join(pods(tx).Bucket([]byte("objects")).Put([]byte(key), []byte(value)), record(func(r map[string]any) {
				was, _ := strconv.ParseUint(r["sum"].(string), 10, 64)
				sum := crc32.Checksum([]byte(key+value), castagnoli)
				r["objects"], r["sum"] = r["objects"].(float64)+1, fmt.Sprint(was+(uint64(sum)+1)*0x9e3779b97f4a7c15)
			})(tx))
		}
	}
	const uid16 = "0123456789abcdef"
	for _, tc := range []struct {
		name string
		edit func(*bbolt.Tx) error
		by   string // "Open", "Load", or "" for nobody
		why  string
	}{
		{"as it is", func(*bbolt.Tx) error { return nil }, "", "nothing is wrong with it"},
		{"no checkpoints", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("checkpoints")) }, "Open", "another program may have a bucket \"header\" as well"},
		{"header without a checksum", header(`{"format":1,"keys":["pods","widgets.example.com"]}`), "Open", "nobody has written it so"},
		{"header of another text", header(`00000000 {"format":1,"keys":["pods","widgets.example.com"]}`), "Open", "it does not fit its checksum"},
		{"header that is no JSON", header(string(sealed("hello"))), "Open", "it can't be read"},
		{"a key less", header(string(sealed(`{"format":1,"keys":["pods"]}`))), "Open", "there is one that the header does not know"},
		{"a key more", header(string(sealed(`{"format":1,"keys":["pods","widgets.example.com","z"]}`))), "Open", "one is missing"},
		{"another key", header(string(sealed(`{"format":1,"keys":["pods","z"]}`))), "Open", "one is missing, and another one too many"},
		{"record of another text", func(tx *bbolt.Tx) error { return pods(tx).Put([]byte("record"), []byte(`00000000 {"key":"pods"}`)) }, "Open", "it does not fit its checksum"},
		{"record of another key", record(func(r map[string]any) { r["key"] = "other" }), "Open", "it is that of something else"},
		{"no objects", func(tx *bbolt.Tx) error { return pods(tx).DeleteBucket([]byte("objects")) }, "Open", "they are missing"},
		{"nothing unacked", func(tx *bbolt.Tx) error { return pods(tx).DeleteBucket([]byte("unacked")) }, "Open", "they are missing"},
		{"a checkpoint that is none", func(tx *bbolt.Tx) error {
			all := tx.Bucket([]byte("checkpoints"))
			return errors.Join(all.DeleteBucket([]byte("pods")), all.Put([]byte("pods"), []byte("hello")))
		}, "Open", "it is a value"},

		{"another number of objects", record(func(r map[string]any) { r["objects"] = 3 }), "Load", "some may be missing"},
		{"another sum", record(func(r map[string]any) { r["sum"] = "1" }), "Load", "one may be another"},
		{"an object", object("\x00n", "\x06"+uid16+"\x05"), "", "that is how they are written"},
		{"an object with texts", object("\x00n", "\x00\x01u\x01v"), "", "the same"},
		{"an object without a name", object("ns\x00", "\x06"+uid16+"\x05"), "Load", "it has to have one"},
		{"an object without a namespace", object("n", "\x06"+uid16+"\x05"), "Load", "an empty one is written as well"},
		{"an object without a value", object("\x00n", ""), "Load", "it says nothing"},
		{"unknown flags", object("\x00n", "\x0e"+uid16+"\x05"), "Load", "they may mean anything"},
		{"a short uid", object("\x00n", "\x02"+uid16[1:]), "Load", "a UUID has 16 bytes"},
		{"a uid longer than it is", object("\x00n", "\x04\x02u"), "Load", "its length goes beyond the end"},
		{"a uid of no length", object("\x00n", "\x04"), "Load", "a text begins with its length"},
		{"no version", object("\x00n", "\x06"+uid16), "Load", "a number has a byte at least"},
		{"an endless version", object("\x00n", "\x06"+uid16+"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "Load", "a number of 64 bits has ten bytes at most"},
		{"more than a version", object("\x00n", "\x06"+uid16+"\x05\x05"), "Load", "the rest is of something else"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := inTemp(t)
			sample(t, path)
			edit(t, path, tc.edit)
			by := ""
			if _, err := attempt(t, path); err != nil {
				by = "Load"
			}
			if s, err := file.Open(path); err != nil {
				by = "Open"
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if by != tc.by {
				t.Errorf("refused by %q, want %q: %s", by, tc.by, tc.why)
			}
			if tc.by != "" {
				checkDamaged(t, path, read(t, path))
			}
		})
	}
}

// Where the objects of one checkpoint are wrong, the others can still be had.
func TestWrongObjectsOfOneKey(t *testing.T) {
	path := inTemp(t)
	want := sample(t, path)
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("checkpoints")).Bucket([]byte("pods")).Bucket([]byte("objects")).Delete([]byte("one\x00usual"))
	})
	s := open(t, path)
	_, err := s.Load(t.Context(), "pods")
	var corrupt *checkpoint.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Store != path {
		t.Errorf("%v, want a *CorruptError of %s", err, path)
	}
	const other = "widgets.example.com"
	if diff := cmp.Diff(want[other], load(t, s, other)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The time of a commit is kept.
func TestCommitted(t *testing.T) {
	s := open(t, inTemp(t))
	began := time.Now()
	commit(t, s, checkpoint.Delta{Key: "k", Identity: identity("pods")})
	c, err := s.Load(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if c.Committed.Before(began) || c.Committed.After(time.Now()) {
		t.Errorf("committed at %v, which was after %v", c.Committed, began)
	}
}

// What is written says that it is of format 1, also after a commit.
func TestFormat(t *testing.T) {
	path := inTemp(t)
	for _, want := range []string{`{"format":1,"keys":null}`, `{"format":1,"keys":["k"]}`} {
		s := open(t, path)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		edit(t, path, func(tx *bbolt.Tx) error {
			got := tx.Bucket([]byte("header")).Get([]byte("header"))
			if diff := cmp.Diff(string(sealed(want)), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			return nil
		})
		s = open(t, path)
		commit(t, s, checkpoint.Delta{Key: "k", Identity: identity("pods")})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
