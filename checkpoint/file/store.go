package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Store is a checkpoint.Store in a file. Its methods may be called from any
// goroutine.
type Store struct {
	path string // as it was given
	file string // what that leads to
	lock *flock.Flock
	db   *bbolt.DB

	mu   sync.Mutex
	info os.FileInfo // of the file that is open, as it was written last
}

var _ checkpoint.Store = (*Store)(nil)

// Open opens the file at path, for this process alone, and makes it if there is
// none, for its owner alone (mode 0600). Its folder must be there, and allow for
// files to be made in it. It returns a *checkpoint.LockedError, at once, if another
// process has the file open, a *checkpoint.CorruptError if it is no whole file of
// this package's (also if it is empty), a *checkpoint.FormatError if it is of a
// newer version, and else an *fs.PathError from the file system.
func Open(path string) (*Store, error) {
	file, err := resolve(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, file: file}
	if s.lock, err = acquire(path, file); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open() (err error) {
	exists, err := isThere(s.file) // now that nobody else makes it
	if err == nil && !exists {
		err = create(s.file)
	}
	if err != nil {
		return err
	}
	if err := verifyPages(s.file); err != nil {
		if s.isBusy() {
			return &checkpoint.LockedError{Store: s.path} // what it was like while somebody wrote it says nothing
		}
		return s.corrupt(err)
	}
	defer func() {
		if p := recover(); p != nil { // what the check has let through, bbolt may still stumble over
			err = s.corrupt(fmt.Errorf("bbolt: %v", p))
		}
	}()
	if s.db, err = bbolt.Open(s.file, 0o600, boltOptions()); errors.Is(err, bolterrors.ErrTimeout) {
		return &checkpoint.LockedError{Store: s.path}
	} else if err != nil {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	if s.info, err = os.Stat(s.file); err != nil {
		return fmt.Errorf("checkpoint/file: %w", err)
	}
	return s.db.View(s.checkContents)
}

// isBusy says whether somebody who knows nothing of our lock has bbolt's.
func (s *Store) isBusy() bool {
	lock := flock.New(s.file, flock.SetFlag(os.O_RDWR))
	defer lock.Close()
	ok, err := lock.TryLock()
	return err == nil && !ok
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
	if err := s.isStillThere(); err != nil {
		return err
	}
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
	if err := s.isStillThere(); err != nil {
		return err
	}
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

// isStillThere refuses to write to a file that nobody will find, or that has been
// cut off, which bbolt would not survive.
func (s *Store) isStillThere() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, s.info):
		return &checkpoint.FencedError{Store: s.path}
	case err != nil:
		return fmt.Errorf("checkpoint/file: %w", err)
	case info.Size() < s.info.Size():
		return &checkpoint.CorruptError{Store: s.path, Err: errors.New("somebody has cut it off while it was open")}
	}
	s.info = info
	return nil
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
