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

// asNobody runs f as a user who may do nothing special, if the test may do
// everything.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := syscall.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "positions.db")
	sample(t, path)
	whole := read(t, path)
	if err := os.Remove(path + ".gvrwatch-lock"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(p, 0o555); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(p, 0o755)
	}
	asNobody(t, func() {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("it is not the folder's mode that matters: %v", err)
		}
		for _, p := range []string{path, filepath.Join(dir, "new.db")} {
			_, err := file.Open(p)
			var pathError *fs.PathError
			if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &pathError) {
				t.Errorf("%s in a folder that can't be written to: %v, want an *fs.PathError of fs.ErrPermission", p, err)
			}
		}
	})
	if string(read(t, path)) != string(whole) {
		t.Error("the file was changed")
	}
}
