package follow

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/watchlist"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Mux is a [mux.Mux] that attaches and detaches what a [Selection] matches during each run. Unlike a run of a plain
// mux.Mux, its run does not end when all sources have ended.
//
// Add adds more sources. Remove detaches a resource until the next run. AllSynced of its [Status] counts all that is
// attached, so a resource that may not be watched keeps it false (see Options.UntilSynced).
type Mux struct {
	*mux.Mux
	follower *follower
}

// follower attaches and detaches resources.
type follower struct {
	config
	sources   sources
	rights    *rights
	attaching sync.Mutex // serializes attach
	panicked  chan error // receives panics of Options.StatusChanged

	mu       sync.Mutex
	followed map[schema.GroupResource]*followed
	letGo    map[schema.GroupResource]sequence
	names    []*name
	found    discovered
}

// config is what New is given.
type config struct {
	resolver  *discovery.Resolver
	client    dynamic.Interface
	selection selection
	options   Options
}

// sources is the mux.Mux, and what only this package may use of it.
type sources struct {
	*mux.Mux
	lists *host.Lists
}

// discovered is what discovery has reported in this run.
type discovered struct {
	complete    bool                          // what is served at the beginning is known
	unavailable map[schema.GroupVersion]error // APIs that do not answer; the zero GroupVersion is the server
}

// New returns a Mux that follows sel. It sends no request. It returns a *stream.OptionsError. opts may be nil, and is
// copied. Make c with stream.NewClient.
func New(r *discovery.Resolver, c dynamic.Interface, sel Selection, opts *Options) (*Mux, error) {
	f := &follower{followed: map[schema.GroupResource]*followed{}, letGo: map[schema.GroupResource]sequence{},
		panicked: make(chan error, 1)}
	f.found.unavailable = map[schema.GroupVersion]error{}
	f.resolver, f.client, f.options = r, c, *cmp.Or(opts, &Options{})
	switch {
	case r == nil:
		return nil, invalid.New("resolver", "", "must not be nil")
	case c == nil:
		return nil, invalid.New("client", "", "must not be nil")
	}
	var err error
	if f.selection, err = sel.check(); err != nil {
		return nil, err
	}
	if len(f.selection.refs)+len(f.selection.patterns)+len(f.selection.categories) == 0 {
		return nil, invalid.New("Resources", "",
			"must have the name of a resource or a pattern such as *, unless there are Categories")
	}
	for _, ref := range f.selection.refs {
		f.names = append(f.names, &name{ref: ref, status: ResourceStatus{Ref: ref, State: Unserved, Since: time.Now()}})
	}
	f.rights = newRights(newAccessChecker(c), f.selection.namespaces, f.selection.candidates)
	if f.sources.Mux, err = mux.New(&f.options.Mux); err != nil {
		return nil, err
	}
	f.sources.lists = f.sources.Control(friend.Access{}, f.run)
	return &Mux{f.sources.Mux, f}, nil
}

// run follows the selection during one run of the Mux.
func (f *follower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	defer f.reset()
	running.Go(func() {
		select {
		case err := <-f.panicked:
			cancel(err) // which Changes returns
		case <-ctx.Done():
		}
	})
	fake := watchlist.DoesClientNotSupportWatchListSemantics(f.client)
	watches := len(f.selection.namespaces) == 0 && !fake
	f.rights.reset(watches)
	f.mu.Lock()
	clear(f.found.unavailable)
	f.mu.Unlock()
	types := newTypeWatcher(f.resolver, f.client)
	running.Go(func() { types.run(ctx) })
	watchNamespaces := func(context.Context) {}
	if watches {
		w := &nameWatcher{
			resource: namespaces, client: f.client, changed: f.rights.setNamespaces, retry: 8 * time.Second,
		}
		watchNamespaces = w.loop
	}
	running.Go(func() { f.rights.run(ctx, watchNamespaces) })
	running.Go(func() { f.poll(ctx) })
	for c, err := range f.resolver.Changes(ctx, types.pollInterval) {
		if err != nil {
			return err
		}
		f.handle(ctx, c)
	}
	return nil
}

// poll regularly checks what no event reports: names that could not be resolved, versions that are served again,
// resources that are gone for good, and whether everything is synced.
func (f *follower) poll(ctx context.Context) {
	var synced <-chan time.Time
	if f.options.UntilSynced {
		ticker := time.NewTicker(pollInterval)
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
			f.retryNames(ctx)
		case <-versions.C:
			f.restoreVersions(ctx)
			f.letGoOfGone()
		case <-ctx.Done():
			return
		}
	}
}

// reset forgets what is served.
func (f *follower) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found.complete = false
	clear(f.letGo)
	for _, s := range f.followed {
		s.reset()
	}
}

// handle handles a change of what is served.
func (f *follower) handle(ctx context.Context, c discovery.Change) {
	switch c.Type {
	case discovery.Added, discovery.Changed:
		f.attach(ctx, c.Resource)
	case discovery.Removed:
		if s := f.find(c.Resource); s != nil {
			s.remove(nil)
		}
	case discovery.Unknown, discovery.Known:
		f.setAvailability(c)
		f.setCauses(c)
	case discovery.Synced:
		f.complete()
	}
}

// complete records that everything that is served at the beginning is known.
func (f *follower) complete() {
	f.mu.Lock()
	f.found.complete = true
	all := slices.Collect(maps.Values(f.followed))
	f.mu.Unlock()
	for _, s := range all {
		s.complete()
	}
	for _, n := range f.names {
		if status, ok := f.unbound(n); ok {
			f.report(status)
		}
	}
}

func (f *follower) find(r gvr.Resource) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.followed[r.GroupResource()]
}

// attach attaches a resource that is served, if it is selected.
func (f *follower) attach(ctx context.Context, r gvr.Resource) {
	f.attaching.Lock()
	defer f.attaching.Unlock()
	s := f.find(r)
	r, isNamed := f.bind(ctx, r)
	selected := isNamed || f.selection.selects(r)
	switch {
	case s == nil && !selected:
		return
	case s == nil && !r.ClusterWatch(): // a name has stayed bound to it since it was let go
		f.setCausesOf(r.GroupResource(), &stream.NotWatchableError{Resource: r})
		return
	case s != nil && !r.ClusterWatch():
		s.remove(&stream.NotWatchableError{Resource: r})
		return
	case s != nil && !selected:
		s.remove(errors.New("the resource has changed, and no pattern or category selects it any more"))
		return
	}
	f.mu.Lock()
	initial, before, isNew := !f.found.complete, f.letGo[r.GroupResource()], s == nil
	if isNew {
		s = newFollowed(f, r, initial, before)
		delete(f.letGo, r.GroupResource())
		f.followed[r.GroupResource()] = s
	}
	f.mu.Unlock()
	switch {
	case isNew && before.dropped:
		s.setState(Dropped, nil)
		return
	case !isNew && !s.serve(r, initial):
		return
	}
	// From the second run on s is a source already, unless another source has its key.
	if err := f.sources.Add(s, nil); err != nil && !f.sources.Has(friend.Access{}, s) {
		s.setState(Dropped, err)
	}
}
