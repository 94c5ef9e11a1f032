package mux

import (
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/watchlist"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// FollowOptions change what Follow returns. The zero value is the default.
type FollowOptions struct {
	// Mux are the options of the Mux.
	Mux Options
	// Stream returns the options for a resource. Namespaces, UntilSynced,
	// UntilClosed and NoIndex must be left zero, and Start must be zero or Now, which counts
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
	case len(so.Namespaces) > 0:
		err = &OptionsError{"Stream", "where a resource is watched the Selection says: leave Namespaces out"}
	case so.UntilSynced || so.UntilClosed:
		err = &OptionsError{"Stream", "what is followed goes on: leave UntilSynced and UntilClosed out"}
	case so.NoIndex:
		err = &OptionsError{"Stream", "what is followed goes on in other versions and namespaces, which takes an index: leave NoIndex out"}
	case !so.Start.IsSnapshot() && !so.Start.IsNow():
		err = &OptionsError{"Stream", "Start can be Snapshot or Now: versions and positions are of one resource, at one time"}
	}
	return so, err
}

// follow keeps what a Selection selects attached to a Mux.
type follow struct {
	resolver  *discovery.Resolver
	client    dynamic.Interface
	selection selection
	options   FollowOptions
	mux       *Mux
	rights    *rights
	serving   sync.Mutex // one resource is attached at a time

	mu       sync.Mutex
	subjects map[schema.GroupResource]*subject
	named    []*named
	looked   bool                          // the first look is over
	down     map[schema.GroupVersion]error // APIs that do not answer; zero is the server
}

// Follow returns a Mux whose sources are what a Selection selects, one for each
// resource of a group, under the key "widgets.example.com". While it is ranged over
// it attaches them by itself:
//
//   - A resource is attached when it comes to be served, and let go of when it is no
//     more; its state is Gone then, which is no error. If it is served again it is
//     attached again, as another incarnation: GAP and what is different. Both take
//     less than two seconds, unless discovery lags behind for longer.
//   - The versions of a resource are one source. If another one is chosen (see
//     discovery.Resolver.Changes), or the one that was named is served no more, the
//     sequence goes on in the other: nothing is told again.
//   - Where a resource may not be watched across the cluster, it is watched in the
//     namespaces where it may be: of all there are, if those may be watched, or else
//     of Selection.Candidates. That is asked every five seconds, with
//     SelfSubjectRulesReview and SelfSubjectAccessReview, or where the server has none
//     by listing one object; less often where asking takes more than half a second,
//     which is many namespaces and types without rules. So new namespaces and new
//     rights are noticed, and that it may be watched across the cluster again, within
//     15 s. Event.Namespace says where an event was watched.
//   - A namespace that comes or goes touches its own watch only: its objects are listed
//     and delivered, and SYNCED follows. Between the cluster and namespaces the
//     sequence goes on with GAP (stream.GapScope), what is different from what was
//     delivered, and SYNCED: no change and no deletion is lost and nothing repeated, but
//     the states in between are. With FailOnGap: true that GAP is an error.
//   - While not all namespaces are watched, the objects in the others are not reported
//     as gone, also if a namespace is deleted that one may no longer look into: what is
//     known of them is compared when they can be seen again. A right that is taken away
//     is noticed when a watch is refused; those that are open go on.
//   - The trouble of one resource does not touch the others: what its server refuses is a
//     state (Followed), and tried again. Errors that are the caller's to mend (a
//     checkpoint that belongs to another cluster, say) are for Options.OnError.
//
// Add takes more sources. Remove lets go of a resource until the Mux is ranged over
// again. AllSynced counts all that is attached, so one that may not be watched
// keeps it false (see Status.Followed, and FollowOptions.UntilSynced).
//
// With stream.Options.Checkpoint each resource has a checkpoint of its own, under its
// group and resource. Whenever it goes on in another version or in other
// namespaces, what has not been acked within five seconds comes again.
//
// It returns a *SelectionError, or as New an *OptionsError.
func Follow(r *discovery.Resolver, c dynamic.Interface, sel Selection, opts *FollowOptions) (*Mux, error) {
	f := &follow{resolver: r, client: c, subjects: map[schema.GroupResource]*subject{}, down: map[schema.GroupVersion]error{}}
	if opts != nil {
		f.options = *opts
	}
	var err error
	if f.selection, err = sel.check(); err != nil {
		return nil, err
	}
	if len(f.selection.refs)+len(f.selection.patterns)+len(f.selection.categories) == 0 {
		return nil, &SelectionError{"Resources", "", errors.New("nothing is selected: name a resource, or give a pattern such as *")}
	}
	for _, ref := range f.selection.refs {
		f.named = append(f.named, &named{ref: ref, status: Followed{Ref: ref, State: FollowUnserved, Since: time.Now()}})
	}
	f.rights = newRights(&asker{client: c}, f.selection.candidates, f.checkSynced)
	if f.mux, err = New(&f.options.Mux); err != nil {
		return nil, err
	}
	f.mux.run, f.mux.status = f.run, f.status
	return f.mux, nil
}

