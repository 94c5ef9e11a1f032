package stream

import (
	"errors"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

// Type says what an Event tells. ADDED, MODIFIED and DELETED are those of the
// Kubernetes watch, from the point of view of this sequence: ADDED is an object
// it has not told of before, or not since it told DELETED.
type Type string

const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	// Deleted is an object that no longer exists, or no longer matches the
	// selectors or Options.Select.
	Deleted Type = "DELETED"
	// Bookmark says that everything up to ResourceVersion has been told. It is only
	// told if Options.Bookmarks is set.
	Bookmark Type = "BOOKMARK"
	// Synced follows a snapshot, once a watch is open: everything that existed at
	// ResourceVersion has been told, and what changes from there on will be.
	Synced Type = "SYNCED"
	// Gap says that it can't be told what happened since Gap.From. Only the
	// differences to what was told before follow, then SYNCED.
	Gap Type = "GAP"
)

// Event is one step of the sequence.
type Event struct {
	Type     Type
	Resource gvr.Resource
	// Namespace is the one that the list or the watch was confined to: one of
	// Options.Namespaces, or empty where the whole cluster is watched. It is empty
	// for SYNCED, which is for all of them.
	Namespace string
	// Object is nil for BOOKMARK, SYNCED and GAP. It is the receiver's own to keep
	// and change.
	Object *unstructured.Unstructured
	// ResourceVersion is the object's; for SYNCED that of the snapshot, for BOOKMARK
	// the server's. It is empty for GAP, for a SYNCED of several namespaces, and
	// where the server gave none (client-go's fakes).
	ResourceVersion string
	// Inferred says that it was found by comparing with what was told before, not
	// told by an event of the server: what differs in a snapshot after a GAP, or the
	// end of an object that another one of the same name has replaced. The Object
	// of an inferred DELETED holds only apiVersion, kind, and of its metadata
	// namespace, name, uid and the last resourceVersion that was known (with a
	// checkpoint none, if no event of the object was acked).
	Inferred bool
	// Gap is nil but for GAP.
	Gap *GapDetails
	// Source is the key of its source, where several are merged (package mux).
	Source string
	// Coalesced is how many events of the object it stands for besides itself, where a
	// Mux keeps only the latest (mux.Latest).
	Coalesced int
	// Mark is for Ack and package mux. It is nil without Options.Checkpoint, and in a SYNCED
	// that comes because a namespace is no longer watched (mux.Follow). Tests that compare
	// events with go-cmp ignore it: cmpopts.IgnoreFields(stream.Event{}, "Mark").
	Mark *acks.Mark `json:"-"`
}

// GapDetails says why, from where and for how long it is not known what happened.
type GapDetails struct {
	Reason GapReason
	// From is the resourceVersion up to which everything has been told, empty if there
	// is none, To that of the snapshot whose differences follow. The SYNCED that follows
	// may have a newer one, if that snapshot broke off and another one was read.
	From, To string
	// Duration is for how long it is not known what happened: since the last event,
	// bookmark or SYNCED, or the end of a watch that had been open for a while.
	Duration time.Duration
	// HistoryLost says that what was told before can't be compared with, so that
	// more than the states in between is lost. With NoIndex everything follows as
	// ADDED once more, and objects that are gone are not told. After a start at a
	// version (After), objects that were never told may be gone without a word.
	HistoryLost bool
}

// GapReason is why it can't be told what happened since a resourceVersion.
type GapReason string

const (
	// GapExpired: the server answered 410, or kept closing watches at that
	// version without a word (kubernetes/kubernetes#104171, #137089).
	GapExpired GapReason = "expired"
	// GapRewound: the server's versions are lower than what was told: it has gone
	// back in time, as when its etcd was restored from a backup. What it has at a
	// version may not be what it had then, so that everything that exists follows, as
	// MODIFIED where it was known.
	GapRewound GapReason = "rewound"
	// GapPoison: the server sent what can't be read, at the same version again and
	// again.
	GapPoison GapReason = "poison"
	// GapUnversioned: the watch ended and its events bore no resourceVersion to go
	// on from, as those of client-go's fakes, or one that can't follow the last.
	GapUnversioned GapReason = "unversioned"
	// GapRestarted: a snapshot broke off and began again, or an earlier run was killed
	// before it had acked its first one, and what was delivered of it is not known: with
	// NoIndex, and with a checkpoint to which objects are not written ahead.
	GapRestarted GapReason = "restarted"
	// GapScope: the resource was watched in other namespaces, or across the cluster,
	// before (mux.Follow, where rights change). What is different follows; the states in
	// between are lost.
	GapScope GapReason = "scope"
)

// Ack says that the event has been handled. It may be called in any order, from
// any goroutine, and more than once: events of all types are to be acked. Without
// Options.Checkpoint it does nothing.
func (e Event) Ack() { e.Mark.Ack() }

// ErrUnmet is returned by Until when the sequence ended, without an error,
// before the condition held.
var ErrUnmet = errors.New("the sequence ended before the condition held")

// Until ranges over seq until cond returns true, and returns the event for which
// it did. An error of cond or of seq ends it. The sequence begins with what
// exists, so there is no need to look first; and at SYNCED cond knows that what
// it has not seen does not exist:
//
//	// until the object is deleted, or was not there in the first place
//	found := false
//	_, err := stream.Until(s.Events(ctx), func(ev stream.Event) (bool, error) {
//		switch ev.Type {
//		case stream.Added, stream.Modified:
//			found = true
//		case stream.Deleted:
//			found = false
//			return true, nil
//		}
//		return ev.Type == stream.Synced && !found, nil
//	})
func Until(seq iter.Seq2[Event, error], cond func(Event) (bool, error)) (Event, error) {
	for ev, err := range seq {
		if err != nil {
			return Event{}, err
		}
		if met, err := cond(ev); met || err != nil {
			return ev, err
		}
	}
	return Event{}, ErrUnmet
}

// Acked calls Ack on each event once the loop body is done with it: not if the
// body leaves the loop with it, by break, return or panic.
func Acked(seq iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for ev, err := range seq {
			if !yield(ev, err) {
				return
			}
			if err == nil {
				ev.Ack()
			}
		}
	}
}
