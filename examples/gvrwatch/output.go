package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/liggitt/tabwriter"
	"k8s.io/cli-runtime/pkg/printers"
)

// output is stdout or stderr. Everything that the program writes passes it. It writes characters that are not
// printable, except line ends and tabs, as JSON escapes: servers and tenants choose much of what is printed, and a
// terminal interprets control characters and directions. In JSON they occur only within strings, so that the value
// remains the same. Write remembers the first error, because lost output must not look like success.
type output struct {
	w     io.Writer
	ended <-chan struct{} // closed by a signal

	mu  sync.Mutex
	buf []byte
	err error
}

// errUnread is the error of a Write that had to wait for a reader when a signal ended the program.
var errUnread = errors.New("nobody has read the output")

// Write returns at most unreadGrace after a signal, even if nobody reads what w has been given.
func (o *output) Write(b []byte) (int, error) {
	const unreadGrace = 250 * time.Millisecond
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	o.buf = appendEscaped(o.buf[:0], string(b), "\n\t")
	written := make(chan error, 1)
	go func() { // if nobody reads, it remains until the process exits
		_, err := o.w.Write(o.buf)
		written <- err
	}()
	var err error
	select {
	case err = <-written:
	case <-o.ended:
		select {
		case err = <-written:
		case <-time.After(unreadGrace):
			err = errUnread
		}
	}
	if err != nil {
		o.err = fmt.Errorf("can't write the output: %w", err)
		return 0, o.err
	}
	return len(b), nil
}

// appendEscaped appends s with each character that is neither printable nor in keep as a JSON escape, such as \u001b.
func appendEscaped(to []byte, s, keep string) []byte {
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
		if unicode.IsPrint(r) || strings.ContainsRune(keep, r) {
			to = utf8.AppendRune(to, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			to = fmt.Appendf(to, `\u%04x`, unit)
		}
	}
}

// printLine writes cells, separated by tabs, as one line of data.
func printLine(w io.Writer, cells ...string) error {
	var line []byte
	for i, cell := range cells {
		if i > 0 {
			line = append(line, '\t')
		}
		line = appendEscaped(line, cell, "")
	}
	_, err := w.Write(append(line, '\n'))
	return err
}

// table aligns the cells of lines.
type table struct {
	*tabwriter.Writer // remembers the widths of earlier rows
	columns           []string
	started           bool
}

func newTable(w io.Writer, columns ...string) *table {
	return &table{Writer: printers.GetNewTabWriter(w), columns: columns}
}

// row writes one row, and before the first one the header. Cells beyond the last column are left out.
func (t *table) row(cells ...string) error {
	if !t.started {
		t.started = true
		if err := printLine(t, t.columns...); err != nil {
			return err
		}
	}
	return printLine(t, cells[:len(t.columns)]...)
}

// printMessage writes a text for people to stderr, as one line even if an error in it has several. Each call is one
// Write, because several Streams share stderr.
func printMessage(stderr io.Writer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(stderr, "gvrwatch:", strings.Join(strings.Fields(text), " "))
}

// joinNames lists the first ten names, as the errors of package discovery do: servers choose how many there are, and
// how long.
func joinNames(names []string) string {
	const most, longest = 10, 63 + 1 + 63 + 1 + 253 // of a plural, a version and a group
	var text []string
	for _, name := range names[:min(len(names), most)] {
		if len(name) > longest {
			name = strings.ToValidUTF8(name[:longest], "") + "..."
		}
		text = append(text, name)
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(text, ", "), more)
	}
	return strings.Join(text, ", ")
}
