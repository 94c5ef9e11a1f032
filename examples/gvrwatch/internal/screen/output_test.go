package screen_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

func TestOutputEscapes(t *testing.T) {
	tests := []struct{ text, written, line, why string }{
		{"a é 中 👍 ~\\u001b", "a é 中 👍 ~\\u001b", "a é 中 👍 ~\\u001b", "what is printable remains"},
		{"\x1b[31m\x7f\u009b\r", `\u001b[31m\u007f\u009b\u000d`, `\u001b[31m\u007f\u009b\u000d`,
			"controls are escaped"},
		{"\u202e\u2066\u200b\ufeff\u2028\ue000", `\u202e\u2066\u200b\ufeff\u2028\ue000`,
			`\u202e\u2066\u200b\ufeff\u2028\ue000`, "so is what changes the direction, or is not visible"},
		{"\U000e0001", `\udb40\udc01`, `\udb40\udc01`, "as in JSON, an escape has four digits"},
		{"\xff\xc3", "\ufffd\ufffd", "\ufffd\ufffd", "invalid UTF-8 is replaced"},
		{"e\u0301\u0302a\u0301", "e\u0301\u0302a\u0301", "e\u0301\u0302a\u0301", "marks remain"},
		{strings.Repeat("กี่", 9), strings.Repeat("กี่", 9), strings.Repeat("กี่", 9),
			"so do those of each letter of an alphabet"},
		{marks(8) + "e" + marks(9), marks(8) + "e" + marks(8) + `\u0301`, marks(8) + "e" + marks(8) + `\u0301`,
			"but not more than a character can have"},
		{marks(5) + "\u1161\u11a8" + marks(2), marks(5) + "\u1161\u11a8" + marks(1) + `\u0301`,
			marks(5) + "\u1161\u11a8" + marks(1) + `\u0301`, "of all kinds without a width together"},
		{"a\tb\n", "a\tb\n", `a\u0009b\u000a`, "only lines and cells may be separated"},
	}
	for _, tt := range tests {
		var written, line bytes.Buffer
		out := screen.New(&written, &line, nil)
		if n, err := out.Out.Write([]byte(tt.text)); n != len(tt.text) || err != nil {
			t.Errorf("%q: Write returned %d, %v", tt.text, n, err)
		}
		for _, w := range []io.Writer{&line, out.ErrOut} {
			line.Reset()
			if err := screen.WriteLine(w, screen.Text{Text: tt.text, Style: screen.Red}); err != nil {
				t.Error(err)
			}
			got := []string{written.String(), line.String()}
			if diff := cmp.Diff([]string{tt.written, tt.line + "\n"}, got); diff != "" {
				t.Errorf("%q: %s (-want +got):\n%s", tt.text, tt.why, diff)
			}
		}
	}
}

func marks(n int) string { return strings.Repeat("\u0301", n) }

// TestMarksAreCut: what has no width is cut with the cell that it is in.
func TestMarksAreCut(t *testing.T) {
	for _, name := range []string{marks(100_000), "a" + marks(100_000), strings.Repeat("a"+marks(20), 5000)} {
		w := &sizedBuffer{columns: 80}
		out := screen.New(w, &bytes.Buffer{}, nil).Out
		table := &screen.Table{Out: out}
		if err := table.Columns(screen.Column{Title: "NAME", Name: true}, screen.Column{Title: "AGE"}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			table.Row(nil, screen.Text{Text: name}, screen.Text{Text: "1d"}), table.Flush(),
			screen.WriteLine(out, screen.Text{Text: name, Most: 80}),
		); err != nil {
			t.Fatal(err)
		}
		const most = 4 * 80 * (1 + 8*2) // two lines and a header with each cell full of marks, and sequences
		if n := w.Len(); n > most {
			t.Errorf("%.10q: %d bytes were written", name, n)
		}
	}
}

func TestBlockedWriteEndsAfterSignal(t *testing.T) {
	tests := []struct {
		reads time.Duration // after the signal
		want  error
		why   string
	}{
		{time.Hour, screen.ErrUnread, "without a reader Write returns soon after the signal"},
		{100 * time.Millisecond, nil, "a slow reader gets what was begun"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			ended := make(chan struct{})
			o := screen.New(w, io.Discard, ended).Out
			time.AfterFunc(time.Hour, func() { close(ended) })
			time.AfterFunc(time.Hour+tt.reads, func() { _, _ = io.Copy(io.Discard, r) })
			began := time.Now()
			for range 2 {
				if _, err := o.Write([]byte("x")); !errors.Is(err, tt.want) {
					t.Errorf("%s: got %v", tt.why, err)
				}
			}
			if took := time.Since(began) - time.Hour; took <= 0 || took > 500*time.Millisecond {
				t.Errorf("%s: two writes returned %v after the signal", tt.why, took)
			}
			if !errors.Is(o.Err(), tt.want) {
				t.Errorf("%s: Err returned %v", tt.why, o.Err())
			}
			time.Sleep(2 * time.Hour)
			w.Close()
		})
	}
}

