package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// newTable returns a table that is printed as a whole, by Flush.
func newTable(w io.Writer, titles []string) *screen.Table {
	t := &screen.Table{Out: w}
	columns := make([]screen.Column, len(titles))
	for i, title := range titles {
		columns[i] = screen.Column{Title: title}
	}
	_ = t.Columns(columns...) // nothing is printed yet
	return t
}

// addRow adds a row to a table. Cells beyond the last column are left out.
func addRow(t *screen.Table, cells ...string) error {
	texts := make([]screen.Text, len(cells))
	for i, cell := range cells {
		texts[i] = screen.Text{Text: cell}
	}
	return t.Row(nil, texts...)
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
