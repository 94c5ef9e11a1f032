package mux

import (
	"errors"
	"fmt"
)

var (
	// ErrNoSource is returned by New and Add for a Source that is nil.
	ErrNoSource = errors.New("mux: the Source is nil: give one, such as a *stream.Stream")
	// ErrNoKey is returned by New and Add for a Source whose Key is empty.
	ErrNoKey = errors.New("mux: the Source has an empty Key: give it one that tells it from the others")
)

// DuplicateKeyError says that there is a source with that key already.
type DuplicateKeyError struct{ Key string }

func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("mux: there is a source with the key %q already: remove it first, or give this one another key (SourceOptions.Key)", e.Key)
}

// OptionsError says that an option has a value it can't have.
type OptionsError struct {
	Option string // the field of Options or of SourceOptions
	Reason string // what would be right
}

func (e *OptionsError) Error() string {
	return fmt.Sprintf("mux: bad Options.%s: %s", e.Option, e.Reason)
}

// SourceError ends a sequence because a source has ended with an error.
type SourceError struct {
	Key string
	Err error
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("the source %q has failed: %v", e.Key, e.Err)
}

func (e *SourceError) Unwrap() error { return e.Err }

// PanicError is the error of a source that panicked, as a Select or a Transform of
// a Stream may.
type PanicError struct {
	Key   string // empty: it was what Follow does for all of them
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("what keeps the sources attached (Follow) panicked: %v", e.Value)
	}
	return fmt.Sprintf("the source %q panicked: %v", e.Key, e.Value)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
