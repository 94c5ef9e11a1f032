package file

import (
	"bufio"
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// create creates or replaces the file at path atomically. So an empty or short file is a damaged one. The function fill
// writes the payload of its snapshot, and need not check for errors of w. After an error the file may have been
// replaced, and its name may not be on disk.
func create(path string, unclean bool, fill func(w io.Writer) error) (l log, replaced bool, err error) {
	unfinished := path + ".gvrwatch-new"
	_ = drive.Remove(unfinished) // that a killed process may have left
	f, err := drive.Create(unfinished)
	if err != nil {
		return log{}, false, err
	}
	l, err = writeSnapshot(f, unclean, fill)
	created, statErr := f.Stat()
	if err = cmp.Or(err, drive.Sync(f), statErr, f.Close()); err == nil {
		err = drive.Rename(unfinished, path)
	}
	if err != nil {
		now, statErr := os.Lstat(path)
		return l, statErr == nil && os.SameFile(created, now), errors.Join(err, drive.Remove(unfinished))
	}
	return l, true, syncFolder(path)
}

// writeSnapshot writes a new file, and reads it again.
func writeSnapshot(f *os.File, unclean bool, fill func(w io.Writer) error) (log, error) {
	const start = recordsAt + headerSize
	p := payload{to: from(f, start)}
	w := bufio.NewWriterSize(&p, chunkSize)
	err := cmp.Or(fill(w), w.Flush())
	if err == nil {
		// The file gets its name when all of it is on disk.
		b := append([]byte(firstLine), head{start + p.length, unclean}.encode()...)
		_, err = drive.WriteAt(f, appendHeader(b, p.length, p.sum), 0)
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
