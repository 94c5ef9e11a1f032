package jetstream_test

import (
	"syscall"
	"testing"
)

// smallDisk returns a folder on a disk of 6 MB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("a disk of 6 MB can't be mounted: %v", err) // as a rule only root may
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
