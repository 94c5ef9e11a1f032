package execute

import (
	"bytes"
	"io"
	"sync"
)

// lines lets several commands write whole lines to a writer.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// maxLine is how much of a line is kept until it ends. A longer one is written in parts.
const maxLine = 64 << 10

// lineWriter writes the lines of one command.
type lineWriter struct {
	to      *lines
	pending []byte
}

func (l *lines) writer() *lineWriter { return &lineWriter{to: l} }

func (w *lineWriter) Write(b []byte) (int, error) {
	w.pending = append(w.pending, b...)
	end := bytes.LastIndexByte(w.pending, '\n') + 1
	if len(w.pending)-end > maxLine {
		end = len(w.pending)
	}
	if err := w.write(w.pending[:end]); err != nil {
		return 0, err
	}
	w.pending = w.pending[end:]
	return len(b), nil
}

// flush writes what is left, and ends its line.
func (w *lineWriter) flush() error {
	if len(w.pending) == 0 {
		return nil
	}
	return w.write(append(w.pending, '\n'))
}

func (w *lineWriter) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	if _, err := w.to.w.Write(b); err != nil {
		return &outputError{err}
	}
	return nil
}

// outputError is an error of the writer, not of the command.
type outputError struct{ error }

func (e *outputError) Unwrap() error { return e.error }
