package screen

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Screen is what a program prints to. While one goroutine writes to a terminal others wait, because stdout and stderr
// are one terminal for most users.
type Screen struct {
	Out, ErrOut *Output
}

// New returns a Screen with colours as with Color "auto". An output is a terminal if it is a file of one, or if it has
// a method Size() (columns, rows int). Once ended is closed, a write waits at most 250 ms for a reader.
func New(out, errOut io.Writer, ended <-chan struct{}) *Screen {
	s := &Screen{Out: newOutput(out, ended), ErrOut: newOutput(errOut, ended)}
	if s.ErrOut.to.sequences && !isPipe(out) { // what reads the pipe may print to the same terminal
		s.ErrOut.status.errOut = s.ErrOut.to
	}
	if s.Out.to.size != nil && s.ErrOut.to.size != nil {
		s.Out.status = s.ErrOut.status
	}
	s.SetColor(Auto)
	return s
}

// SetColor sets for both outputs when colours are used. It must be called before the first write.
func (s *Screen) SetColor(c Color) {
	for _, o := range []*Output{s.Out, s.ErrOut} {
		o.to.color = c == Always || c != Never && o.to.sequences && os.Getenv("NO_COLOR") == ""
	}
}

// IsTerminal reports whether what is written to w appears in a terminal.
func IsTerminal(w io.Writer) bool { return outputOf(w).to.size != nil }

func isPipe(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}

// sizeOf returns a function that returns the size of the terminal, or nil if w is no terminal.
func sizeOf(w io.Writer) func() (columns, rows int) {
	if t, ok := w.(interface{ Size() (columns, rows int) }); ok {
		return t.Size
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() (columns, rows int) {
		columns, rows, _ = term.GetSize(int(f.Fd()))
		return columns, rows
	}
}

// statusLine is the last line of a terminal. Its cursor stays in the first column: what is erased then is all of the
// line, even if the terminal has become narrower and has wrapped it.
type statusLine struct {
	mu      sync.Mutex // locked while something is written to an output of the terminal
	errOut  *sink      // nil if there is no status line
	text    string     // escaped; empty if there is nothing to show
	drawn   string     // what the terminal shows
	midLine bool       // the last write did not end its line
	unread  bool       // a write got ErrUnread: do not wait again
}

// Sequences for terminals. Without autowrap, a line can't wrap even if the terminal finds a character wider than we do,
// or has become narrower since it was asked for its width.
const (
	eraseBelow  = "\x1b[J"
	autowrapOff = "\x1b[?7l"
	autowrapOn  = "\x1b[?7h"
)

// ShowStatus keeps the newest result of text in the last line of the terminal, until hide is called or ended is closed.
// It asks for the text 5 times per second, and draws the line again after each write that erased it. It does nothing if
// stderr is no terminal, TERM is "dumb", or stdout is a pipe. No line is drawn while the program is in the background
// of its shell. Hide
// must be called; it erases the line and waits for a call of text. Only one status can be shown at a time.
func (s *Screen) ShowStatus(text func() string) (hide func()) {
	l := s.ErrOut.status
	if l.errOut == nil {
		return func() {}
	}
	hidden, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / 5)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.set(text())
				continue
			case <-hidden:
			case <-s.ErrOut.to.ended:
			}
			l.set("")
			return
		}
	}()
	return sync.OnceFunc(func() {
		close(hidden)
		<-done
	})
}

func (l *statusLine) set(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = string(AppendEscaped(nil, text, ""))
	if l.text == "" {
		l.erase()
	}
	l.draw()
}

// draw shows the text, unless it is shown already.
func (l *statusLine) draw() {
	if l.text == "" || l.midLine || l.errOut.hasEnded() || !inForeground(l.errOut.w) {
		return
	}
	columns, _ := l.errOut.columnsAndRows()
	line := cut(l.text, columns-1, false) // eraseBelow erases at least one column
	line = string(appendStyled(nil, line, Dim, l.errOut.color))
	if line != l.drawn {
		l.drawn = line
		_ = l.send(l.errOut, []byte("\r"+autowrapOff+line+eraseBelow+autowrapOn+"\r"))
	}
}

// erase makes way for a write to the terminal.
func (l *statusLine) erase() {
	if l.drawn != "" && inForeground(l.errOut.w) { // otherwise the cursor is in a line of the shell
		_ = l.send(l.errOut, []byte("\r"+eraseBelow)) // which remembers the error
	}
	l.drawn = ""
}

// Columns returns how wide a text for w should be: as wide as the terminal, but at least least and at most most.
func Columns(w io.Writer, least, most int) int {
	to := outputOf(w).to
	if to.size == nil {
		return most
	}
	columns, _ := to.columnsAndRows()
	return min(max(columns, least), most)
}

// columnsAndRows returns the size of a terminal, or 80 and 24 if it does not know.
func (s *sink) columnsAndRows() (columns, rows int) {
	columns, rows = s.size()
	return cmp.Or(max(columns, 0), 80), cmp.Or(max(rows, 0), 24)
}
