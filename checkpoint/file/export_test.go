package file

import "os"

// ReplaceFsync has f called instead of fsync until the function it returns is.
func ReplaceFsync(f func(*os.File) error) (restore func()) {
	was := fsync
	fsync = f
	return func() { fsync = was }
}