// brokenPipe fails from the second write on, and then counts.
type brokenPipe struct {
	bytes.Buffer
	writes int
}

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.writes++; p.writes > 1 {
		return 0, syscall.EPIPE
	}
	return p.Buffer.Write(b)
}

func TestOutputRemembersTheFirstError(t *testing.T) {
	var pipe brokenPipe
	o := screen.New(&pipe, io.Discard, nil).Out
	table := &screen.Table{Out: o, Live: true}
	if err := table.Columns(screen.Column{Title: "NAME"}); err != nil {
		t.Fatal(err)
	}
	var written []string
	for i, want := range []error{nil, syscall.EPIPE, syscall.EPIPE} {
		name := string('a' + rune(i))
		err := table.Row(func() { written = append(written, name) }, screen.Text{Text: name})
		if err == nil {
			err = table.Flush() // the first row
		}
		if !errors.Is(err, want) {
			t.Errorf("row %d: want %v, got %v", i, want, err)
		}
	}
	if err := screen.WriteLine(o, screen.Text{Text: "lost"}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("WriteLine: got %v", err)
	}
	if pipe.writes != 2 || pipe.String() != "NAME\na\n" {
		t.Errorf("%d writes: %q", pipe.writes, pipe.String())
	}
	if diff := cmp.Diff([]string{"a"}, written); diff != "" {
		t.Errorf("rows that were reported as written (-want +got):\n%s", diff)
	}
}

func TestColor(t *testing.T) {
	const plain, red = "\x1b[?7lX\x1b[?7h\n", "\x1b[?7l\x1b[31mX\x1b[0m\x1b[?7h\n"
	tests := []struct {
		color         screen.Color
		noColor, term string
		terminal      bool
		want          string
		why           string
	}{
		{screen.Auto, "", "xterm", true, red, "a terminal has colours"},
		{screen.Auto, "", "xterm", false, "X\n", "nothing else has"},
		{"", "", "xterm", true, red, "zero is auto"},
		{screen.Auto, "1", "xterm", true, plain, "NO_COLOR"},
		{screen.Auto, "", "dumb", true, "X\n", "a dumb terminal gets no sequence at all"},
		{screen.Always, "1", "xterm", true, red, "a flag is stronger than NO_COLOR"},
		{screen.Always, "", "dumb", false, "\x1b[31mX\x1b[0m\n", "colours in a file, but no other sequence"},
		{screen.Never, "", "xterm", true, plain, "never"},
	}
	for _, tt := range tests {
		t.Setenv("NO_COLOR", tt.noColor)
		t.Setenv("TERM", tt.term)
		var out bytes.Buffer
		var w io.Writer = &out
		if tt.terminal {
			w = sized{&out}
		}
		s := screen.New(w, io.Discard, nil)
		s.SetColor(tt.color)
		table := &screen.Table{Out: s.Out, NoHeaders: true}
		_ = table.Columns(screen.Column{})
		_ = table.Row(nil, screen.Text{Text: "X", Style: screen.Red})
		_ = table.Flush()
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

// sized is a terminal that does not know its size.
type sized struct{ io.Writer }

func (sized) Size() (columns, rows int) { return 0, 0 }

func TestStyles(t *testing.T) {
	var out bytes.Buffer
	s := screen.New(&out, io.Discard, nil)
	s.SetColor(screen.Always)
	err := screen.WriteLine(s.Out,
		screen.Text{Text: "\x1b[31m", Style: screen.Bold}, screen.Text{Text: "-", Style: 200},
		screen.Text{Style: screen.Green}, screen.Text{Text: "a\n", Style: screen.Magenta})
	if err != nil {
		t.Fatal(err)
	}
	const want = "\x1b[1m\\u001b[31m\x1b[0m-\x1b[1;35ma\\u000a\x1b[0m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("only our sequences are left; an unknown style and an empty text have none (-want +got):\n%s", diff)
	}
}

func TestColorIsAFlag(t *testing.T) {
	c := screen.Auto
	if err := c.Set("never"); err != nil || c.String() != "never" {
		t.Errorf("got %v, %v", c, err)
	}
	err := c.Set("blue")
	if err == nil || !strings.Contains(err.Error(), "auto, always, never") || c != screen.Never {
		t.Errorf("an unknown value must be refused: %v, %v", c, err)
	}
}
