package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// mostLine is how long a line may be. An object has at most 16 MiB.
const mostLine = 64 << 20

// Reader reads a recording from its beginning.
type Reader struct {
	file *os.File
	path string
}

// Open opens a recording: what a Writer has written, or its lines without compression. It reads the first line. The
// error is an *Error, or that of the file system.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{f, path}
	for _, err := range r.Entries() {
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return r, nil
	}
	return nil, errors.Join(r.invalid(0, errors.New("it is empty")), f.Close())
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

func (r *Reader) invalid(line int, err error) error { return &Error{r.path, line, err} }

// Entries returns what has happened, from the beginning of the file. The first one begins a run. An error, which ends
// the sequence, is an *Error or that of the file system. One sequence at a time can be read.
func (r *Reader) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines, err := r.lines()
		p := parser{}
		for n := 1; err == nil; n++ {
			var text []byte
			if text, err = lines.next(); err != nil {
				break
			}
			e, some, wrong := p.entry(text)
			if wrong != nil {
				err = r.invalid(n, wrong)
			} else if some && !yield(e, nil) {
				return
			}
		}
		if err != io.EOF {
			yield(Entry{}, err)
		}
	}
}

func (r *Reader) lines() (*lines, error) {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	file := bufio.NewReaderSize(r.file, 256<<10)
	begin, err := file.Peek(2)
	switch {
	case len(begin) > 0 && begin[0] == '{':
		return &lines{r, file}, nil
	case len(begin) == 0 && err == io.EOF:
		return nil, io.EOF
	case !bytes.Equal(begin, []byte{0x1f, 0x8b}):
		return nil, r.invalid(0, errors.New("must be what --record has written: it begins like no gzip and no JSON"))
	}
	text, err := gzip.NewReader(file)
	if err == io.ErrUnexpectedEOF {
		return nil, io.EOF
	}
	if err != nil {
		return nil, r.invalid(0, err)
	}
	return &lines{r, bufio.NewReaderSize(text, 256<<10)}, nil
}

// lines are the lines of a file. The last one may lack its end: a writer was killed, or has not written all of it.
type lines struct {
	of   *Reader
	text *bufio.Reader
}

// next returns the next line, which is valid until the next call, or io.EOF.
func (l *lines) next() ([]byte, error) {
	line, err := l.text.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		long := bytes.Clone(line)
		for err == bufio.ErrBufferFull && len(long) <= mostLine {
			line, err = l.text.ReadSlice('\n')
			long = append(long, line...)
		}
		if line = long; len(long) > mostLine {
			return nil, l.of.invalid(0, fmt.Errorf("a line has more than %d MiB, the limit", mostLine>>20))
		}
	}
	switch {
	case err == nil:
		return line, nil
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return nil, io.EOF
	case errors.As(err, new(*os.PathError)):
		return nil, err
	}
	return nil, l.of.invalid(0, fmt.Errorf("it is damaged: %w", err))
}

// parser makes entries of lines.
type parser struct {
	began     bool
	resources map[string]gvr.Resource
	columns   map[string]json.RawMessage // of the last row of a resource
}

// entry returns the entry of a line. It reports false if the line has none.
func (p *parser) entry(text []byte) (e Entry, some bool, err error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return e, false, errors.New("it is no JSON of a recording")
	}
	if err := l.check(); err != nil {
		return e, false, err
	}
	if !p.began && l.Type != typeRun {
		return e, false, errors.New("the first line must have the type RUN")
	}
	e.Time = l.Time
	switch l.Type {
	case typeRun:
		p.began, p.resources, p.columns = true, map[string]gvr.Resource{}, map[string]json.RawMessage{}
		e.Run = l.Run
		e.Run.Began = l.Time
		return e, true, nil
	case typeResource:
		p.resources[l.Resource] = l.Definition.resource()
		return e, false, nil
	case typeAlive:
		return e, true, nil
	}
	r, ok := p.resources[l.Resource]
	if !ok {
		return e, false, errors.New("its resource is not defined before")
	}
	if l.Columns != nil {
		p.columns[l.Resource] = l.Columns
	}
	if columns := p.columns[l.Resource]; l.Cells != nil && columns != nil {
		e.Row = rowOf(columns, l.Cells)
	}
	e.Event = l.event(r)
	return e, true, nil
}

// row is what Entry.Row has.
type row struct {
	Columns json.RawMessage `json:"columns"`
	Cells   json.RawMessage `json:"cells"`
}

func rowOf(columns, cells json.RawMessage) json.RawMessage {
	b := make([]byte, 0, len(columns)+len(cells)+24)
	b = append(append(b, `{"columns":`...), columns...)
	return append(append(append(b, `,"cells":`...), cells...), '}')
}
