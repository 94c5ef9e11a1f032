package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// What lies beside the file, with names that nobody else has a use for.
const (
	lockSuffix       = ".gvrwatch-lock"
	unfinishedSuffix = ".gvrwatch-new"
)

// acquire locks a file for this process. The lock is on a file of its own, since
// it is needed before there is one, and says who holds it.
func acquire(path, file string) (*flock.Flock, error) {
	name := file + lockSuffix
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("checkpoint/file: it must be a regular file, or not be there: %w", &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid})
	}
	lock := flock.New(name, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("checkpoint/file: can't lock %s: %w", path, err), lock.Close())
	case !ok:
		holder, _ := os.ReadFile(name) // it is empty for a moment, and always where locks forbid reading
		return nil, errors.Join(&checkpoint.LockedError{Store: path, Holder: strings.TrimSpace(string(holder))}, lock.Close())
	}
	// Who can't be told is not worth failing for.
	_ = os.WriteFile(name, []byte(self()+"\n"), 0o600)
	return lock, nil
}

func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return fmt.Sprintf("process %d on %s since %s", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
}

// resolve follows links, so that a file has one lock, whatever it is called.
func resolve(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("checkpoint/file: give the path of a file: %w", &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid})
	}
	path = filepath.Clean(path)
	for _, suffix := range []string{lockSuffix, unfinishedSuffix} {
		if strings.HasSuffix(path, suffix) {
			return "", fmt.Errorf("checkpoint/file: names that end with %s are for what lies beside a file: %w", suffix, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid})
		}
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		// A link to nothing may lead to what is not mounted: there is no making it.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", fmt.Errorf("checkpoint/file: a link that leads nowhere: %w", err)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("checkpoint/file: %w", err)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("checkpoint/file: %w", err)
	}
	path = filepath.Join(folder, filepath.Base(path))
	_, err = isThere(path)
	return path, err
}

// isThere says whether there is a file, and refuses what is something else: to
// open a pipe would be to wait for ever.
func isThere(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("checkpoint/file: %w", err)
	case info.IsDir():
		return false, fmt.Errorf("checkpoint/file: give the path of a file: %w", &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR})
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("checkpoint/file: give the path of a regular file: %w", &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid})
	}
	return true, nil
}
