package file

import "os"

// ReplaceFsync replaces fsync by f until restore is called.
func ReplaceFsync(f func(*os.File) error) (restore func()) {
	was := fsync
	fsync = f
	return func() { fsync = was }
}
