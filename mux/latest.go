package mux

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// latestQueue keeps of each object what is needed to say how it is now. It is a list
// in the order of delivery: the newest event of an object takes the place of the
// oldest one that it stands for. Events on two sides of a GAP or SYNCED are not
// coalesced.
type latestQueue struct {
	line     list.List // of *node
	waiting  load
	synced   int                 // that wait
	segments map[string]*segment // by Event.Namespace, each of which has GAPs of its own

	coalesced, vanished *uint64
}

// segment is what waits of one Event.Namespace since its last GAP or SYNCED.
type segment struct {
	objects  map[objectID]*node // the last event of each
	most     int                // of them, since the map was made
	gaps     int                // that wait, with those of earlier segments
	bookmark *node              // that waits; nil for none
}

type objectID struct {
	types.NamespacedName
	uid types.UID
}

type node struct {
	item
	id objectID
	at *list.Element
}

// maxGaps of a namespace and maxSynced may wait. A source waits with one more, so that
// however many there are, they take no more memory than a few times what exists.
const maxGaps, maxSynced = 1, 2

// mostKept is how many objects a map that is empty may have had.
const mostKept = 1000

func newLatestQueue(coalesced, vanished *uint64) *latestQueue {
	return &latestQueue{segments: map[string]*segment{}, coalesced: coalesced, vanished: vanished}
}

func (q *latestQueue) load() load { return q.waiting }

// fits says whether ev may be pushed.
func (q *latestQueue) fits(ev *stream.Event) bool {
	switch ev.Type {
	case stream.Gap:
		return q.segment(ev.Namespace).gaps < maxGaps
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
		for _, s := range q.segments {
			s.part()
		}
	case stream.Gap:
		q.append(n)
		s.part()
		s.gaps++
	case stream.Bookmark:
		if s.bookmark != nil {
			s.bookmark.event.Mark.Skip()
			q.remove(s.bookmark)
		}
		s.bookmark = n
		q.append(n)
	default:
		if o := it.event.Object; o != nil {
			n.id = objectID{types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID()}
			q.coalesce(s, n)
		} else {
			q.append(n) // no Stream delivers that
		}
	}
}

func (q *latestQueue) segment(namespace string) *segment {
	s := q.segments[namespace]
	if s == nil {
		s = &segment{objects: map[objectID]*node{}}
		q.segments[namespace] = s
	}
	return s
}

// part ends a segment.
func (s *segment) part() { s.objects, s.most = map[objectID]*node{}, 0 }

// coalesce makes n part of the event of its object that waits, if there is one.
//
//   - After DELETED an object begins again, with an event of its own.
//   - ADDED and DELETED leave the line, unless the receiver may know the object.
//   - Everything else becomes what it began with, as it is now, or DELETED.
func (q *latestQueue) coalesce(s *segment, n *node) {
	was := s.objects[n.id]
	cancels := was != nil && was.event.Type == stream.Added && n.event.Type == stream.Deleted && !was.event.Mark.MayBeKnown()
	switch {
	case was == nil, was.event.Type == stream.Deleted,
		cancels && !was.event.Mark.Cancel(n.event.Mark), // a mark of an earlier range of the source takes nothing over
		!cancels && !was.event.Mark.Coalesce(n.event.Mark):
		s.objects[n.id] = n
		s.most = max(s.most, len(s.objects))
		q.append(n)
		return
	case cancels:
		q.remove(was)
		delete(s.objects, n.id)
		*q.vanished += uint64(was.event.Coalesced) + 2
		return
	}
	mark, kind, count := was.event.Mark, was.event.Type, was.event.Coalesced+1
	q.waiting.bytes += n.size - was.size
	was.item = n.item
	was.event.Mark, was.event.Coalesced = mark, count
	if n.event.Type != stream.Deleted {
		was.event.Type = kind
	}
	*q.coalesced++
}

// append puts n at the end of the line.
func (q *latestQueue) append(n *node) {
	n.at = q.line.PushBack(n)
	q.waiting.add(&n.item, 1)
}

// remove takes n out of the line.
func (q *latestQueue) remove(n *node) {
	q.line.Remove(n.at)
	q.waiting.add(&n.item, -1)
}

func (q *latestQueue) pop() item {
	n := q.line.Front().Value.(*node)
	q.remove(n)
	if n.end {
		return n.item
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
		if len(s.objects) == 0 && s.most > mostKept {
			s.part() // a map never gets smaller
		}
	}
	return n.item
}
