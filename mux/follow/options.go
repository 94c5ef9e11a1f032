package follow

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Options configure a Mux of this package. The zero value is the default.
type Options struct {
	// Mux configures the mux.Mux.
	Mux mux.Options
	// Stream returns the options for a resource. Several goroutines may call it at once. Namespaces, UntilSynced and
	// UntilClosed must be zero. Start must be zero or Now, and applies only to resources that are served when the run
	// begins. A source whose options break these rules fails with an *OptionsError. Nil means the zero Options. A
	// panic is the error of the source.
	Stream func(gvr.Resource) stream.Options
	// UntilSynced ends the run when everything that is served and may be watched is SYNCED. It does not wait for
	// APIs that do not answer (Status.Discovery), or for resources that are Gone or Failing. It waits at most about
	// a minute for rights that can't be checked.
	UntilSynced bool
	// StatusChanged is called when the state or the namespaces of a resource change, perhaps by several goroutines at
	// once. It must return quickly and must not call the Mux. A panic ends the run with an error that wraps a
	// *mux.PanicError. Nil disables it.
	StatusChanged func(ResourceStatus)
}

// OptionsError is returned by [New] and [Selection.Selects], and is the error of a source for which Options.Stream
// returns invalid options.
type OptionsError struct {
	Field   string // of Selection or of Options (for example Stream.Start), or a parameter of New
	Value   string // its value, as text
	Problem string // what would be valid
}

func (e *OptionsError) Error() string {
	return fmt.Sprintf("follow: invalid %s %q: %s", e.Field, e.Value, e.Problem)
}

// report calls StatusChanged. If that panics, the run ends.
func (f *follower) report(s ResourceStatus) {
	if f.options.StatusChanged == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			err := &mux.PanicError{Key: cmp.Or(s.Resource.GroupResource().String(), s.Ref.String()), Value: p,
				Stack: debug.Stack()}
			select {
			case f.panicked <- fmt.Errorf("follow: Options.StatusChanged for %s: %w", err.Key, err):
			default: // the run ends already
			}
		}
	}()
	f.options.StatusChanged(s)
}

// streamOptions returns the options for r.
func (o *Options) streamOptions(r gvr.Resource) (so stream.Options, err error) {
	if o.Stream != nil {
		so = o.Stream(r)
	}
	if so.Logger == nil {
		so.Logger = o.Mux.Logger
	}
	switch {
	case len(so.Namespaces) > 0:
		err = &OptionsError{"Stream.Namespaces", strings.Join(so.Namespaces, ","),
			"must be empty: set Selection.Namespaces"}
	case so.UntilSynced:
		err = &OptionsError{"Stream.UntilSynced", "true", "must be false: set Options.UntilSynced"}
	case so.Start.IsNow() && o.UntilSynced && so.Checkpoint != nil:
		err = &OptionsError{"UntilSynced and Stream.Start", "Now",
			"a run that begins with SYNCED and ends there would commit nothing: must not be combined with a Checkpoint"}
	case so.UntilClosed:
		err = &OptionsError{"Stream.UntilClosed", "true",
			"must be false: a followed resource is watched again when a watch ends"}
	case !so.Start.IsSnapshot() && !so.Start.IsNow():
		err = &OptionsError{"Stream.Start", "After or From",
			"must be Snapshot or Now: a version or a position is valid for one resource only"}
	}
	return so, err
}
