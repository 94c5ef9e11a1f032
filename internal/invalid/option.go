// Package invalid has the error about an option, which users know as stream.OptionsError. Packages that stream imports
// return it, too.
package invalid

import (
	"fmt"
	"strings"
	"unicode"
)

// Option is stream.OptionsError.
type Option struct {
	Field   string // of Options or Run, such as "Name" or "Start and Checkpoint", or an argument
	Value   string // the invalid value; may be empty
	Problem string // what the value must be
}

// New returns an error about an option or an argument.
func New(field, value, problem string) *Option { return &Option{field, value, problem} }

// Negative returns an error about n if it is negative.
func Negative[N ~int | ~int64](field string, n N) error {
	if n < 0 {
		return New(field, fmt.Sprint(n), "must not be negative")
	}
	return nil
}

func (e *Option) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("gvrwatch: invalid %s: %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("gvrwatch: invalid %s %q: %s", e.Field, e.Value, e.Problem)
}

// Printable returns up to 1 KiB of a text that somebody else wrote, for an error: without control characters, and what
// is no text.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '?'
	}, s[:min(len(s), 1<<10)])
}
