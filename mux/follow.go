package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
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
	// Stream returns the options for a resource. Namespaces, Scope and End must be
	// left zero, Index can't be IndexNone, and Start must be zero or Now, which counts for the resources that are
	// served at the beginning: else the source fails with an *OptionsError. It is called
	// by several goroutines at once. Nil means the zero Options.
	Stream func(gvr.Resource) stream.Options
	// UntilSynced ends the sequence when everything that is served and may be watched
	// has told SYNCED. It does not wait for APIs that do not answer (Status.Discovery)
	// nor for what is gone or failing.
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

// follow keeps what a Selection selects attached to a Mux.
type follow struct {
	resolver  *discovery.Resolver
	client    dynamic.Interface
	selection selection
	options   FollowOptions
	mux       *Mux
	rights    *rights
	serving   sync.Mutex   // one resource is attached at a time
	ranges    atomic.Int64 // so far

	mu       sync.Mutex
	subjects map[schema.GroupResource]*subject
	named    []*named
	looked   bool                          // the first look is over
	down     map[schema.GroupVersion]error // APIs that do not answer; zero is the server
}

// named is a name that was selected.
type named struct {
	ref    gvr.Ref
	again  bool // it could not be resolved though something was added that it may stand for
	bound  bool // it stands for a resource
	of     schema.GroupResource
	status Followed // while it does not
}

