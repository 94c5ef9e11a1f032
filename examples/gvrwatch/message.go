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
// Write, because several Streams share stderr. Much of a text comes from servers: of a word at most 1 KiB is printed,
// as of an error, and of the text 16 KiB.
func printMessage(stderr io.Writer, format string, args ...any) {
	printLine(stderr, "gvrwatch:", fmt.Sprintf(format, args...))
}

func printLine(stderr io.Writer, begin, text string) {
	words := strings.Fields(text)
	words = words[:min(len(words), 16<<10)]
	for i, w := range words {
		escaped := screen.AppendEscaped(nil, shorten(w, 1<<10), "") // before the cuts: an escape is longer
		words[i] = shorten(string(escaped), 1<<10)
	}
	fmt.Fprintln(stderr, begin, shorten(strings.Join(words, " "), 16<<10))
}

// shorten returns at most the first bytes of a text.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// joinNames lists the first ten names, as the errors of package discovery do: servers choose how many there are, and
// how long.
func joinNames(names []string) string {
	const most, longest = 10, 63 + 1 + 63 + 1 + 253 // of a plural, a version and a group
	var text []string
	for _, name := range names[:min(len(names), most)] {
		text = append(text, shorten(name, longest))
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(text, ", "), more)
	}
	return strings.Join(text, ", ")
}
