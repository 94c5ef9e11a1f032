package file

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"go.etcd.io/bbolt"
)

// create makes the file at path, whole or not at all: what is found there later
// and is empty or short has been damaged. The lock is held.
func create(path string) (err error) {
	unfinished := path + unfinishedSuffix // that a killed process has left
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	db, err := bbolt.Open(unfinished, 0o600, boltOptions())
	if err != nil {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(bucketHeader); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(bucketCheckpoints); err != nil {
			return err
		}
		return writeHeader(tx, header{Format: format})
	})
	if err = cmp.Or(err, db.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return fmt.Errorf("checkpoint/file: %w", errors.Join(err, os.Remove(unfinished)))
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder puts a new name on the disk.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it knows no such thing
	}
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	if err := cmp.Or(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	return nil
}
