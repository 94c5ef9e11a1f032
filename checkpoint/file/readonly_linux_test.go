package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

func TestReadOnlyFolderIsAPermissionError(t *testing.T) {
	dir := t.TempDir()
	path, locked := filepath.Join(dir, "positions.db"), filepath.Join(dir, "locked.db")
	for _, p := range []string{path, locked} {
		closeStore(t, open(t, p))
	}
	if err := errors.Join(os.Remove(path+".gvrwatch-lock"), os.Chmod(locked+".gvrwatch-lock", 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(p, 0o555); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(p, 0o755)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if os.Geteuid() == 0 { // and root may do everything
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
			}
		}
		for _, p := range []string{path, locked, filepath.Join(dir, "new.db")} {
			_, err := file.Open(p)
			if !errors.Is(err, fs.ErrPermission) || !errors.As(err, new(*fs.PathError)) {
				t.Errorf("%s in a read-only folder: %v, want an *fs.PathError of fs.ErrPermission", p, err)
			}
		}
	}()
	<-done
}
