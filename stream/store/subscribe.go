package store

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Change is one step of what a subscriber receives. Its types have the meaning that they have in an [stream.Event].
type Change struct {
	// Type is ADDED, MODIFIED or DELETED, or one of
	//
	//   - SYNCED: the subscriber has received everything that exists, and the Store is synced.
	//   - GAP: the Store is no longer synced, because of a GAP of the Stream or the end of a run. Differences follow,
	//     then SYNCED.
	Type stream.Type
	// Old is the object before MODIFIED or DELETED, as this subscriber has received it last. Of DELETED it is the last
	// state that the subscriber knows, even if the object was deleted during a gap. Otherwise it is the zero Object.
	Old Object
	// New is the object after ADDED or MODIFIED, otherwise the zero Object.
	New Object
}

// Object returns the object that the change is about: Old of DELETED, otherwise New.
func (c Change) Object() Object {
	if c.Type == stream.Deleted {
		return c.Old
	}
	return c.New
}

// String describes the change in one line, such as "MODIFIED default/web@1052" or "SYNCED". The form may change.
func (c Change) String() string {
	o := c.Object()
	name := strings.Trim(o.Namespace()+"/"+o.Name()+"@"+o.ResourceVersion(), "/@")
	quoted := strconv.Quote(strings.TrimSpace(string(c.Type) + " " + name))
	return quoted[1 : len(quoted)-1]
}

// Subscribe returns the changes of the Store for one subscriber: everything that exists as ADDED, SYNCED as soon as the
// Store is synced, and then what changes. There may be any number of subscribers. Each loop over the sequence is one,
// and runs in the goroutine of its loop alone.
//
// A subscriber has a position of its own: a state of the Store. It receives the differences between that and the newest
// state, which becomes its position. A slow subscriber therefore holds up neither the Store nor other subscribers. It
// misses no deletion, but states between: an object that changed twice is MODIFIED once, and one that was added and
// deleted is not reported at all. Within the differences, DELETED precede ADDED and MODIFIED, each by namespace and
// name. An object that has taken the name of another one is ADDED after DELETED of the other one. If the subscriber
// keeps up, the changes have the order of the Stream.
//
// While its loop body runs, a subscriber keeps the objects of its position in memory, also those that have changed or
// been deleted since.
//
// The subscription lasts across runs of the Store, and does not end with one. It ends with the cause of ctx, or with a
// [*stream.OptionsError] if ctx is nil or s was not made with [New]; the error is its last value. So that it ends with
// the error of a run, let that cancel ctx:
//
//	ctx, cancel := context.WithCancelCause(ctx)
//	go func() { cancel(s.Run(ctx)) }()
func (s *Store) Subscribe(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		change := func(c Change) bool {
			if ctx.Err() != nil {
				yield(Change{}, context.Cause(ctx))
				return false
			}
			return yield(c, nil)
		}
		var at *state // the position; nil at first
		for {
			next, err := s.await(ctx, false, func(st *state) (bool, error) { return st != at, context.Cause(ctx) })
			if err != nil {
				yield(Change{}, err)
				return
			}
			if at == nil {
				at = &state{shards: make([]shard, len(next.shards))}
			}
			if !s.deliver(at, next, change) {
				return
			}
			at = next
		}
	}
}

// deliver calls change with the differences between two states, until it returns false. It returns whether change never
// did.
func (s *Store) deliver(a, b *state, change func(Change) bool) bool {
	object := func(n *node) Object { return Object{n.record, s.codec} }
	passes := [...]func(old, new *node) bool{
		func(old, new *node) bool {
			return old == nil || isSameObject(old, new) || change(Change{Type: stream.Deleted, Old: object(old)})
		},
		func(old, new *node) bool {
			switch {
			case new == nil:
				return true
			case !isSameObject(old, new):
				return change(Change{Type: stream.Added, New: object(new)})
			}
			return change(Change{Type: stream.Modified, Old: object(old), New: object(new)})
		},
	}
	if a.synced && b.gaps > a.gaps && !change(Change{Type: stream.Gap}) {
		return false
	}
	for _, pass := range passes {
		for i := range b.shards {
			if a.shards[i].objects == b.shards[i].objects {
				continue
			}
			if !differences(a.shards[i].objects, b.shards[i].objects, pass) {
				return false
			}
		}
	}
	if b.synced {
		return a.synced && a.gaps == b.gaps || change(Change{Type: stream.Synced})
	}
	// It was synced in between, and is no longer: a run ended at SYNCED, for example.
	return b.syncs == a.syncs || change(Change{Type: stream.Synced}) && change(Change{Type: stream.Gap})
}

// isSameObject reports whether two nodes of one name are states of one object.
func isSameObject(a, b *node) bool {
	if a == nil || b == nil {
		return false
	}
	x := a.record.Identity()
	y := b.record.Identity()
	return x.UID == y.UID
}
