package mux

import (
	"fmt"

	"github.com/gvrwatch/gvrwatch/stream"
)

// invalid returns an error about an option or a source.
func invalid(field, value, problem string) *stream.OptionsError {
	return &stream.OptionsError{Field: field, Value: value, Problem: problem}
}

// SourceError ends a run because a source has failed.
type SourceError struct {
	Key string
	Err error
}

func (e *SourceError) Error() string { return fmt.Sprintf("mux: source %q failed: %v", e.Key, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// PanicError is the error of a source that panicked, as a Select, a Transform or a Trace of a Stream may. Functions of
// the options that panic (Options.OnError, and those of package follow) end the run with an error that wraps one.
type PanicError struct {
	Key   string // of the source that it concerns; empty if package follow panicked outside any source
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("mux: package follow panicked: %v", e.Value)
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns the value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
