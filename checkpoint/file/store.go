package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Store is a checkpoint.Store in a file. Its methods may be called from any
// goroutine.
type Store struct {
	path string
	lock *flock.Flock
	db   *bbolt.DB
}

var _ checkpoint.Store = (*Store)(nil)

// Open opens the file at path, for this process alone, and makes it if there is
// none, for its owner alone (mode 0600). Its folder must be there, and allow for
// files to be made in it. It returns a *checkpoint.LockedError, at once, if another
// process has the file open, a *checkpoint.CorruptError if it is no whole file of
// this package's (also if it is empty), a *checkpoint.FormatError if it is of a
// newer version, and else an *fs.PathError from the file system.
func Open(path string) (*Store, error) {
	if path == "" {
		return nil, fmt.Errorf("checkpoint/file: give the path of a file: %w", &os.PathError{Op: "open", Path: path, Err: os.ErrInvalid})
	}
	path = filepath.Clean(path)
	exists, err := isThere(path)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: lock}
	if !exists {
		err = create(path)
	}
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if err := s.corrupt(verifyPages(s.path)); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // what the check has let through, bbolt may still stumble over
			err = s.corrupt(fmt.Errorf("bbolt: %v", p))
		}
	}()
	if s.db, err = bbolt.Open(s.path, 0o600, boltOptions()); errors.Is(err, bolterrors.ErrTimeout) {
		return &checkpoint.LockedError{Store: s.path}
	} else if err != nil {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	return s.db.View(s.checkContents)
}

func boltOptions() *bbolt.Options {
	// The timeout is for a lock of bbolt's own, held by a program that knows nothing
	// of ours; this is the shortest.
	return &bbolt.Options{Timeout: time.Nanosecond, FreelistType: bbolt.FreelistMapType, NoStatistics: true}
}

// Keys returns those that something is kept under, sorted.
func (s *Store) Keys() ([]string, error) {
	var keys []string
	err := s.view(func(tx *bbolt.Tx) error {
		h, err := readHeader(tx)
		keys = h.Keys
		return err
	})
	return keys, err
}

func (s *Store) Load(_ context.Context, key string) (*checkpoint.Checkpoint, error) {
	var c *checkpoint.Checkpoint
	err := s.view(func(tx *bbolt.Tx) (err error) {
		c, err = load(tx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Store) Commit(_ context.Context, deltas []checkpoint.Delta) error {
	now := time.Now()
	return s.closed(s.db.Update(func(tx *bbolt.Tx) error {
		for _, d := range deltas {
			if err := commit(tx, d, now); err != nil {
				return fmt.Errorf("checkpoint %q: %w", d.Key, err)
			}
		}
		return nil
	}))
}

func (s *Store) Delete(_ context.Context, key string) error {
	return s.closed(s.db.Update(func(tx *bbolt.Tx) error {
		h, err := readHeader(tx)
		if err != nil {
			return err
		}
		i, found := slices.BinarySearch(h.Keys, key)
		if !found {
			return nil
		}
		h.Keys = slices.Delete(h.Keys, i, i+1)
		return cmp.Or(writeHeader(tx, h), tx.Bucket(bucketCheckpoints).DeleteBucket([]byte(key)))
	}))
}

// Close waits for a call that is under way.
func (s *Store) Close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return cmp.Or(err, s.lock.Close())
}

func (s *Store) view(f func(*bbolt.Tx) error) error {
	err := s.db.View(f)
	if corrupt := (*contentError)(nil); errors.As(err, &corrupt) {
		return s.corrupt(err)
	}
	return s.closed(err)
}

func (s *Store) closed(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("checkpoint/file: %s: %w", s.path, os.ErrClosed)
	case err != nil:
		return fmt.Errorf("checkpoint/file: %s: %w", s.path, err)
	}
	return nil
}

func (s *Store) corrupt(err error) error {
	var format *checkpoint.FormatError
	var path *os.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &format):
		format.Store = s.path
		return format
	case errors.As(err, &path):
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	return &checkpoint.CorruptError{Store: s.path, Err: err}
}
