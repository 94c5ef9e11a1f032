package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// acquire locks the file at path for this process. The lock is on a file of its
// own, since it is needed before there is one, and says who holds it.
func acquire(path string) (*flock.Flock, error) {
	name := path + ".lock"
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
