package acks

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
)

// KeyRule completes the sentence "a key must be ...".
const KeyRule = "1 to 200 letters, digits, '-', '_' or '.', and neither '.' nor '..'"

var keys = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,200}$`)

// IsKey reports whether key can be the key of a checkpoint (see KeyRule).
func IsKey(key string) bool { return keys.MatchString(key) && key != "." && key != ".." }

// Begin starts a Session under a key, where the last one under that key stopped. It fills in the Identity's Cluster.
//
// Deferred is for a sequence that does not begin with a snapshot. If nothing was acked under the key yet, nothing is
// committed until its SYNCED is about to be delivered: if the program ends before, the next run begins as this one
// does.
//
// It returns a *checkpoint.MismatchError, an error of the Store, or an error if the key is invalid, a Session under the
// key has not ended, or the Tracker is closed (os.ErrClosed) or commits nothing more.
func Begin(
	ctx context.Context, t *checkpoint.Tracker, key string, id checkpoint.Identity, deferred bool,
) (*Session, error) {
	if !IsKey(key) {
		return nil, fmt.Errorf("invalid checkpoint key %q: must be %s", key, KeyRule)
	}
	c, ok := t.Engine(friend.Access{}, newCommitter).(*committer)
	if !ok {
		return nil, errClosed
	}
	id.Cluster = c.options.Cluster
	id.Namespaces = slices.Clone(id.Namespaces)
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	last, err := c.account(key)
	before, ok := last.(*ledger)
	if !ok {
		before = &ledger{phase: closed} // nothing was acked yet
	}
	if before.runs() {
		err = fmt.Errorf("checkpoint %q is in use by another Stream: each needs its own Key", key)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	saved, err := c.load(ctx, key)
	if err != nil {
		return nil, err
	}
	defer c.release()
	r := c.rules
	r.deferred = deferred
	if known := ackedIdentity(before, saved); known != nil {
		switch mismatch := differs(id, *known); {
		case mismatch == nil:
			id.Cluster.UID = cmp.Or(id.Cluster.UID, known.Cluster.UID) // keep the UID if it can't be read any more
		case c.options.Reset:
			r.reset = true
		default:
			mismatch.Key = key
			return nil, mismatch
		}
	}
	l := newLedger(key, id, r, c.due)
	if err := c.open(key, l); err != nil {
		return nil, err
	}
	return &Session{ledger: l, committer: c, position: succeed(l, before, saved)}, nil
}

// ackedIdentity returns the identity of what was acked last under a key, or nil if nothing was.
func ackedIdentity(before *ledger, saved *checkpoint.Checkpoint) *checkpoint.Identity {
	switch {
	case before.hasUncommitted():
		return &before.identity
	case saved != nil && saved.Identity.Resource != "": // else it only says that the key may be Unclean
		return &saved.Identity
	}
	return nil
}

// succeed starts l where the ledger before it stopped: from what is saved and what that one has not committed. It
// returns the position, or nil if l starts from the beginning.
func succeed(l, before *ledger, saved *checkpoint.Checkpoint) *checkpoint.Position {
	uncommitted, ok := before.close()
	switch {
	case l.rules.reset:
		return nil
	case ok && differs(l.identity, uncommitted.Identity) == nil: // there may have been acks since Begin compared them
		from := merge(saved, uncommitted).Position
		l.resume(from, &uncommitted)
		return &from
	case saved != nil:
		l.resume(saved.Position, nil)
		return &saved.Position
	}
	return nil
}

// merge returns c with a delta added. c may be nil.
func merge(c *checkpoint.Checkpoint, d checkpoint.Delta) *checkpoint.Checkpoint {
	var m checkpoint.Memory
	ctx := context.Background()
	if c != nil {
		_ = m.Commit(ctx, []checkpoint.Delta{{Key: d.Key, Put: c.Position.Objects}})
	}
	_ = m.Commit(ctx, []checkpoint.Delta{d})
	merged, _ := m.Load(ctx, d.Key)
	return merged
}

// differs returns the first difference as a *checkpoint.MismatchError without a key, or nil if a sequence of the wanted
// identity can resume from a checkpoint of the saved one.
func differs(wanted, saved checkpoint.Identity) *checkpoint.MismatchError {
	mismatch := func(field, saved, wanted string) *checkpoint.MismatchError {
		return &checkpoint.MismatchError{Field: field, Saved: saved, Wanted: wanted}
	}
	switch {
	case !sameCluster(wanted.Cluster, saved.Cluster):
		return mismatch("cluster", saved.Cluster.String(), wanted.Cluster.String())
	case !sameStorage(wanted, saved):
		return mismatch("resource", groupResource(saved), groupResource(wanted))
	case !slices.Equal(wanted.Namespaces, saved.Namespaces):
		return mismatch("namespaces", strings.Join(saved.Namespaces, ","), strings.Join(wanted.Namespaces, ","))
	case wanted.LabelSelector != saved.LabelSelector:
		return mismatch("label selector", saved.LabelSelector, wanted.LabelSelector)
	case wanted.FieldSelector != saved.FieldSelector:
		return mismatch("field selector", saved.FieldSelector, wanted.FieldSelector)
	case wanted.Shard != saved.Shard:
		return mismatch("shard", saved.Shard, wanted.Shard)
	}
	return nil
}

// sameCluster compares UIDs, and addresses if one of the UIDs is unknown.
func sameCluster(a, b checkpoint.Cluster) bool {
	if a.UID != "" && b.UID != "" {
		return a.UID == b.UID
	}
	return a.Address != "" && a.Address == b.Address
}

func sameStorage(a, b checkpoint.Identity) bool {
	return groupResource(a) == groupResource(b) ||
		a.StorageVersionHash != "" && a.StorageVersionHash == b.StorageVersionHash
}

func groupResource(i checkpoint.Identity) string {
	return schema.GroupResource{Group: i.Group, Resource: i.Resource}.String()
}
