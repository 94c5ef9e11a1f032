package screen

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Text is a text from anywhere with a style of ours. The text is escaped, line ends and tabs as well.
type Text struct {
	Text  string
	Style Style
	Most  int  // WriteLine may leave out its middle, so that it is at most so wide; 0 means never
	Long  bool // as Column.Long, of this cell alone
}

// Style is how a text looks where colours are used. An unknown one is Plain.
type Style uint8

// Styles.
const (
	Plain Style = iota
	Bold
	Dim
	Red
	Green
	Yellow
	Magenta // and bold
)

var selectGraphicRendition = map[Style]string{
	Bold: "\x1b[1m", Dim: "\x1b[2m", Red: "\x1b[31m", Green: "\x1b[32m", Yellow: "\x1b[33m", Magenta: "\x1b[1;35m",
}

// appendStyled appends a text that is escaped, cut and not yet padded.
func appendStyled(to []byte, escaped string, s Style, color bool) []byte {
	begin := selectGraphicRendition[s]
	if !color || begin == "" || escaped == "" {
		return append(to, escaped...)
	}
	to = append(to, begin...)
	to = append(to, escaped...)
	return append(to, "\x1b[0m"...)
}

// WriteLine writes the texts as one line, in one write. Styles are used if w is an Output with colours. In a
// terminal, what may be cut becomes as narrow as the line needs to fit, but not narrower than 8.
func WriteLine(w io.Writer, texts ...Text) error {
	o := outputOf(w)
	var line []byte
	texts, _ = fitted(o, texts)
	for _, t := range texts {
		line = appendStyled(line, t.Text, t.Style, o.to.color)
	}
	return o.writeEscaped(append(line, '\n'))
}

// Fits reports whether WriteLine leaves out nothing, and a terminal does not wrap the line.
func Fits(w io.Writer, texts ...Text) bool {
	_, fits := fitted(outputOf(w), texts)
	return fits
}

// fitted returns the texts of a line escaped and cut. It reports false if they do not fit uncut.
func fitted(o *Output, texts []Text) (line []Text, fits bool) {
	if o.to.size == nil {
		return fitLine(math.MaxInt, texts)
	}
	columns, _ := o.to.columnsAndRows()
	return fitLine(columns, texts)
}

func fitLine(columns int, texts []Text) (line []Text, fits bool) {
	const least = 8
	line, fits = slices.Clone(texts), true
	widths, narrowest := make([]int, len(line)), make([]int, len(line))
	for i, t := range line {
		line[i].Text = string(AppendEscaped(nil, t.Text, ""))
		widths[i] = cellWidth(line[i].Text)
		narrowest[i] = widths[i]
		if t.Most > 0 {
			fits = fits && widths[i] <= t.Most
			widths[i], narrowest[i] = min(widths[i], t.Most), min(widths[i], least)
		}
	}
	fits = fits && sum(widths) <= columns
	if !shrink(widths, narrowest, columns) {
		widths = narrowest
	}
	for i, t := range line {
		line[i].Text = cut(t.Text, widths[i], true)
	}
	return line, fits
}

// Color says when styles are used. It is a value for a flag.
type Color string

// Auto is the default: a terminal has colours, unless NO_COLOR is set and not empty (no-color.org), or TERM is "dumb".
const (
	Auto   Color = "auto"
	Always Color = "always"
	Never  Color = "never"
)

// Set is for package pflag.
func (c *Color) Set(s string) error {
	modes := []string{string(Auto), string(Always), string(Never)}
	if !slices.Contains(modes, s) {
		return fmt.Errorf("must be one of %s", strings.Join(modes, ", "))
	}
	*c = Color(s)
	return nil
}

func (c *Color) String() string { return string(*c) }

// Type is for package pflag.
func (c *Color) Type() string { return "string" }
