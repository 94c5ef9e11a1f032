package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escaper writes characters that are not printable, except line ends and tabs, as JSON escapes: tenants choose much of
// what is printed, and a terminal interprets control characters and directions. In JSON they occur only within strings,
// so that the value remains the same; a string of YAML without quotes has the escape instead. Each call of Write must
// have whole characters.
type escaper struct{ w io.Writer }

func (e escaper) Write(b []byte) (int, error) {
	if _, err := io.WriteString(e.w, escape(string(b), "\n\t")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// clean returns s as a part of one line.
func clean(s string) string { return escape(s, "") }

// escape returns s with each character that is neither printable nor in keep as a JSON escape, such as \u001b.
func escape(s, keep string) string {
	printed := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !printed(r) }) < 0 {
		return s
	}
	var to []byte
	for _, r := range s {
		if printed(r) {
			to = utf8.AppendRune(to, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			to = fmt.Appendf(to, `\u%04x`, unit)
		}
	}
	return string(to)
}
