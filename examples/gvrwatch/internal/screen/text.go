package screen

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Text is a text from anywhere with a style of ours. The text is escaped, line ends and tabs as well.
type Text struct {
	Text  string
	Style Style
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

// WriteLine writes the texts as one line, in one write. Styles are used if w is an Output with colours.
func WriteLine(w io.Writer, texts ...Text) error {
	o := outputOf(w)
	var line []byte
	for _, t := range texts {
		line = appendStyled(line, string(AppendEscaped(nil, t.Text, "")), t.Style, o.color)
	}
	return o.writeEscaped(append(line, '\n'))
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
