package devserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// folder is a data folder that this server has locked.
type folder struct {
	path string
	temp bool
	lock *fileutil.LockedFile
}

// openFolder creates the folder if it is absent, and locks it. This lock fails at once if another server has it; etcd's
// own lock would wait for ever.
func openFolder(dir string) (*folder, error) {
	f := &folder{temp: dir == ""}
	var err error
	if f.temp {
		if f.path, err = os.MkdirTemp("", "gvrwatch-devserver-"); err != nil {
			return nil, fmt.Errorf("create a temporary data folder: %w", err)
		}
	} else {
		if f.path, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(f.path, 0o700); err != nil {
			return nil, fmt.Errorf("create the data folder: %w", err)
		}
		if err := checkPrivate(f.path); err != nil {
			return nil, err
		}
	}
	f.lock, err = fileutil.TryLockFile(filepath.Join(f.path, "lock"), os.O_WRONLY|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, fileutil.ErrLocked):
		return nil, fmt.Errorf("%w: %s", ErrInUse, f.path)
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w", err), f.close())
	}
	return f, nil
}

// checkPrivate returns an error if another user could put a token or data into the folder.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !ownedByUser(info):
		return fmt.Errorf("invalid data folder %q: must not belong to another user", path)
	case writableByOthers(info):
		return fmt.Errorf("invalid data folder %q: must not be writable by others: run chmod go-w or choose another",
			path)
	}
	return nil
}

// close unlocks the folder, and removes it if it is temporary.
func (f *folder) close() error {
	var errs []error
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	if f.temp {
		errs = append(errs, os.RemoveAll(f.path))
	}
	return errors.Join(errs...)
}

// writeSecret replaces a file atomically. Afterwards only its owner can read it, whatever its mode was.
func writeSecret(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
