package top

import (
	"unicode/utf8"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// Grid is what a View draws on: cells, each with a character and the marks that combine with it.
type Grid interface {
	Size() (columns, rows int)
	// Put shows a character with its marks, which is so wide, in the cell at a column and a row. What is outside the
	// grid is ignored.
	Put(column, row int, character string, width int, style Style)
}

// Style is how a cell looks.
type Style struct {
	Text     screen.Style
	Changed  bool // it has changed: highlighted, also without colours
	Selected bool // in the line of the cursor
}

// text draws an escaped text from a column on, at most so wide, and fills the rest of the width with spaces.
func text(g Grid, column, line, width int, escaped string, style Style) {
	end := column + width
	escaped = screen.Cut(escaped, width, false)
	for escaped != "" {
		n, wide := character(escaped)
		if column+wide > end {
			break
		}
		g.Put(column, line, escaped[:n], wide, style)
		column, escaped = column+wide, escaped[n:]
	}
	for ; column < end; column++ {
		g.Put(column, line, " ", 1, style)
	}
}

// character returns how many bytes the first character of a text has with the marks that combine with it, and its
// width. A mark without a character before it stands alone in a cell.
func character(s string) (bytes, width int) {
	for i, r := range s {
		n := screen.RuneWidth(r)
		if i > 0 && n > 0 {
			return i, width
		}
		if i == 0 {
			width = max(n, 1)
		}
	}
	return len(s), width
}

// based returns a text with a space before it if it begins with a mark: a mark without a character before it takes a
// cell, although its width is zero, and the end of the text would have none.
func based(s string) string {
	if r, _ := utf8.DecodeRuneInString(s); s != "" && screen.RuneWidth(r) == 0 {
		return " " + s
	}
	return s
}
