package file

import "os"

const NoFollow = noFollow

var CheckOwner = checkOwner

type Disk = disk

// ReplaceDisk replaces the disk by what f makes of it until restore is called.
func ReplaceDisk(f func(Disk) Disk) (restore func()) { return replace(&drive, f(drive)) }

// ReplaceFsync replaces fsync by f until restore is called.
func ReplaceFsync(f func(*os.File) error) (restore func()) {
	return ReplaceDisk(func(d Disk) Disk { return syncing{d, f} })
}

type syncing struct {
	Disk
	sync func(*os.File) error
}

func (s syncing) Sync(f *os.File) error { return s.sync(f) }

// ReplaceMaxFile replaces maxFile until restore is called.
func ReplaceMaxFile(size int64) (restore func()) { return replace(&maxFile, size) }

// ReplaceSlack replaces slack until restore is called.
func ReplaceSlack(size int64) (restore func()) { return replace(&slack, size) }

func replace[T any](variable *T, by T) (restore func()) {
	was := *variable
	*variable = by
	return func() { *variable = was }
}
