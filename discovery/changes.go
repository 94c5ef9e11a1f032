package discovery

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// ChangeType is the type of a [Change].
type ChangeType string

const (
	// Added reports that the resource is served. It was not reported before, or was Removed since.
	Added ChangeType = "Added"
	// Removed reports that the resource is no longer served: every version of its
	// group could be read, and none has it. Resource is as last reported.
	Removed ChangeType = "Removed"
	// Changed reports that Old has become Resource: its version, scope, kind, names, categories or verbs differ. It may
	// have become watchable, or stopped being so. A Changed also ends an Unknown.
	Changed ChangeType = "Changed"
	// Unknown reports that the resource, the API or the server cannot be read, and so may or may not exist. Err is the
	// reason. It comes once, and is not repeated until another Change has ended it.
	Unknown ChangeType = "Unknown"
	// Known ends an Unknown with the same Resource: the resource is unchanged (if it is not, Changed or Removed comes
	// instead), the API or the server answers again, or the server no longer lists the API.
	Known ChangeType = "Known"
	// Synced reports that everything the first successful poll found has been reported.
	// It comes once in each run. Resource is zero.
	Synced ChangeType = "Synced"
)

// Change is one change that [Resolver.Changes] reports. It concerns a resource, unless IsAPI or IsServer is true.
type Change struct {
	Type ChangeType
	// Resource is the resource. It has only Group and Version if the Change concerns
	// an API, and is zero if the Change concerns the server.
	Resource gvr.Resource
	// Old is the resource as last reported. It is set only when Type is Changed.
	Old gvr.Resource
	// Err is set only when Type is Unknown. The predicates of
	// k8s.io/apimachinery/pkg/api/errors, such as IsForbidden, work on it.
	Err error
}

// IsAPI reports whether c concerns an API: one version of a group, or all of its versions if Resource.Version is empty.
// Only Unknown and Known concern APIs. While an API is Unknown, new resources in it go unreported, and those already
// reported in it become Unknown one by one.
func (c Change) IsAPI() bool {
	return c.Resource.Resource == "" && !c.Resource.GroupVersion().Empty()
}

// IsServer reports whether c concerns the server: its list of APIs, and with that every resource. This is always so for
// Synced, and possible for Unknown and Known. While the server is Unknown, nothing else is reported.
func (c Change) IsServer() bool {
	return c.Resource.Resource == "" && c.Resource.GroupVersion().Empty()
}

// String returns a line for logs, such as "Changed widgets.v1.example.com to widgets.v2.example.com".
func (c Change) String() string {
	words := []string{string(c.Type)}
	switch {
	case c.IsAPI():
		words = append(words, "API", strings.TrimSuffix(c.Resource.GroupVersion().String(), "/"))
	case !c.IsServer():
		if c.Type == Changed && c.Old.GroupVersionResource != c.Resource.GroupVersionResource {
			words = append(words, c.Old.String(), "to")
		}
		words = append(words, c.Resource.String())
	case c.Type != Synced:
		words = append(words, "server")
	}
	if c.Err != nil {
		return fmt.Sprintf("%s: %v", strings.Join(words, " "), c.Err)
	}
	return strings.Join(words, " ")
}

// interval returns the interval between polls.
func interval(poll func() time.Duration) time.Duration {
	if poll != nil {
		if interval := poll(); interval > 0 {
			return interval
		}
	}
	return 30 * time.Second
}

// Changes reports what the server serves, over time. Each run, which is one loop over the sequence, yields an Added for
// each resource, then Synced, then each change. A resource with several versions is reported in one of them: the
// version that [Resolver.Watchables] would return or, if none can be watched, the one that [Resolver.Resolve] would.
// Changes to its other versions are not reported.
//
// Unknown does not mean Removed. While an API cannot be read, its resources are Unknown; so is a resource whose own
// version cannot be read, even if another version can. A resource is Added in a less preferred version if the preferred
// one cannot be read, and is Changed once that one can be. While the whole server does not answer, or denies access,
// Changes reports one Unknown for the server and nothing else. Every Unknown ends: for a resource with Known, Changed
// or Removed, otherwise with Known. The Known of an API comes after the changes of its resources. If the server or an
// API is down at the start, its Unknown comes before Synced.
//
// A CRD that is being deleted first loses its verbs create, update and patch, so a Changed often precedes its Removed.
//
// The sequence ends when the loop breaks or ctx ends. The only error of a Resolver with a client is the cause of ctx,
// and it comes last. Look at the error first: the Change beside it is zero, and its IsServer is true. Failed polls are
// retried after random delays that grow to at most 30 s.
//
// All work happens in the caller's goroutine. A run does not poll while the loop body executes; afterwards it continues
// from the newest state. Concurrent runs each receive every change, and share their polls with each other and with
// Resolve. Each run, including a second one over the same sequence, begins with a new poll.
//
// Not promised: a change that is reverted between two polls, and the removal of a type that is added again between them
// (a watch on the type reveals it). Discovery documents lag behind what is served; see [Resolver.Refresh]. An Added may
// follow a Removed although the type existed all along: a server that has just started may leave out CRDs until it is
// ready (kubernetes/kubernetes#89145) and aggregated APIs for longer (kubernetes/kubernetes#115303), and servers that
// share one address lag independently.
//
// poll returns the interval between polls, applied with up to 10 % jitter. A nil poll, or a result that is not
// positive, means 30 s; the minimum is 100 ms. A server that answers slowly is polled less often. The goroutine that
// runs the loop calls poll at least after each poll and each Refresh, so its result may change over time; call Refresh
// to apply a new result at once. It must not block.
func (r *Resolver) Changes(ctx context.Context, poll func() time.Duration) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if err := r.check(ctx); err != nil {
			yield(Change{}, err)
			return
		}
		d := &differ{}
		_, seen := r.cached()
		for first := true; ; first = false {
			p, err := r.await(ctx, seen, first, poll)
			if err != nil {
				yield(Change{}, err)
				return
			}
			seen = p.number
			var changes []Change
			if p.err != nil {
				changes = d.fail(p.err)
			} else {
				changes = d.update(p.catalog)
			}
			for _, change := range changes {
				if err := context.Cause(ctx); err != nil {
					yield(Change{}, err)
					return
				}
				if !yield(change, nil) {
					return
				}
			}
		}
	}
}

// Refresh makes the Resolver poll again because resource types have changed or are
// about to. Call it for each event of a CRD or an APIService. It returns at once.
//
// Refresh empties the cache of Resolve and Watchables. Runs of Changes poll 50 ms after the first Refresh of a burst,
// which leaves time for the other events of the same change, and again 0.4, 1, 1.8, 3 and 6 s after the last Refresh,
// because the server updates its discovery documents late: a CRD is Established, and even served, before they list it
// (by up to 1.7 s on an idle server; see also kube-rs/kube#951). However often Refresh is called, it causes at most
// three polls a second, except that the first three may follow each other without a pause. Without a run of Changes, it
// causes no polls.
func (r *Resolver) Refresh() {
	if r.check(context.Background()) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls.outdated = r.polls.started
	r.schedule.refresh(time.Now())
	r.wake()
}