// run keeps things attached during one range.
func (f *follow) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer f.end()
	fake := watchlist.DoesClientNotSupportWatchListSemantics(f.client)
	looks := len(f.selection.namespaces) == 0 && !fake
	f.rights.reset(looks)
	f.mu.Lock()
	clear(f.down)
	f.mu.Unlock()
	types := newTriggers(f.resolver, f.client)
	running.Go(func() { types.run(ctx) })
	running.Go(func() { f.rights.run(ctx) })
	if looks {
		there := &lookout{resource: namespaces, client: f.client, changed: f.rights.known, again: 8 * time.Second}
		running.Go(func() { f.rights.lookOut(ctx, there) })
	}
	running.Go(func() { f.look(ctx) })
	for c, err := range f.resolver.Changes(ctx, &discovery.ChangesOptions{Poll: types.poll}) {
		if err != nil {
			return err
		}
		f.change(ctx, c)
	}
	return nil
}

// look looks now and then at what nobody tells: what has become of names that
// could not be resolved, and whether everything is synced.
func (f *follow) look(ctx context.Context) {
	var synced <-chan time.Time
	if f.options.UntilSynced {
		ticker := time.NewTicker(glance)
		defer ticker.Stop()
		synced = ticker.C
	}
	names, versions := time.NewTicker(time.Second), time.NewTicker(10*time.Second)
	defer names.Stop()
	defer versions.Stop()
	for {
		select {
		case <-synced:
			f.checkSynced()
		case <-names.C:
			f.nameAgain(ctx)
		case <-versions.C:
			f.versionAgain(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// end forgets what was served: the next range finds out anew.
func (f *follow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = false
	for _, s := range f.subjects {
		s.reset()
	}
}

// change takes in a change of what is served.
func (f *follow) change(ctx context.Context, c discovery.Change) {
	switch c.Type {
	case discovery.Added, discovery.Changed:
		f.served(ctx, c.Resource)
	case discovery.Removed:
		if s := f.subject(c.Resource); s != nil {
			s.remove(nil)
		}
	case discovery.Unknown, discovery.Known:
		f.heard(c)
		f.unknown(c)
	case discovery.Synced:
		f.begun()
	}
}

// begun: what is served at the beginning is known.
func (f *follow) begun() {
	f.mu.Lock()
	f.looked = true
	subjects := slices.Collect(maps.Values(f.subjects))
	f.mu.Unlock()
	for _, s := range subjects {
		s.begun()
	}
	for _, n := range f.named {
		if status, ok := f.waiting(n); ok {
			f.options.statusChanged(status)
		}
	}
}

func (f *follow) subject(r gvr.Resource) *subject {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.subjects[r.GroupResource()]
}

// served attaches a resource, if it is selected.
func (f *follow) served(ctx context.Context, r gvr.Resource) {
	f.serving.Lock()
	defer f.serving.Unlock()
	s := f.subject(r)
	r, isNamed := f.nameIt(ctx, r)
	selected := isNamed || f.selection.selects(r)
	switch {
	case s == nil && !selected:
		return
	case s != nil && !r.ClusterWatch():
		s.remove(&stream.NotWatchableError{Resource: r})
		return
	case s != nil && !selected:
		s.remove(errors.New("it has changed, and is selected by no pattern and no category any more"))
		return
	}
	f.mu.Lock()
	first := !f.looked
	f.mu.Unlock()
	if s == nil {
		s = newSubject(f, r, first)
		f.mu.Lock()
		f.subjects[r.GroupResource()] = s
		f.mu.Unlock()
	} else if !s.serve(r, first) {
		return
	}
	// It is a source already in the next range, unless somebody else has its key.
	if err := f.mux.Add(s, nil); err != nil && !f.mux.has(s) {
		s.set(FollowDropped, err)
	}
}
