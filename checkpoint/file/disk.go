package file

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// disk has the calls that change what is on a disk. Tests let them fail, and end the program at each of them.
type disk interface {
	Create(path string) (*os.File, error)
	WriteAt(f *os.File, b []byte, at int64) (int, error)
	Truncate(f *os.File, size int64) error
	Sync(f *os.File) error // of a file or a folder
	Rename(from, to string) error
	Remove(path string) error
}

var drive disk = realDisk{} // tests replace it

type realDisk struct{}

func (realDisk) Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (realDisk) WriteAt(f *os.File, b []byte, at int64) (int, error) { return f.WriteAt(b, at) }

func (realDisk) Truncate(f *os.File, size int64) error { return f.Truncate(size) }

func (realDisk) Sync(f *os.File) error { return f.Sync() }

func (realDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (realDisk) Remove(path string) error { return os.Remove(path) }

// from returns a writer to a file that begins at an offset.
func from(f *os.File, at int64) io.Writer { return io.NewOffsetWriter(onDrive{f}, at) }

type onDrive struct{ *os.File }

func (o onDrive) WriteAt(b []byte, at int64) (int, error) { return drive.WriteAt(o.File, b, at) }

// syncFolder syncs the folder of a file, so that the file's name is on disk.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows can't sync folders
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(drive.Sync(d), d.Close())
}
