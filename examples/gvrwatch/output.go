package main

import (
	"fmt"
	"io"
)

// output writes to stdout and remembers the first error. Some printers of cli-runtime drop errors, and lost output must
// not look like success.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	if err != nil {
		o.err = fmt.Errorf("can't write the output: %w", err)
	}
	return n, o.err
}

// failure returns the first error of a Write to w, if w is an output.
func failure(w io.Writer) error {
	if o, ok := w.(*output); ok {
		return o.err
	}
	return nil
}
