package file

import "os"

const NoFollow = noFollow

var CheckOwner = checkOwner

// ReplaceFsync replaces fsync by f until restore is called.
func ReplaceFsync(f func(*os.File) error) (restore func()) { return replace(&fsync, f) }

// ReplaceMaxFile replaces maxFile until restore is called.
func ReplaceMaxFile(size int64) (restore func()) { return replace(&maxFile, size) }

func replace[T any](variable *T, by T) (restore func()) {
	was := *variable
	*variable = by
	return func() { *variable = was }
}
