package mux

import "fmt"

// OptionsError is returned by [New] and [Mux.Add] for an invalid option or source.
type OptionsError struct {
	Field   string // of Options or SourceOptions, or Source
	Value   string // its value, as text
	Problem string // what would be valid
}

func (e *OptionsError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("mux: invalid %s: %s", e.Field, e.Problem)
	}
	return fmt.Sprintf("mux: invalid %s %q: %s", e.Field, e.Value, e.Problem)
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
