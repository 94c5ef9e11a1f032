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

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
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
// attached, so a resource that may not be watched keeps it false (see Options.UntilSynced). What is served when the
// first run begins is attached before any of it is watched, so AllSynced is never true of a part of it.
//
// With Options.Into its methods are those of that mux.Mux, except Status, which is about its own follower.
type Mux struct {
	*mux.Mux // embedded because its methods are those of a Mux of this package
	follower *follower
}

// follower attaches and detaches resources.
type follower struct {
	*common   // embedded because nothing in it changes
	mux       *mux.Mux
	attaching sync.Mutex // serializes attach, detach and define

	mu       sync.Mutex
	followed map[schema.GroupResource]*followed
	letGo    map[schema.GroupResource]kept
	names    []*name
	found    discovered

	custom *custom // nil without Selection.Custom
}

// common is what the follower and all that it follows use.
type common struct {
	resolver  *discovery.Resolver
	client    dynamic.Interface
	selection selection
	options   Options
	group     *host.Group
	rights    *rights
	claim     func(*checkpoint.Tracker) bool // mux.Mux.Claim
	panicked  chan error                     // receives panics of Options.StatusChanged
	onSynced  func()                         // drains the Mux if nothing is left to wait for
}

// discovered is what discovery has reported in this run.
type discovered struct {
	complete    bool                          // what is served at the beginning is known
	unavailable map[schema.GroupVersion]error // APIs that do not answer; the zero GroupVersion is the server
}

// New returns a Mux that follows sel. It sends no request, unless a run of Options.Into is active. It returns a
// *stream.OptionsError. opts may be nil, and is copied. Make c with stream.NewClient.
func New(r *discovery.Resolver, c dynamic.Interface, sel Selection, opts *Options) (*Mux, error) {
	f := &follower{
		common:   &common{resolver: r, client: c, options: *cmp.Or(opts, &Options{}), panicked: make(chan error, 1)},
		followed: map[schema.GroupResource]*followed{}, letGo: map[schema.GroupResource]kept{},
		found: discovered{unavailable: map[schema.GroupVersion]error{}},
	}
	f.onSynced = func() {
		if f.options.UntilSynced {
			f.mux.DrainIfDone(friend.Access{})
		}
	}
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
	if f.selection.custom {
		if client.IsFake(c) {
			return nil, invalid.New("Custom", "",
				"must not be set with client-go's dynamic fake, where CustomResourceDefinitions can't be watched: "+
					"streamtest.Server has them")
		}
		f.custom = newCustom(f.report)
	}
	for _, ref := range f.selection.refs {
		f.names = append(f.names, &name{ref: ref, status: ResourceStatus{Ref: ref, State: Unserved, Since: time.Now()}})
	}
	f.rights = newRights(newAccessChecker(c), f.selection.namespaces, f.selection.candidates)
	if f.mux, err = f.options.mux(); err != nil {
		return nil, err
	}
	f.group = &host.Group{Prefix: f.options.Prefix, Run: f.run, Done: f.done}
	f.claim = func(t *checkpoint.Tracker) bool { return f.mux.Claim(friend.Access{}, f.group, t) }
	if err := f.mux.AddGroup(friend.Access{}, f.group); err != nil {
		return nil, err
	}
	return &Mux{f.mux, f}, nil
}

// run follows the selection during one run of the Mux.
func (f *follower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer f.reset() // last: what still runs attaches and serves resources
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() {
		select {
		case err := <-f.panicked:
			cancel(err) // which Changes returns
		case <-ctx.Done():
		}
	})
	fake := client.IsFake(f.client)
	watches := len(f.selection.namespaces) == 0 && !fake
	f.rights.reset(watches)
	f.mu.Lock()
	clear(f.found.unavailable)
	f.mu.Unlock()
	types := newTypeWatcher(f.resolver, f.client)
	if f.custom != nil {
		f.custom.begin()
		running.Go(func() { f.custom.limit(ctx) })
		types.definitions = f.custom.watcher(f.client, func(names []string) { f.define(ctx, names) })
	}
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
		synced = time.Tick(pollInterval)
	}
	names, versions := time.Tick(time.Second), time.Tick(10*time.Second)
	for {
		select {
		case <-synced:
			f.onSynced()
		case <-names:
			f.retryNames(ctx)
		case <-versions:
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
		f.detach(c.Resource)
	case discovery.Unknown, discovery.Known:
		f.setAvailability(c)
		f.setCauses(c)
	case discovery.Synced:
		f.complete()
	}
}

