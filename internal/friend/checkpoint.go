package friend

import "context"

// Engine commits acks. Package internal/acks implements it, and a checkpoint.Tracker calls it.
type Engine interface {
	Flush(ctx context.Context) error
	Close() error
}

// TrackerEngine is set by package checkpoint to a
//
//	func(t *checkpoint.Tracker, start func(checkpoint.Store, checkpoint.Options) Engine) Engine
//
// It returns the engine of t. The first call creates it with start. After t.Close it returns nil if there is none.
var TrackerEngine any
