package screen_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// terminal is a screen without a height. It interprets what the package may write and records everything else as a
// problem.
type terminal struct {
	mu            sync.Mutex
	columns, rows int        // its size
	lines         [][]string // of cells; that after a wide one is empty
	x, y          int
	noWrap        bool
	problems      []string
	writes        int
}

func (t *terminal) Size() (columns, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.columns, t.rows
}

func (t *terminal) resize(columns int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.columns = columns
}

func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	for rest := b; len(rest) > 0; {
		if !bytes.HasPrefix(rest, []byte("\x1b[")) {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				t.problems = append(t.problems, "invalid UTF-8")
			}
			t.put(r)
			rest = rest[size:]
			continue
		}
		n := bytes.IndexFunc(rest[2:], func(r rune) bool { return r >= '@' }) + 3
		sequence := string(rest[2:n])
		rest = rest[n:]
		switch {
		case sequence == "J":
			t.line()
			t.lines = t.lines[:t.y+1]
			t.lines[t.y] = t.lines[t.y][:min(t.x, len(t.lines[t.y]))]
		case sequence == "?7l", sequence == "?7h":
			t.noWrap = sequence == "?7l"
		case strings.HasSuffix(sequence, "m"):
		default:
			t.problems = append(t.problems, "sequence "+sequence)
		}
	}
	return len(b), nil
}

// line makes the line of the cursor exist.
func (t *terminal) line() {
	for len(t.lines) <= t.y {
		t.lines = append(t.lines, nil)
	}
}

func (t *terminal) put(r rune) {
	t.line()
	switch {
	case r == '\n':
		t.x, t.y = 0, t.y+1
		return
	case r == '\r':
		t.x = 0
		return
	case r < ' ' || r == 0x7f:
		t.problems = append(t.problems, "character "+strconv.QuoteRune(r))
		return
	}
	cells := []string{string(r)}
	switch {
	case r >= 0x300 && r < 0x370: // combines
		if t.x > 0 {
			t.lines[t.y][t.x-1] += string(r)
		}
		return
	case r >= 0x3000 && r < 0xa000 || r >= 0x1f300:
		cells = append(cells, "")
	}
	if t.columns > 0 && t.x+len(cells) > t.columns {
		if t.noWrap {
			t.problems = append(t.problems, fmt.Sprintf("%q is beyond the last column", r))
			return
		}
		t.x, t.y = 0, t.y+1
		t.line()
	}
	for len(t.lines[t.y]) < t.x+len(cells) {
		t.lines[t.y] = append(t.lines[t.y], " ")
	}
	copy(t.lines[t.y][t.x:], cells)
	t.x += len(cells)
}

func (t *terminal) count() (lines int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}

// text returns what the screen shows, without blanks at the ends of lines.
func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for i, line := range t.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight(strings.Join(line, ""), " "))
	}
	return b.String()
}
