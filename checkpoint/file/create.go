package file

import (
	"bufio"
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

var fsync = (*os.File).Sync // tests replace it

// create creates or replaces the file at path atomically. So an empty or short file is a damaged one. The function fill
// writes the payload of its snapshot, and need not check for errors of w. After an error the file may have been
// replaced, and its name may not be on disk.
func create(path string, fill func(w io.Writer) error) (l log, replaced bool, err error) {
	unfinished := path + ".gvrwatch-new"
	_ = os.Remove(unfinished) // that a killed process may have left
	f, err := os.OpenFile(unfinished, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return log{}, false, err
	}
	l, err = writeSnapshot(f, fill)
	created, statErr := f.Stat()
	if err = cmp.Or(err, fsync(f), statErr, f.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		now, statErr := os.Lstat(path)
		return l, statErr == nil && os.SameFile(created, now), errors.Join(err, os.Remove(unfinished))
	}
	return l, true, syncFolder(path)
}

// writeSnapshot writes a new file, and reads it again.
func writeSnapshot(f *os.File, fill func(w io.Writer) error) (log, error) {
	const start = int64(len(firstLine) + headerSize)
	p := payload{to: io.NewOffsetWriter(f, start)}
	w := bufio.NewWriterSize(&p, chunkSize)
	err := cmp.Or(fill(w), w.Flush())
	if err == nil {
		_, err = f.WriteAt(appendHeader([]byte(firstLine), p.length, p.sum), 0)
	}
	if err != nil {
		return log{}, err
	}
	return parse(f, start+p.length)
}

// payload writes the payload of a record.
type payload struct {
	to     io.Writer
	length int64
	sum    uint32
}

func (p *payload) Write(b []byte) (int, error) {
	p.length += int64(len(b))
	p.sum = crc32.Update(p.sum, castagnoli, b)
	return p.to.Write(b)
}

// syncFolder syncs the folder of a file, so that the file's name is on disk.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows can't sync folders
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(fsync(d), d.Close())
}
