package file_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// foreign is a bbolt file of another program.
func foreign(t testing.TB) []byte {
	t.Helper()
	path := inTemp(t)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("accounts"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func TestNewerFormat(t *testing.T) {
	path := inTemp(t)
	sample(t, path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		text := `{"format":2,"keys":["pods","widgets.example.com"],"something":"new"}`
		sum := crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
		return tx.Bucket([]byte("header")).Put([]byte("header"), fmt.Appendf(nil, "%08x %s", sum, text))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	newer := read(t, path)
	_, err = attempt(t, path)
	var format *checkpoint.FormatError
	if !errors.As(err, &format) || format.Format != 2 || format.Known != 1 || format.Store != path {
		t.Errorf("%v, want a *FormatError of format 2", err)
	}
	checkDamaged(t, path, newer)
}
