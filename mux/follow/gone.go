package follow

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
)

// goneTime is how long a resource may be gone before it is let go.
const goneTime = 5 * time.Minute

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
		dropped := !f.sources.Has(friend.Access{}, s)
		gone, idle := s.isGone(goneTime)
		if !gone || !dropped && (!idle || !f.sources.RemoveIdle(friend.Access{}, s)) {
			continue
		}
		status := s.getStatus()
		before := sequence{incarnation: status.Incarnation, dropped: dropped}
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
