package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

const (
	// maxValue bounds an event, and a row of a list. It is that of the client, which refuses what exceeds it: it passes
	// unchanged.
	maxValue = 16 << 20
	// maxList bounds a list. The client refuses lists of more than 64 MiB, and a Stream then requests smaller pages, so
	// this bounds only what the client does not see.
	maxList = 128 << 20
)

var (
	errValueTooLarge = errors.New("invalid Table: one of its rows or fields has more than 16 MiB, the limit")
	errListTooLarge  = errors.New("invalid Table: it has more than 128 MiB, the limit")
)

// source decodes the values of a body one after the other. It never reads on after a complete value.
type source struct {
	*json.Decoder // reads from the source
	body          io.Reader
	pending       []byte // read already
	err           error  // of body
	read          int64  // by the Decoder
	keep          bool
	kept          []byte // what was read while keep was set
	most          int64  // that the Decoder may read in all
	unlimited     bool   // the Decoder is not used any more
}

func newSource(from io.Reader, most int64) *source {
	s := &source{body: from, most: most}
	s.Decoder = json.NewDecoder(s)
	return s
}

// Read is for the Decoder, and for what returns the rest.
func (s *source) Read(p []byte) (n int, err error) {
	switch {
	case s.unlimited:
	case s.read-s.InputOffset() > maxValue, len(s.kept) > maxValue:
		return 0, errValueTooLarge
	case s.read > s.most:
		return 0, errListTooLarge
	}
	if len(s.pending) > 0 {
		n = copy(p, s.pending)
		s.pending = s.pending[n:]
	} else if s.err == nil {
		n, s.err = s.body.Read(p)
	}
	s.read += int64(n)
	if s.keep {
		s.kept = append(s.kept, p[:n]...)
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

// rest returns a reader of what follows the last value. Nothing can be decoded afterwards.
func (s *source) rest() io.Reader {
	s.unlimited = true
	return io.MultiReader(s.Buffered(), s)
}

// whole returns a reader of the whole answer, if keep was set from the beginning. Nothing can be decoded afterwards.
func (s *source) whole() io.Reader {
	s.unlimited, s.keep = true, false
	return io.MultiReader(bytes.NewReader(s.kept), s)
}

// shrink releases the Decoder's buffer, which does not shrink by itself.
func (s *source) shrink() {
	buffered, _ := io.ReadAll(s.Buffered()) // from memory
	s.pending, s.read = append(buffered, s.pending...), 0
	s.Decoder = json.NewDecoder(s)
}
