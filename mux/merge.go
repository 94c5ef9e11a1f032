package mux

import "github.com/gvrwatch/gvrwatch/stream"

// settle merges n, which is in the list, with the one of the same object that
// waits in the same segment, if there is one. What they become stands where n
// does, so that versions stay in order.
func (q *latestQueue) settle(l *lane, n *node) {
	was := l.objects[n.id]
	if was == nil || was.stamp <= q.due || n.isAnother(was) {
		l.objects[n.id] = n
		l.most = max(l.most, len(l.objects))
		return
	}
	if b := l.bookmark; b != nil && was.stamp < b.stamp && b.stamp < n.stamp {
		q.void(b) // not everything up to its version has been told before it any more
		l.bookmark = nil
	}
	stood := uint64(was.event.Coalesced) + 1
	q.remove(was)
	if was.event.Type == stream.Added && !was.known && n.event.Type == stream.Deleted {
		n.event.Mark.Undo(was.event.Mark)
		q.remove(n)
		delete(l.objects, n.id)
		*q.vanished += stood + uint64(n.event.Coalesced) + 1
		return
	}
	n.known = was.known || was.event.Type != stream.Added
	n.unsure = was.unsure
	n.event.Type = merged(was.event.Type, n.event.Type, was.unsure)
	n.event.Coalesced += int(stood)
	if was.event.Type == stream.Modified {
		n.event.Mark.Cover(was.event.Mark)
	} else {
		n.event.Mark.CoverNew(was.event.Mark)
	}
	*q.coalesced++
	l.objects[n.id] = n
}

// isAnother says whether it is not known that n is of the same object as was, which
// has ended: where there are no uids, as with client-go's fakes.
func (n *node) isAnother(was *node) bool {
	return n.id.uid == "" && was.event.Type == stream.Deleted && n.event.Type != stream.Deleted
}

// merged is what two events in a row are to who was told neither. Who may know the
// object, or not, is told of it as if not.
func merged(was, is stream.Type, unsure bool) stream.Type {
	switch {
	case was == stream.Added && is == stream.Modified:
		return stream.Added
	case was == stream.Deleted && is == stream.Added && !unsure:
		return stream.Modified // who knew it knows it still
	}
	return is
}
