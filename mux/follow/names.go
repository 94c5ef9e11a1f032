package follow

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// name is a name in Selection.Resources. Once it is bound to a resource it stays so.
type name struct {
	ref     gvr.Ref
	retry   bool // it could not be resolved when a resource was added that it may stand for
	bound   bool
	boundTo schema.GroupResource // the resource that it is bound to
	status  ResourceStatus       // while it is not bound to a resource that is followed
}

// bind binds the names that stand for r, and reports whether there are any. It returns r in the version that was named,
// if that is served.
func (f *follower) bind(ctx context.Context, r gvr.Resource) (gvr.Resource, bool) {
	isNamed := false
	for _, n := range f.names {
		if n.bound && n.boundTo != r.GroupResource() || !mayName(n.ref, r) {
			continue
		}
		res, err := r, error(nil)
		if n.ref.Version != "" || n.ref.Group != r.Group || n.ref.Name != r.Resource { // else the name is unambiguous
			res, err = f.resolver.Resolve(ctx, n.ref)
		}
		if err == nil && !res.ClusterWatch() {
			err = &stream.NotWatchableError{Resource: res}
		}
		switch {
		case err == nil && res.GroupResource() == r.GroupResource():
			f.mu.Lock()
			n.bound, n.boundTo = true, r.GroupResource()
			f.mu.Unlock()
			if !isNamed { // the first of several names decides the version
				r = res
			}
			isNamed = true
		case n.bound: // the version that was named is no longer served
			isNamed = true
		case err != nil:
			f.mu.Lock()
			n.retry = true
			f.mu.Unlock()
			f.setCause(n, err)
		}
	}
	return r, isNamed
}

// retryNames tries again to resolve names that failed when a resource was added that they may stand for. No
// discovery.Change reports when they can be resolved.
func (f *follower) retryNames(ctx context.Context) {
	for _, n := range f.names {
		f.mu.Lock()
		retry := n.retry && !n.bound
		f.mu.Unlock()
		if !retry {
			continue
		}
		if res, err := f.resolver.Resolve(ctx, n.ref); err == nil && res.ClusterWatch() {
			f.attach(ctx, res)
		}
	}
}

// restoreVersions returns to versions that were named and are served again.
func (f *follower) restoreVersions(ctx context.Context) {
	seen := map[schema.GroupResource]bool{}
	for _, n := range f.names {
		f.mu.Lock()
		bound, of := n.bound, n.boundTo
		s := f.followed[of]
		f.mu.Unlock()
		if !bound || seen[of] {
			continue // the first of several names decides the version
		}
		seen[of] = true
		if n.ref.Version == "" || s == nil {
			continue
		}
		if now := s.get().served; !now.now || now.resource.Version == n.ref.Version {
			continue
		}
		if res, err := f.resolver.Resolve(ctx, n.ref); err == nil && res.ClusterWatch() {
			s.serve(res, false)
		}
	}
}

// unbound returns the status of a name, and false if it is bound to a resource that is followed.
func (f *follower) unbound(n *name) (ResourceStatus, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.status, f.followed[n.boundTo] == nil
}

// otherVersion returns a resource in a version that is served, if its own no longer is. (Discovery reports no change
// when a version that was named, and is not the preferred one, is no longer served.)
func (c *common) otherVersion(ctx context.Context, r gvr.Resource) gvr.Resource {
	if same, err := c.resolver.Resolve(ctx, r.Ref()); err == nil {
		return same
	}
	other, err := c.resolver.Resolve(ctx, gvr.Ref{Group: r.Group, Name: r.Resource})
	if err != nil || other.GroupResource() != r.GroupResource() || !other.ClusterWatch() {
		return r
	}
	return other
}

// setCauses sets the cause of each name that may belong to an API whose availability has changed: its error, or if it
// is Known one of an API that still does not answer.
func (f *follower) setCauses(c discovery.Change) {
	for _, n := range f.names {
		if _, ok := f.unbound(n); !ok || !mayBelong(n.ref, c.Resource.GroupVersion()) {
			continue
		}
		cause := c.Err
		if cause == nil {
			cause = f.unavailable(n.ref)
		}
		f.setCause(n, cause)
	}
}

// mayBelong reports whether a name may stand for a resource of an API. The zero GroupVersion is the server. A group
// without a dot may be how a group begins, if there is no version: see discovery.Resolver.Resolve.
func mayBelong(ref gvr.Ref, gv schema.GroupVersion) bool {
	anyGroup := ref.Group == "" && ref.Version == ""
	begins := ref.Group != "" && ref.Version == "" && !strings.Contains(ref.Group, ".") &&
		strings.HasPrefix(gv.Group, ref.Group)
	return gv.Empty() || anyGroup || ref.Group == gv.Group || begins
}

// unavailable returns the error of the first API that does not answer and may have the resource.
func (f *follower) unavailable(ref gvr.Ref) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, gv := range f.found.apis() {
		if mayBelong(ref, gv) {
			return f.found.unavailable[gv]
		}
	}
	return nil
}

// setCausesOf sets why a resource that has been let go is not followed again, for the names that are bound to it.
func (f *follower) setCausesOf(r schema.GroupResource, err error) {
	for _, n := range f.names {
		if n.bound && n.boundTo == r {
			f.setCause(n, err)
		}
	}
}

// setCause sets why a name does not stand for a resource that is followed.
func (f *follower) setCause(n *name, err error) {
	f.mu.Lock()
	old := n.status.Cause
	same := old == nil && err == nil || old != nil && err != nil && old.Error() == err.Error()
	n.status.Cause = err
	status := n.status
	f.mu.Unlock()
	if !same {
		f.report(status)
	}
}
