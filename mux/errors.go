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
