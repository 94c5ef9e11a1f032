package host

import (
	"context"
	"log/slog"
)

// Group is what a follower of package follow gives a Mux, and gets from it.
type Group struct {
	// Prefix begins the keys of its sources, and removes all of them. It is empty for the follower that has made the
	// Mux.
	Prefix string
	// Run adds and removes sources, beside each run of the Mux. Its error ends that run.
	Run func(context.Context) error
	// Done reports whether the run may end.
	Done func() bool

	// The Mux sets the rest: the bound on snapshots that are read at once, and the Logger.
	Lists  *Lists
	Logger *slog.Logger
}
