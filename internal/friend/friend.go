// Package friend lets public packages of this module offer functions to its other packages without exporting them.
// A public package assigns each function in an init function; a package that imports it asserts the variable
// to its type once, in a package-level variable. The variables are of type any because package friend imports
// no other package of this module; each comment gives the type.
package friend

import "context"

// StreamEvents is set by package stream: func(source any) func(context.Context, run.Options) iter.Seq2[stream.Event,
// error]. It returns Events with options for one run, or nil if source neither is nor embeds a *stream.Stream.
var StreamEvents any

// StreamOptions is set by package stream: func(*stream.Stream) stream.Options. It returns the options that the Stream
// was made with.
var StreamOptions any

// MuxControl is set by package mux: func(*mux.Mux, func(context.Context) error) (*run.Lists, func(mux.Source) bool,
// func(mux.Source) bool).
// The function runs beside each run of the Mux. Such a run goes on when all sources have ended; an error of the
// function ends it. MuxControl returns the Mux's bound on snapshots, a function that reports whether a source is in the
// Mux, and one that removes a source unless events of it wait for the loop.
var MuxControl any

// Engine commits acks. Package internal/acks implements it, and a checkpoint.Tracker calls it.
type Engine interface {
	Flush(ctx context.Context) error
	Close() error
}

// TrackerEngine is set by package checkpoint to a
//
//	func(t *checkpoint.Tracker, start func(checkpoint.Store, checkpoint.Options) Engine) Engine
//
// It returns the engine of t. The first call creates it with start. After t.Close, and for a zero Tracker, it returns
// nil if there is none.
var TrackerEngine any
