package mux

import (
	"runtime/debug"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// FollowOptions change what Follow returns. The zero value is the default.
type FollowOptions struct {
	// Mux are the options of the Mux.
	Mux Options
	// Stream returns the options for a resource. Namespaces, Scope and End must be
	// left zero, Index can't be IndexNone, and Start must be zero or Now, which counts
	// for the resources that are served at the beginning: else the source fails with an
	// *OptionsError. It is called by several goroutines at once. Nil means the zero
	// Options.
	Stream func(gvr.Resource) stream.Options
	// UntilSynced ends the sequence when everything that is served and may be watched
	// has told SYNCED. It does not wait for APIs that do not answer (Status.Discovery),
	// for what is gone or failing, nor for longer than about a minute for rights that
	// can't be found out.
	UntilSynced bool
	// StatusChanged is told when it stands otherwise with something that is followed.
	// It may be called from several goroutines at once, must be quick, and must not
	// call the Mux. If it panics, that is logged (Mux.Logger). Nil means nobody is.
	StatusChanged func(Followed)
}

func (o *FollowOptions) statusChanged(f Followed) {
	if o.StatusChanged == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil && o.Mux.Logger != nil {
			o.Mux.Logger.Error("FollowOptions.StatusChanged has panicked", "resource", f.Resource.String(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	o.StatusChanged(f)
}

func (o *FollowOptions) streamOptions(r gvr.Resource) (so stream.Options, err error) {
	if o.Stream != nil {
		so = o.Stream(r)
	}
	if so.Logger == nil {
		so.Logger = o.Mux.Logger
	}
	switch {
	case len(so.Namespaces) > 0 || so.Scope != nil:
		err = &OptionsError{"Stream", "where a resource is watched the Selection says: leave Namespaces and Scope out"}
	case so.End != "" && so.End != stream.Never:
		err = &OptionsError{"Stream", "what is followed goes on: leave End out, and see UntilSynced"}
	case so.Index == stream.IndexNone:
		err = &OptionsError{"Stream", "what is followed goes on in other versions and namespaces, which takes an index: leave IndexNone out"}
	case !so.Start.IsSnapshot() && !so.Start.IsNow():
		err = &OptionsError{"Stream", "Start can be Snapshot or Now: versions and positions are of one resource, at one time"}
	}
	return so, err
}