// complete records that everything that is served at the beginning is known, and starts what was attached.
func (f *follower) complete() {
	f.mu.Lock()
	f.found.complete = true
	all := slices.Collect(maps.Values(f.followed))
	f.mu.Unlock()
	for _, s := range all {
		s.complete()
	}
	f.mux.StartSources(friend.Access{}, f.group)
	for _, n := range f.names {
		if status, ok := f.unbound(n); ok {
			f.report(status)
		}
	}
}

func (f *follower) find(r schema.GroupResource) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.followed[r]
}

// attach attaches a resource that is served, if it is selected.
func (f *follower) attach(ctx context.Context, r gvr.Resource) {
	f.attaching.Lock()
	defer f.attaching.Unlock()
	f.mu.Lock()
	initial := !f.found.complete
	f.mu.Unlock()
	f.attachNext(ctx, r, initial)
}

// attachNext is attach for callers that hold f.attaching. initial says that r was served when the run began.
func (f *follower) attachNext(ctx context.Context, r gvr.Resource, initial bool) {
	s := f.find(r.GroupResource())
	r, isNamed := f.bind(ctx, r)
	selected := isNamed || f.selection.selects(r) && (f.custom == nil || f.custom.defines(r, initial))
	switch {
	case s == nil && !selected:
		return
	case s == nil && !r.ClusterWatch(): // a name has stayed bound to it since it was let go
		f.setCausesOf(r.GroupResource(), &stream.NotWatchableError{Resource: r})
		return
	case s != nil && !r.ClusterWatch():
		s.remove(&stream.NotWatchableError{Resource: r})
		return
	case s != nil && !selected && f.selection.selects(r):
		s.remove(errors.New("no CustomResourceDefinition defines the resource any more"))
		return
	case s != nil && !selected:
		s.remove(errors.New("the resource has changed, and the selection no longer has it"))
		return
	}
	f.mu.Lock()
	before, isNew := f.letGo[r.GroupResource()], s == nil
	if isNew {
		s = newFollowed(f.common, r, initial, before)
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
	if err := f.mux.Add(s, nil); err != nil && !f.mux.Has(friend.Access{}, s) {
		s.setState(Dropped, err)
	}
}

// detach detaches a resource that is no longer served.
func (f *follower) detach(r gvr.Resource) {
	f.attaching.Lock()
	defer f.attaching.Unlock()
	if f.custom != nil {
		f.custom.remove(r)
	}
	if s := f.find(r.GroupResource()); s != nil {
		s.remove(nil)
	}
}

// goneTime is how long a resource may be gone before it is let go.
const goneTime = 5 * time.Minute

// kept is what is kept of a resource that is gone, so that its sequence goes on if it is served again.
type kept struct {
	cursor      cursor
	incarnation int
	dropped     bool // it was Dropped, so that it does not go on
}

// letGoOfGone detaches resources that have not been served for goneTime, once the loop has received all their events.
// What is known of them stays, usually a few hundred bytes: where the sequence ended, and the objects whose deletion
// has not been delivered, if there are any.
func (f *follower) letGoOfGone() {
	f.attaching.Lock() // none of them is served again meanwhile
	defer f.attaching.Unlock()
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.followed))
	f.mu.Unlock()
	for _, s := range all {
		dropped := !f.mux.Has(friend.Access{}, s)
		gone, idle := s.isGone(goneTime)
		if !gone || !dropped && (!idle || !f.mux.RemoveIdle(friend.Access{}, s)) {
			continue
		}
		status := s.get().status()
		before := kept{incarnation: status.Incarnation, dropped: dropped}
		if !dropped { // else its goroutine may not have ended
			before.cursor = s.cursor
		}
		var cause error
		if bad := (*stream.NotWatchableError)(nil); errors.As(status.Cause, &bad) {
			cause = bad
		}
		of := status.Resource.GroupResource()
		f.mu.Lock()
		delete(f.followed, of)
		f.letGo[of] = before
		for _, n := range f.names {
			if n.bound && n.boundTo == of {
				n.status = ResourceStatus{Ref: n.ref, State: Unserved, Since: time.Now(), Cause: cause}
			}
		}
		f.mu.Unlock()
	}
}
