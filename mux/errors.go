package mux

import (
	"fmt"
)

// SourceError ends a run because a source has failed.
type SourceError struct {
	Key string
	Err error
}

func (e *SourceError) Error() string { return fmt.Sprintf("mux: source %q failed: %v", e.Key, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }
