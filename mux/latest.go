package mux

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// latestQueue keeps of each object what is needed to say how it is now. It is a
// list in the order in which it is told, in segments that GAP and SYNCED part.
type latestQueue struct {
	first, last *node
	n           int
	total       int64
	ended       bool
	pushed      uint64
	// due is the stamp up to which nothing is merged any more: it was all there when the
	// one before the first was told, so that its turn comes however fast it changes.
	due    uint64
	lanes  map[string]*lane // by Event.Namespace, each of which has GAPs of its own
	synced *node            // that waits; nil for none

	coalesced, vanished *uint64
}

// lane is what waits of the objects of one Event.Namespace.
type lane struct {
	objects  map[objectID]*node // the last one of each, in the segment that is being told
	most     int                // of them, since the map was made
	gaps     []*node            // that wait
	resynced bool               // SYNCED has come since the last of them
	bookmark *node              // that waits; nil for none
}

type objectID struct {
	types.NamespacedName
	uid types.UID
}

type node struct {
	item
	id         objectID
	stamp      uint64 // where it was pushed
	known      bool   // an ADDED of an object that the receiver knows, or may know, already
	unsure     bool   // the receiver may know the object, or not, before it is told
	prev, next *node
}

func newLatestQueue(coalesced, vanished *uint64) *latestQueue {
	return &latestQueue{lanes: map[string]*lane{}, coalesced: coalesced, vanished: vanished}
}

func (q *latestQueue) len() int     { return q.n }
func (q *latestQueue) bytes() int64 { return q.total }

func (q *latestQueue) events() int {
	if q.ended {
		return q.n - 1
	}
	return q.n
}

func (q *latestQueue) push(it item) {
	q.pushed++
	n := &node{item: it, stamp: q.pushed}
	if it.end {
		q.ended = true
		q.append(n)
		return
	}
	switch l := q.lane(it.event.Namespace); it.event.Type {
	case stream.Synced:
		q.pushSynced(n)
	case stream.Gap:
		q.pushGap(l, n)
	case stream.Bookmark:
		if l.bookmark != nil {
			q.void(l.bookmark)
		}
		l.bookmark = n
		q.append(n)
	default:
		if o := it.event.Object; o != nil {
			n.id = objectID{types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID()}
			n.unsure = it.event.Mark.MayBeKnown()
			n.known = n.unsure && it.event.Type == stream.Added
			q.append(n)
			q.settle(l, n)
		} else {
			q.append(n) // no Stream tells that
		}
	}
}

func (q *latestQueue) lane(namespace string) *lane {
	l := q.lanes[namespace]
	if l == nil {
		l = &lane{objects: map[objectID]*node{}}
		q.lanes[namespace] = l
	}
	return l
}

func (l *lane) part() { l.objects, l.most = map[objectID]*node{}, 0 }

// pushSynced: one that waits already has been overtaken.
func (q *latestQueue) pushSynced(n *node) {
	if q.synced != nil {
		q.void(q.synced)
		q.rebuild()
	}
	q.synced = n
	q.append(n)
	for _, l := range q.lanes {
		l.part()
		l.resynced = true
	}
}

// pushGap: a SYNCED that waits is not true any more. If a GAP waits as well, the
// two become one, so that no number of them takes more memory.
func (q *latestQueue) pushGap(l *lane, n *node) {
	parted := q.synced != nil
	if parted {
		q.void(q.synced)
		q.synced = nil
	}
	joined := q.join(l, n)
	if (joined || parted) && l.bookmark != nil {
		q.void(l.bookmark) // it says what was true between the two, or after that SYNCED
		l.bookmark = nil
	}
	if !joined {
		q.append(n)
		l.gaps = append(l.gaps, n)
	}
	if joined || parted {
		q.rebuild()
	} else {
		l.part()
	}
	l.resynced = false
}

// join makes a GAP part of one that waits, if it can be. What is told after both is
// the difference to what was told before both.
func (q *latestQueue) join(l *lane, n *node) bool {
	if len(l.gaps) == 0 || n.event.Gap == nil {
		return false
	}
	before := l.gaps[len(l.gaps)-1]
	both, more := *before.event.Gap, n.event.Gap
	if more.HistoryLost {
		switch {
		case l.resynced || more.Reason == stream.GapRestarted:
			// There is no index: what exists is told once more, what does not is not told
			// of, and what was told since the last GAP is worth nothing.
			q.discard(before)
		case len(l.gaps) < 2:
			// With an index this one tells differences, and without one everything. Which
			// it is does not show.
			return false
		default: // twice in a row an index does not lose its history
			q.discard(before)
		}
	}
	both.To = more.To
	both.Duration += more.Duration
	both.HistoryLost = both.HistoryLost || more.HistoryLost
	if more.Reason == stream.GapRewound {
		both.Reason = more.Reason
	}
	before.event.Gap = &both
	n.event.Mark.Void()
	return true
}

// discard removes what follows a GAP of its namespace.
func (q *latestQueue) discard(gap *node) {
	for n := gap.next; n != nil; {
		next := n.next
		if n.event.Object != nil && n.event.Namespace == gap.event.Namespace {
			*q.vanished += uint64(n.event.Coalesced) + 1
			q.void(n)
		}
		n = next
	}
}

// rebuild merges what is no longer parted.
func (q *latestQueue) rebuild() {
	for _, l := range q.lanes {
		l.part()
	}
	for n := q.first; n != nil; {
		next := n.next
		switch {
		case n.end:
		case n.event.Type == stream.Synced:
			for _, l := range q.lanes {
				l.part()
			}
		case n.event.Type == stream.Gap:
			q.lane(n.event.Namespace).part()
		case n.event.Object != nil:
			q.settle(q.lane(n.event.Namespace), n)
		}
		n = next
	}
}

// append puts n at the end of the list.
func (q *latestQueue) append(n *node) {
	if q.last == nil {
		q.first = n
	} else {
		q.last.next, n.prev = n, q.last
	}
	q.last = n
	q.n++
	q.total += n.size
}

// remove takes n out of the list.
func (q *latestQueue) remove(n *node) {
	if n.prev == nil {
		q.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		q.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
	q.n--
	q.total -= n.size
}

// void removes what is not told, and need not be.
func (q *latestQueue) void(n *node) {
	n.event.Mark.Void()
	q.remove(n)
}

func (q *latestQueue) pop() item {
	n := q.first
	if n.stamp > q.due {
		q.due = q.pushed
	}
	q.remove(n)
	if n.end {
		q.ended = false
		return n.item
	}
	l := q.lane(n.event.Namespace)
	switch {
	case n == q.synced:
		q.synced = nil
	case n == l.bookmark:
		l.bookmark = nil
	case len(l.gaps) > 0 && n == l.gaps[0]:
		l.gaps = l.gaps[1:]
	case l.objects[n.id] == n:
		delete(l.objects, n.id)
		if len(l.objects) == 0 && l.most > mostKept {
			l.part() // a map never gets smaller
		}
	}
	return n.item
}

// mostKept is how many objects a map that is empty may have had.
const mostKept = 1000
