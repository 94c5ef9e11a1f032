package recording

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// mend makes a file whole that a killed writer has left, so that another gzip member can follow: the last member gets
// its end after its last flush, and the lines that can be read after that become a member of their own. It does nothing
// to a file that is whole, and refuses one that no Writer has written, and one that is damaged.
func mend(f *os.File, path string) error {
	if err := checkOurs(f); err != nil {
		return &Error{path, 0, fmt.Errorf("nothing can be appended to it: %w", err)}
	}
	begin, err := lastMember(f)
	if errors.Is(err, errTorn) {
		flushes, end, err := mended(f, begin)
		if err != nil {
			return err
		}
		if err := f.Truncate(begin + flushes); err != nil {
			return err
		}
		_, err = f.WriteAt(end, begin+flushes)
		return err
	}
	if err != nil {
		return &Error{path, 0, fmt.Errorf("nothing can be appended to it: %w", err)}
	}
	return nil
}

// checkOurs returns an error unless a file begins as a Writer begins one, as far as it goes.
func checkOurs(f *os.File) error {
	const first = `{"type":"RUN"`
	isPrefix := func(b []byte, of string) bool { return string(b) == of[:min(len(b), len(of))] }
	var header bytes.Buffer
	_ = gzip.NewWriter(&header).Flush() // to memory
	raw := make([]byte, gzipHeader)
	n, err := io.ReadFull(io.NewSectionReader(f, 0, gzipHeader), raw)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if !isPrefix(raw[:n], header.String()) {
		return errors.New("it begins like no file that --record has written")
	}
	text := make([]byte, len(first))
	n, _ = io.ReadFull(flate.NewReader(io.NewSectionReader(f, gzipHeader, 1<<62)), text)
	if !isPrefix(text[:n], first) {
		return errors.New("its first line is no line of a recording")
	}
	return nil
}

var errTorn = errors.New("it ends within a gzip member")

// lastMember returns where the last gzip member of a file begins. If that has no end, the error is errTorn.
func lastMember(f *os.File) (int64, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	c := &counter{r: bufio.NewReaderSize(f, 256<<10)}
	var member *gzip.Reader
	for {
		begin := c.n
		var err error
		if member == nil {
			member, err = gzip.NewReader(c)
		} else {
			err = member.Reset(c)
		}
		if err == io.EOF {
			return begin, nil
		}
		if err == nil {
			member.Multistream(false)
			_, err = io.Copy(io.Discard, member)
		}
		if err == io.ErrUnexpectedEOF {
			return begin, errTorn
		}
		if err != nil {
			return begin, err
		}
	}
}

// counter counts what a gzip.Reader reads. As an io.ByteReader it is not read beyond the end of a member.
type counter struct {
	r *bufio.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

const gzipHeader = 10 // bytes, as gzip.Writer writes it without a name

// flushed is how each flush ends.
var flushed = []byte{0, 0, 0xff, 0xff}

// mended returns how much of the torn member that begins at an offset has been flushed, and what must follow that. A
// member without a flush goes.
func mended(f *os.File, begin int64) (flushes int64, end []byte, err error) {
	member, err := io.ReadAll(io.NewSectionReader(f, begin, 1<<62))
	if err != nil {
		return 0, nil, err
	}
	last := []byte{3, 0} // an empty block, which is the last one
	size := int64(0)     // of the text that was flushed
	for kept := member; ; kept = kept[:len(kept)-1] {
		at := bytes.LastIndex(kept, flushed)
		if at < gzipHeader {
			break
		}
		kept = kept[:at+len(flushed)]
		sum, text := crc32.NewIEEE(), bytes.NewReader(slices.Concat(kept[gzipHeader:], last))
		n, err := io.Copy(sum, flate.NewReader(text))
		if err == nil && text.Len() == 0 { // it does not end before
			flushes, size = int64(len(kept)), n
			end = binary.LittleEndian.AppendUint32(bytes.Clone(last), sum.Sum32())
			end = binary.LittleEndian.AppendUint32(end, uint32(n))
			break
		}
	}
	rest := textAfter(member, size)
	if len(rest) == 0 {
		return flushes, end, nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(rest)
	err = errors.Join(err, z.Close())
	return flushes, append(end, b.Bytes()...), err
}

// textAfter returns the whole lines in a torn member after the first bytes of its text.
func textAfter(member []byte, first int64) []byte {
	if len(member) < gzipHeader {
		return nil
	}
	text := flate.NewReader(bytes.NewReader(member[gzipHeader:]))
	if _, err := io.CopyN(io.Discard, text, first); err != nil {
		return nil
	}
	rest, _ := io.ReadAll(io.LimitReader(text, mostLine)) // to where it is torn
	return rest[:bytes.LastIndexByte(rest, '\n')+1]
}
