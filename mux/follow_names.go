package mux

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// named is a name that was selected.
type named struct {
	ref    gvr.Ref
	again  bool // it could not be resolved though something was added that it may stand for
	bound  bool // it stands for a resource
	of     schema.GroupResource
	status Followed // while it does not
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
			if !is { // of several names the first one says which version
				r = res
			}
			is = true
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
			f.served(ctx, res)
		}
	}
}

// versionAgain goes back to a version that was named, was not served for a while,
// and is again.
func (f *follow) versionAgain(ctx context.Context) {
	seen := map[schema.GroupResource]bool{}
	for _, n := range f.named {
		f.mu.Lock()
		bound, of := n.bound, n.of
		s := f.subjects[of]
		f.mu.Unlock()
		if !bound || seen[of] {
			continue // of several names the first one says which version
		}
		seen[of] = true
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

// unknown says of names that wait what else they wait for.
func (f *follow) unknown(c discovery.Change) {
	for _, n := range f.named {
		anyGroup := n.ref.Group == "" && n.ref.Version == ""
		if _, ok := f.waiting(n); ok && (c.IsServer() || anyGroup || n.ref.Group == c.Resource.Group) {
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
