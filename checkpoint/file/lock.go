package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// resolve follows links, so that a file has one lock, whatever its names.
func resolve(path string) (string, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var folder string
		folder, err = filepath.EvalSymlinks(filepath.Dir(path))
		path = filepath.Join(folder, filepath.Base(path))
	} else if err == nil { // no file is created behind a dangling link: its volume may not be mounted
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", err
	}
	if err := checkRegular(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	return path, nil
}

// checkRegular returns an error unless path is a regular file: opening a device may have effects, and a link in the
// place of the lock file could lead to a file that must not be overwritten.
func checkRegular(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: must be a regular file", fs.ErrInvalid)}
	}
	return err
}

// openOwn opens a regular file to which no other user can write. The flag may be os.O_CREATE.
func openOwn(path string, flag int) (*os.File, error) {
	if err := checkRegular(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow|flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkOwner(path, info, os.Geteuid())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock is a lock on a file of its own, because it is needed before the locked file exists, and after that is replaced.
type lock struct {
	*flock.Flock
	file *os.File // the same, which names the process that has the lock
}

func acquire(path, file string) (*lock, error) {
	name := file + ".gvrwatch-lock"
	f, err := openOwn(name, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l := &lock{flock.New(name, flock.SetFlag(os.O_RDWR|noFollow)), f}
	ok, err := l.TryLock()
	switch {
	case err != nil:
		err = &fs.PathError{Op: "lock", Path: name, Err: err}
	case !ok:
		err = &checkpoint.LockedError{Store: path, Holder: l.holder()}
	default:
		err = l.setHolder(name)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// holder returns what a process has written to the lock file. The file may still be empty, and some systems don't read
// a locked file.
func (l *lock) holder() string {
	b := make([]byte, 1<<10)
	n, _ := l.file.ReadAt(b, 0)
	return invalid.Printable(strings.TrimSpace(string(b[:n])))
}

func (l *lock) setHolder(name string) error {
	locked, err := l.Stat()
	own, ownErr := l.file.Stat()
	if err = cmp.Or(err, ownErr); err == nil && !os.SameFile(locked, own) {
		err = errors.New("it was replaced while it was opened: try again")
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	host, _ := os.Hostname()
	self := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), cmp.Or(host, "an unknown host"),
		time.Now().UTC().Format(time.RFC3339))
	if l.file.Truncate(0) == nil { // the lock works without the name, too
		_, _ = l.file.WriteAt([]byte(self), 0)
	}
	return nil
}

func (l *lock) Close() error { return errors.Join(l.Flock.Close(), l.file.Close()) }

// Close releases the file and its lock. It waits for a call that is under way.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.lock == nil {
		return nil
	}
	if s.wrote {
		_ = s.writeHead() // so that Open notices if the last commit is cut off; without it, if an earlier one is
	}
	s.closed = true
	return s.lock.Close()
}
