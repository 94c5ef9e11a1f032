package mux

import (
	"container/list"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/stream"
)

// latestQueue keeps what is needed to describe each object as it is now ([Latest]). It is a list in the order of
// delivery: the newest event of an object takes the place of the oldest one that it stands for. Events before and after
// a GAP or SYNCED are not coalesced.
type latestQueue struct {
	line     list.List // of *node
	waiting  load
	synced   int                 // number of SYNCED in the line
	segments map[string]*segment // by Event.Namespace, since each namespace has its own GAPs

	coalescing *coalescing // of the source
}

// coalescing is what a latestQueue shares with its source: about the active run, or else the last one.
type coalescing struct {
	again               bool // the source was started again, and no SYNCED came since
	coalesced, vanished uint64
}

// segment holds what waits of one Event.Namespace since its last GAP or SYNCED.
type segment struct {
	objects  map[objects.ID]*node // the last event of each object
	most     int                  // the largest size of objects since the map was made
	gaps     int                  // number of GAPs in the line, those of earlier segments too
	bookmark *node                // the BOOKMARK in the line, or nil
}

type node struct {
	item // embedded because a node is an item with its place in the line
	id   objects.ID
	at   *list.Element
}

// mark returns the mark of the node's event.
func (n *node) mark() *acks.Mark { return n.event.Envelope(friend.Access{}).Mark }

// maxGaps (for each namespace) and maxSynced bound the GAPs and SYNCEDs in the line, and so the memory to a few times
// what exists. A source that has one more waits.
const maxGaps, maxSynced = 1, 2

// maxEmptyMap is how many objects an empty map may once have held to be kept: a map never shrinks.
const maxEmptyMap = 1000

func newLatestQueue(c *coalescing) *latestQueue {
	return &latestQueue{segments: map[string]*segment{}, coalescing: c}
}

func (q *latestQueue) load() load { return q.waiting }

// fits reports whether an event may be pushed.
func (q *latestQueue) fits(t stream.Type, namespace string) bool {
	switch t {
	case stream.Gap:
		return q.segment(namespace).gaps < maxGaps
	case stream.Synced:
		return q.synced < maxSynced
	}
	return true
}

func (q *latestQueue) push(it item) {
	n := &node{item: it}
	if it.end {
		q.append(n)
		return
	}
	switch s := q.segment(it.event.Namespace); it.event.Type {
	case stream.Synced:
		q.append(n)
		q.synced++
		q.coalescing.again = false
		for _, s := range q.segments {
			s.startNext()
		}
	case stream.Gap:
		q.append(n)
		s.startNext()
		s.gaps++
	case stream.Bookmark:
		if s.bookmark != nil {
			acks.Skip(s.bookmark.mark())
			q.remove(s.bookmark)
		}
		s.bookmark = n
		q.append(n)
	default:
		if it.event.HasObject() {
			m := it.event.Meta()
			n.id = objects.ID{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID()}
			q.coalesce(s, n)
		} else {
			q.append(n) // no Stream does that
		}
	}
}

func (q *latestQueue) segment(namespace string) *segment {
	s := q.segments[namespace]
	if s == nil {
		s = &segment{objects: map[objects.ID]*node{}}
		q.segments[namespace] = s
	}
	return s
}

// startNext starts a segment after a GAP or SYNCED: earlier events are no longer coalesced.
func (s *segment) startNext() { s.objects, s.most = map[objects.ID]*node{}, 0 }

// coalesce merges n with the event of its object in the line, if there is one.
//
//   - An event after DELETED is appended.
//   - ADDED then DELETED leave the line, unless the receiver may know the object, from before a restart or a retry.
//   - Otherwise the event in the line gets the state of n and keeps its type, or becomes DELETED.
func (q *latestQueue) coalesce(s *segment, n *node) {
	was := s.objects[n.id]
	cancels := was != nil && was.event.Type == stream.Added && n.event.Type == stream.Deleted &&
		!q.coalescing.again && !acks.MayBeKnown(was.mark())
	switch {
	case was == nil, was.event.Type == stream.Deleted,
		cancels && !acks.Cancel(was.mark(), n.mark()), // the Mark belongs to an earlier run of the source
		!cancels && !acks.Coalesce(was.mark(), n.mark()):
		s.objects[n.id] = n
		s.most = max(s.most, len(s.objects))
		q.append(n)
		return
	case cancels:
		q.remove(was)
		delete(s.objects, n.id)
		q.coalescing.vanished += uint64(was.event.Envelope(friend.Access{}).Coalesced) + 2
		return
	}
	envelope, kind := *was.event.Envelope(friend.Access{}), was.event.Type
	envelope.Coalesced++
	q.waiting.bytes += n.size - was.size
	was.item = n.item
	*was.event.Envelope(friend.Access{}) = envelope
	if n.event.Type != stream.Deleted {
		was.event.Type = kind
	}
	q.coalescing.coalesced++
}

// append adds n to the end of the line.
func (q *latestQueue) append(n *node) {
	n.at = q.line.PushBack(n)
	q.waiting.add(&n.item, 1)
}

// remove removes n from the line.
func (q *latestQueue) remove(n *node) {
	q.line.Remove(n.at)
	q.waiting.add(&n.item, -1)
}

func (q *latestQueue) pop(to *item) {
	n := q.line.Front().Value.(*node)
	q.remove(n)
	*to = n.item
	if n.end {
		return
	}
	s := q.segment(n.event.Namespace)
	switch {
	case n.event.Type == stream.Synced:
		q.synced--
	case n.event.Type == stream.Gap:
		s.gaps--
	case n == s.bookmark:
		s.bookmark = nil
	case s.objects[n.id] == n:
		delete(s.objects, n.id)
		if len(s.objects) == 0 && s.most > maxEmptyMap {
			s.startNext()
		}
	}
}
