package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFramesAreWhole: what a watch sends is handed on frame by frame, as soon as a frame is complete.
func TestFramesAreWhole(t *testing.T) {
	for _, c := range []struct {
		why  string
		next func(*bufio.Reader) ([]byte, error)
		sent string
		want []string
		err  error
	}{
		{"lines of JSON", untilNewline, "{}\n{\"a\":1}\n", []string{"{}\n", "{\"a\":1}\n"}, io.EOF},
		{"a line that is cut", untilNewline, "{}\n{", []string{"{}\n", "{"}, io.EOF},
		{"protobuf without a newline", withLength, "\x00\x00\x00\x02ab\x00\x00\x00\x01c",
			[]string{"\x00\x00\x00\x02ab", "\x00\x00\x00\x01c"}, io.EOF},
		{"protobuf with newlines", withLength, "\x00\x00\x00\x03\n\n\n", []string{"\x00\x00\x00\x03\n\n\n"}, io.EOF},
		{"a cut length", withLength, "\x00\x00", []string{"\x00\x00"}, io.ErrUnexpectedEOF},
		{"a cut frame", withLength, "\x00\x00\x00\x03a", []string{"\x00\x00\x00\x03a"}, io.ErrUnexpectedEOF},
	} {
		sent, got, r := 0, []string(nil), bufio.NewReader(strings.NewReader(c.sent))
		var err error
		for err == nil {
			var frame []byte
			if frame, err = c.next(r); len(frame) > 0 {
				got, sent = append(got, string(frame)), sent+len(frame)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) || sent != len(c.sent) {
			t.Errorf("%s: %v (-want +got):\n%s", c.why, err, diff)
		}
	}
}