// Follow returns a Mux whose sources are what a Selection selects, one for each
// resource of a group, under the key "widgets.example.com". While it is ranged over
// it attaches them by itself:
//
//   - A resource is attached when it comes to be served, and let go of when it is no
//     more; its state is Gone then, which is no error. If it is served again it
//     is attached again, as another incarnation: GAP and what is different. Both take less than
//     two seconds where discovery is as quick (see Triggers).
//   - The versions of a resource are one source. If another one is chosen (see
//     discovery.Resolver.Changes) the sequence goes on in that one: nothing is told again.
//   - Where a resource may not be watched across the cluster, it is watched in the
//     namespaces where it may be: of all there are, if those may be watched, or else of
//     Selection.Candidates. That is asked again every few seconds (with SelfSubjectRulesReview
//     and SelfSubjectAccessReview; where the server has none by listing one object): new namespaces and new rights are
//     noticed within 15 s, and so is that it may be watched across the cluster again.
//     At no such change is anything told again, or left out that the server still knows.
//     Event.Namespace says where an event was watched. While not all namespaces are watched,
//     the objects in the others are not told to be gone, also if a namespace is deleted that
//     one may no longer look into: nothing is known of them until they can be seen again.
//     A right that is taken away is noticed when a watch is refused: those that are open go on.
//   - The trouble of one resource does not touch the others: what its server refuses is a
//     state (Followed), and tried again. Errors that are the caller's to mend (a
//     checkpoint that belongs to another cluster, say) are for Options.OnError.
//
// What one may call of it: Add takes more sources; Remove lets go of a resource, until the Mux
// is ranged over again. AllSynced counts what is attached: one that may not be watched
// is not synced (see Status.Followed, and FollowOptions.UntilSynced).
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
	f.rights = newRights(newAsker(c), f.selection.candidates, f.checkSynced)
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
	f.ranges.Add(1)
	looks := len(f.selection.namespaces) == 0 && !fake
	f.rights.reset(looks)
	f.mu.Lock()
	clear(f.down)
	f.mu.Unlock()
	triggers := NewTriggers(f.resolver, f.client)
	running.Go(func() { triggers.Run(ctx) })
	running.Go(func() { f.rights.run(ctx) })
	if looks {
		there := &lookout{resource: namespaces, client: f.client, changed: f.rights.known, again: lookAgain, most: lookAgain}
		running.Go(func() { f.rights.lookOut(ctx, there) })
	}
	running.Go(func() { f.look(ctx) })
	for c, err := range f.resolver.Changes(ctx, &discovery.ChangesOptions{Poll: triggers.Poll}) {
		if err != nil {
			return err
		}
		if err := f.change(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain is how often it is tried to watch which namespaces there are, where
// that is of interest and not allowed.
const lookAgain = 8 * time.Second

// look looks now and then at what nobody tells: what has become of names that
// could not be resolved, and whether everything is synced.
func (f *follow) look(ctx context.Context) {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		f.checkSynced()
		if n%20 == 0 { // each second
			f.nameAgain(ctx)
		}
		if n%200 == 0 {
			f.versionAgain(ctx)
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
func (f *follow) change(ctx context.Context, c discovery.Change) error {
	switch c.Type {
	case discovery.Added, discovery.Changed:
		return f.served(ctx, c.Resource)
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
	return nil
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
func (f *follow) served(ctx context.Context, r gvr.Resource) error {
	f.serving.Lock()
	defer f.serving.Unlock()
	s := f.subject(r)
	r, isNamed := f.nameIt(ctx, r)
	selected := isNamed || f.selection.selects(r)
	switch {
	case s == nil && !selected:
		return nil
	case s != nil && !r.ClusterWatch():
		s.remove(&stream.NotWatchableError{Resource: r})
		return nil
	case s != nil && !selected:
		s.remove(errNotSelected)
		return nil
	}
	f.mu.Lock()
	first := !f.looked
	f.mu.Unlock()
	if s != nil {
		if s.serve(r, first) {
			return f.add(s)
		}
		return nil
	}
	s = newSubject(f, r, first)
	f.mu.Lock()
	f.subjects[r.GroupResource()] = s
	f.mu.Unlock()
	return f.add(s)
}

var errNotSelected = errors.New("it has changed, and is selected by no pattern and no category any more")

// add makes a subject a source of the Mux, if it is none.
func (f *follow) add(s *subject) error {
	err := f.mux.Add(s, nil)
	var there *DuplicateKeyError
	if errors.As(err, &there) && f.mux.has(s) {
		return nil
	}
	if err != nil {
		s.set(FollowDropped, err) // somebody else has its key
	}
	return nil
}

// nameIt says whether a name stands for r, and returns it in the version that was
// named, if that is served. Once a name stands for a resource it does so for good.
func (f *follow) nameIt(ctx context.Context, r gvr.Resource) (gvr.Resource, bool) {
	is := false
	for _, n := range f.named {
		if n.bound && n.of != r.GroupResource() || !mayName(n.ref, r) {
			continue
		}
		res, err := r, error(nil)
		if n.ref.Version != "" || n.ref.Group == "" || n.ref.Name != r.Resource { // else there is no question
			res, err = f.resolver.Resolve(ctx, n.ref)
		}
		if err == nil && !res.ClusterWatch() {
			err = &stream.NotWatchableError{Resource: res}
		}
		switch {
		case err == nil && res.GroupResource() == r.GroupResource():
			f.mu.Lock()
			n.bound, n.of = true, r.GroupResource()
			f.mu.Unlock()
			r, is = res, true
		case n.bound: // the version that was named is not served any more
			is = true
		case err != nil:
			f.mu.Lock()
			n.again = true
			f.mu.Unlock()
			f.waits(n, err)
		}
	}
	return r, is
}

// nameAgain tries names again that could not be resolved when something was added
// that they may stand for: that may have changed without a word.
func (f *follow) nameAgain(ctx context.Context) {
	for _, n := range f.named {
		f.mu.Lock()
		again := n.again && !n.bound
		f.mu.Unlock()
		if !again {
			continue
		}
		if res, err := f.resolver.Resolve(ctx, n.ref); err == nil && res.ClusterWatch() {
			if err := f.served(ctx, res); err != nil {
				f.waits(n, err)
			}
		}
	}
}

// versionAgain goes back to a version that was named, was not served for a while,
// and is again.
func (f *follow) versionAgain(ctx context.Context) {
	for _, n := range f.named {
		f.mu.Lock()
		s := f.subjects[n.of]
		f.mu.Unlock()
		if n.ref.Version == "" || s == nil || !s.isServed() || s.followed().Resource.Version == n.ref.Version {
			continue
		}
		if res, err := f.resolver.Resolve(ctx, n.ref); err == nil && res.ClusterWatch() {
			s.serve(res, false)
		}
	}
}

// waiting returns the status of a name that stands for nothing.
func (f *follow) waiting(n *named) (Followed, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.status, !n.bound
}

// elsewhere is how a resource is served whose version has turned out not to be.
// (That the version which was named is not served any more is no change of the one
// that discovery has chosen.)
func (f *follow) elsewhere(ctx context.Context, r gvr.Resource) gvr.Resource {
	if same, err := f.resolver.Resolve(ctx, r.Ref()); err == nil {
		return same
	}
	other, err := f.resolver.Resolve(ctx, gvr.Ref{Group: r.Group, Name: r.Resource})
	if err != nil || other.GroupResource() != r.GroupResource() || !other.ClusterWatch() {
		return r
	}
	return other
}

// heard keeps what is not known of what is served.
func (f *follow) heard(c discovery.Change) {
	if c.Subject() == discovery.OfResource {
		return // its own watch says how it is doing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Type == discovery.Known {
		delete(f.down, c.Resource.GroupVersion())
		return
	}
	f.down[c.Resource.GroupVersion()] = c.Err
	if f.options.Mux.Logger != nil {
		f.options.Mux.Logger.Warn("it is not known what is served", "api", c.Resource.GroupVersion().String(), "error", c.Err)
	}
}

// unknown says of names that wait what else they wait for.
func (f *follow) unknown(c discovery.Change) {
	for _, n := range f.named {
		anyGroup := n.ref.Group == "" && n.ref.Version == ""
		if _, ok := f.waiting(n); ok && (c.Subject() == discovery.OfServer || anyGroup || n.ref.Group == c.Resource.Group) {
			f.waits(n, c.Err)
		}
	}
}

// waits says why a name stands for nothing.
func (f *follow) waits(n *named, err error) {
	f.mu.Lock()
	same := n.status.Cause == nil && err == nil || n.status.Cause != nil && err != nil && n.status.Cause.Error() == err.Error()
	n.status.Cause = err
	status := n.status
	f.mu.Unlock()
	if !same {
		f.options.statusChanged(status)
	}
}

// checkSynced ends the sequence if that is wanted and nothing is to be waited for.
func (f *follow) checkSynced() {
	if !f.options.UntilSynced {
		return
	}
	f.mu.Lock()
	looked, subjects := f.looked, slices.Collect(maps.Values(f.subjects))
	f.mu.Unlock()
	if looked && !slices.ContainsFunc(subjects, func(s *subject) bool { return !s.isSettled() && f.mux.has(s) }) {
		f.mux.Drain()
	}
}

// status adds what is followed to that of the Mux.
func (f *follow) status(st *Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, gv := range slices.SortedFunc(maps.Keys(f.down), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }) {
		err := f.down[gv]
		if !gv.Empty() {
			err = fmt.Errorf("%s: %w", gv, err)
		}
		st.Discovery = errors.Join(st.Discovery, err)
	}
	for _, n := range f.named {
		if !n.bound {
			st.Followed = append(st.Followed, n.status)
		}
	}
	for _, s := range f.subjects {
		one := s.followed()
		if !f.mux.has(s) && one.State != FollowGone {
			one.State = FollowDropped
		}
		for _, n := range f.named {
			if n.bound && n.of == one.Resource.GroupResource() {
				one.Ref = n.ref
			}
		}
		st.Followed = append(st.Followed, one)
	}
	slices.SortFunc(st.Followed, func(a, b Followed) int {
		return cmp.Or(cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
}
