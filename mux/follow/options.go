package follow

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Options configure a Mux of this package. The zero value is the default.
type Options struct {
	// Mux configures the mux.Mux. It must be zero with Into.
	Mux mux.Options
	// Into is a mux.Mux to add the sources to, instead of a new one: that of several clusters, for example. Each run of
	// Into runs this follower, too. A run that is active begins to do so at once. Into.Remove(Prefix) removes the
	// follower and all its sources. Nil means a new Mux.
	Into *mux.Mux
	// Prefix and a slash begin the key of each source in Into: "eu/widgets.example.com". mux.PrefixOf returns the
	// Prefix of an event. With Into, Prefix may be any text that is not empty, with slashes too, but not the Prefix of
	// another follower of Into, or the key of a source. Without Into, Prefix must be empty.
	Prefix string
	// Source returns how a resource is watched, and how its runs go. Several goroutines may call it at once.
	// Options.Namespaces, Run.Until and Run.Key must be zero. Run.Start must be zero or Now, and applies only to
	// resources that are served when the run begins. Run.RetryRefused changes nothing: refusals are retried in any
	// case. A source that breaks these rules fails with a
	// *stream.OptionsError. Nil means the zero values. A panic is the error of the source.
	//
	// With Into, each follower needs its own Run.Checkpoint: a Tracker, and its Store, serve one cluster.
	Source func(gvr.Resource) (stream.Options, stream.Run)
	// UntilSynced ends the run when everything that is served and may be watched is SYNCED. It does not wait for single
	// APIs that do not answer (Status.Discovery), or for resources that are Gone or Failing. It waits at most about
	// a minute for rights that can't be checked, and for the definitions of Selection.Custom.
	//
	// It waits for a resource as long as its server fails, unless Source has a stream.Requests.GiveUpAfter, and until
	// discovery has succeeded once: while the whole server does not answer, or denies discovery, it is not known what
	// there is to wait for. Only the end of ctx bounds that: its cause is the error of the run, and Status.Discovery,
	// also afterwards, says why. With Into, the run ends when all followers of Into have nothing left to wait for, so
	// one cluster that does not answer delays it, and one follower without UntilSynced prevents it. The run does not
	// wait for sources that the program has added itself (mux.Mux.Add): it may end before their first SYNCED.
	UntilSynced bool
	// StatusChanged is called when the state or the namespaces of a resource change, perhaps by several goroutines at
	// once. It must return quickly and must not call the Mux. A panic ends the run with an error that wraps a
	// *stream.PanicError. Nil disables it.
	//
	// It is not called when Remove or mux.Options.OnError makes a resource Dropped. If that is no longer served, and
	// served again, StatusChanged receives Gone and Starting of it; Status has it as Dropped.
	StatusChanged func(ResourceStatus)
}

// mux returns Into, or a new Mux.
func (o *Options) mux() (*mux.Mux, error) {
	switch {
	case o.Into == nil && o.Prefix != "":
		return nil, invalid.New("Prefix", o.Prefix, "must be empty without Into")
	case o.Into == nil:
		return mux.New(&o.Mux)
	case o.Prefix == "":
		return nil, invalid.New("Prefix", "", "must be set with Into, for example to the name of the cluster")
	case !reflect.ValueOf(o.Mux).IsZero():
		return nil, invalid.New("Mux", "", "must be zero with Into, which has its own options")
	}
	return o.Into, nil
}

// report calls StatusChanged. If that panics, the run ends.
func (c *common) report(s ResourceStatus) {
	if c.options.StatusChanged == nil {
		return
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		p := cmp.Or[any](recover(), errors.New("runtime.Goexit ended the goroutine"))
		where := c.prefixed(cmp.Or(s.Resource.GroupResource().String(), s.Ref.String()))
		err := &stream.PanicError{Where: where, Value: p, Stack: debug.Stack()}
		select {
		case c.panicked <- fmt.Errorf("follow: Options.StatusChanged for %s: %w", err.Where, err):
		default: // the run ends already
		}
	}()
	c.options.StatusChanged(s)
	returned = true
}

// source returns how r is watched.
func (o *Options) source(r gvr.Resource) (so stream.Options, run stream.Run, err error) {
	if o.Source != nil {
		so, run = o.Source(r)
	}
	run.RetryRefused = false // the end of a run lets the rights, or discovery, be asked
	switch {
	case len(so.Namespaces) > 0:
		err = invalid.New("Source.Namespaces", strings.Join(so.Namespaces, ","), "must be empty: Selection has them")
	case run.Until != "":
		err = invalid.New("Source.Until", string(run.Until), "must be empty: set Options.UntilSynced")
	case run.Key != "":
		err = invalid.New("Source.Key", run.Key, "must be empty: each resource has the key of its group and resource")
	case run.Start == stream.Now() && o.UntilSynced && run.Checkpoint != nil:
		err = invalid.New("UntilSynced and Source.Start", "Now",
			"a run that begins with SYNCED and ends there would commit nothing: must not be combined with a Checkpoint")
	case run.Start != (stream.Start{}) && run.Start != stream.Now():
		err = invalid.New("Source.Start", "",
			"must be zero or Now: a version or a position is valid for one resource only")
	}
	return so, run, err
}
