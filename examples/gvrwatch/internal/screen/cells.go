package screen

import "slices"

// This file is for programs that draw a screen cell by cell, with the widths and cuts of a Table.

// Width returns how many columns of a terminal an escaped text takes.
func Width(escaped string) int { return cellWidth(escaped) }

// RuneWidth returns how many columns a character takes: none if it is drawn into the cell of the one before.
func RuneWidth(r rune) int { return runeWidth(r) }

// Cut shortens an escaped text to at most columns with an ellipsis for what is left out: the end or, if middle and
// there is room for both ends, the middle.
func Cut(escaped string, columns int, middle bool) string { return cut(escaped, columns, middle) }

// FitLine returns the texts of a line, escaped and cut as WriteLine does in a terminal of that many columns. It reports
// false if they do not fit uncut.
func FitLine(columns int, texts ...Text) (line []Text, fits bool) { return fitLine(columns, texts) }

// Layout is where the columns of a table are. The zero value is that of no columns.
type Layout struct {
	now    layout
	screen int
}

// Fit returns where columns are in a screen that is so wide, if the widest cells are as wide as want. Columns stay
// where they are in l while that has room for the cells.
func (l Layout) Fit(want []int, columns []Column, screen int) Layout {
	if screen == l.screen && l.now.holds(want, screen) {
		if last := len(want) - 1; l.now.widths[last] < want[last] { // which moves no other column
			l.now.widths = append(slices.Clone(l.now.widths[:last]), want[last])
		}
		return l
	}
	return Layout{fit(want, columns, screen), screen}
}

// Widths returns the widths of the columns that are shown: the last ones may be missing.
func (l Layout) Widths() []int { return l.now.widths }

// Gap returns how many columns of the screen are between two columns of the table.
func (l Layout) Gap() int { return l.now.gap }
