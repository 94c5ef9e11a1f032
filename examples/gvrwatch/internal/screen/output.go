package screen

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Output is stdout or stderr. Everything that the program prints passes it. Its Write writes characters that are not
// printable, except line ends and tabs, as JSON escapes: servers and tenants choose much of what is printed, and a
// terminal interprets control characters and directions. In JSON they occur only within strings, so that the value
// remains the same. It remembers the first error, because lost output must not look like success.
type Output struct {
	to     *sink
	status *statusLine // of the terminal; never nil
	buf    []byte      // of Write
}

// sink is where an output goes.
type sink struct {
	w         io.Writer
	ended     <-chan struct{}            // closed by a signal
	size      func() (columns, rows int) // nil if w is no terminal
	sequences bool                       // w interprets escape sequences
	color     bool
	err       error // the first one; statusLine.mu guards it
}

func newOutput(w io.Writer, ended <-chan struct{}) *Output {
	to := &sink{w: w, ended: ended, size: sizeOf(w)}
	to.sequences = to.size != nil && os.Getenv("TERM") != "dumb"
	return &Output{to: to, status: &statusLine{}}
}

// outputOf returns w as an Output.
func outputOf(w io.Writer) *Output {
	if o, ok := w.(*Output); ok {
		return o
	}
	return newOutput(w, nil)
}

// ErrUnread is the error of a write that had to wait for a reader when a signal ended the program.
var ErrUnread = errors.New("nobody has read the output")

// Err returns the error of the first write that failed.
func (o *Output) Err() error {
	o.status.mu.Lock()
	defer o.status.mu.Unlock()
	return o.to.err
}

// IsTerminal reports whether the output is a terminal.
func (o *Output) IsTerminal() bool { return o.to.size != nil }

// HasColor reports whether styles are used.
func (o *Output) HasColor() bool { return o.to.color }

// Write returns at most 250 ms after a signal, even if nobody reads what has been written.
func (o *Output) Write(b []byte) (int, error) {
	o.status.mu.Lock()
	defer o.status.mu.Unlock()
	if o.to.err != nil {
		return 0, o.to.err
	}
	o.buf = AppendEscaped(o.buf[:0], string(b), "\n\t")
	if err := o.print(o.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}

// writeEscaped writes what AppendEscaped has escaped and our own sequences.
func (o *Output) writeEscaped(b []byte) error {
	o.status.mu.Lock()
	defer o.status.mu.Unlock()
	return o.print(b)
}

// Raw returns a writer for output that must pass as it is: control characters are not escaped.
func (o *Output) Raw() io.Writer { return raw{o} }

type raw struct{ to *Output }

func (r raw) Write(b []byte) (int, error) {
	if err := r.to.writeEscaped(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (o *Output) print(b []byte) error {
	o.status.erase()
	if err := o.status.send(o.to, b); err != nil {
		return err
	}
	if len(b) > 0 {
		o.status.midLine = b[len(b)-1] != '\n'
	}
	o.status.draw()
	return nil
}

// send writes b, unless something before it was lost.
func (l *statusLine) send(to *sink, b []byte) error {
	if to.err != nil {
		return to.err
	}
	err := ErrUnread
	if !l.unread {
		err = to.tryToSend(b)
	}
	if err != nil {
		l.unread = errors.Is(err, ErrUnread)
		to.err = fmt.Errorf("can't write the output: %w", err)
	}
	return to.err
}

func (s *sink) tryToSend(b []byte) error {
	const grace = 250 * time.Millisecond
	written := make(chan error, 1)
	go func() { // if nobody reads, it remains until the process exits
		_, err := s.w.Write(b)
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-s.ended:
	}
	select {
	case err := <-written:
		return err
	case <-time.After(grace):
		return ErrUnread
	}
}

func (s *sink) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// mostMarks is how many characters without a width may follow one another. Alphabets have up to about six.
const mostMarks = 8

// AppendEscaped appends s with each character that is neither printable nor in keep as a JSON escape, such as \u001b.
// Of characters without a width, which are in the cell of the one before, it also escapes those beyond the eighth:
// without that they pass every cut.
func AppendEscaped(to []byte, s, keep string) []byte {
	marks := 0
	for {
		n := 0
		for n < len(s) && ' ' <= s[n] && s[n] <= '~' { // nearly everything, so it is copied at once
			n++
		}
		to = append(to, s[:n]...)
		if n == len(s) {
			return to
		}
		r, size := utf8.DecodeRuneInString(s[n:])
		s = s[n+size:]
		if n > 0 || runeWidth(r) > 0 {
			marks = 0
		}
		if runeWidth(r) == 0 {
			marks++
		}
		if marks <= mostMarks && unicode.IsPrint(r) || strings.ContainsRune(keep, r) {
			to = utf8.AppendRune(to, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			to = fmt.Appendf(to, `\u%04x`, unit)
		}
	}
}
