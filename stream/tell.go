package stream

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tell does what an output of the protocol says.
func (l *lane) tell(ctx context.Context, o output) error {
	switch o := o.(type) {
	case tellGap:
		l.snapped = true
		return l.emit(ctx, l.event(Gap, &GapDetails{
			Reason: o.reason, From: o.from, To: o.to, HistoryLost: o.lost, Duration: time.Since(l.workedAt),
		}))
	case beginList:
		// From here to the end of the snapshot, what is known fits no version.
		l.report.resourceVersion("")
		if l.index != nil {
			l.index.beginList()
		}
	case tellPage:
		items := l.items
		l.items = nil
		for i, item := range items {
			items[i] = object{} // what has been told need not be kept
			if err := l.tellListed(ctx, item, o.snapshot); err != nil {
				return err
			}
		}
	case tellInitial:
		return l.tellListed(ctx, l.conn.take().object, o.snapshot)
	case endList:
		l.snapped = true
		switch {
		case l.index == nil:
		case o.quiet:
			for range l.index.endList() {
			}
		default:
			return l.tellChanges(ctx, l.index.endList(), nil, true)
		}
	case tellSynced:
		l.options.Logger.DebugContext(ctx, "synced", "resource", l.resource.String(), "namespace", l.namespace, "resourceVersion", o.rv)
		ev := l.event(Synced, nil)
		ev.ResourceVersion = o.rv
		return l.emit(ctx, ev)
	case tellFrame:
		return l.tellFrame(ctx, l.conn.take(), o)
	case tellBookmark:
		if l.options.Bookmarks {
			ev := l.event(Bookmark, nil)
			ev.ResourceVersion = o.rv
			return l.emit(ctx, ev)
		}
	case noInitial:
		l.forgetStreamedLists()
		l.options.Logger.DebugContext(ctx, "no streaming lists here: reading pages from now on",
			"resource", l.resource.String(), "namespace", l.namespace, "cause", o.cause)
	}
	return nil
}

// tellListed tells an object of a snapshot.
func (l *lane) tellListed(ctx context.Context, o object, how snapshot) error {
	if l.index == nil {
		if how.quiet {
			return nil
		}
		return l.tellObject(ctx, Added, o.Unstructured, false)
	}
	unsaid := how.quiet || how.since != "" && notAfter(o.version, how.since) && !l.index.has(o.name())
	changes := l.index.put(o, l.selects(o))
	if l.index.saw(o.name()) {
		changes = l.index.putOld(o, l.selects(o)) // the server repeats itself
	}
	if unsaid {
		for range changes { // they are only to be known
		}
		return nil
	}
	return l.tellChanges(ctx, changes, o.Unstructured, true)
}

// tellFrame tells an event of the watch.
func (l *lane) tellFrame(ctx context.Context, t told, how tellFrame) error {
	o := t.object
	l.moves = how.rv
	defer func() { l.moves = "" }()
	switch {
	case l.index == nil && how.old:
		return nil
	case l.index == nil:
		return l.tellObject(ctx, t.kind, o.Unstructured, false)
	case how.partial && !how.old && !l.index.has(o.name()):
		// Nothing is known of it, so the server is believed.
		selected := l.selects(o)
		if t.kind != Deleted {
			for range l.index.put(o, selected) {
			}
		}
		if !selected {
			return nil
		}
		return l.tellObject(ctx, t.kind, o.Unstructured, false)
	case t.kind == Deleted && how.old:
		return l.tellChanges(ctx, l.index.removeOld(o), o.Unstructured, false)
	case t.kind == Deleted:
		return l.tellChanges(ctx, l.index.remove(o), o.Unstructured, false)
	case how.old:
		return l.tellChanges(ctx, l.index.putOld(o, l.selects(o)), o.Unstructured, false)
	}
	return l.tellChanges(ctx, l.index.put(o, l.selects(o)), o.Unstructured, false)
}

func (l *lane) selects(o object) bool {
	return l.options.Select == nil || l.options.Select(o)
}

// tellChanges emits changes; o is the object of those that have no identity.
func (l *lane) tellChanges(ctx context.Context, changes iter.Seq[change], o *unstructured.Unstructured, listed bool) error {
	// What the index knows has been told or is being told when the loop body runs,
	// whichever lane it is about: Position depends on it.
	if l.turn != nil {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for c := range changes {
		object, inferred := o, false
		switch {
		case c.gone != nil:
			object, inferred = c.gone.unstructured(l.resource), true
		case c.left != nil && listed:
			// When it left is not known, nor in which version: as if it were gone.
			object, inferred = c.left.unstructured(l.resource), true
		case listed:
			// What a first snapshot has is no inference, but that something has changed
			// since another one is.
			inferred = l.snapped || c.kind != Added
		}
		if err := l.tellObject(ctx, c.kind, object, inferred); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) tellObject(ctx context.Context, kind Type, o *unstructured.Unstructured, inferred bool) error {
	if l.moves != "" && !inferred { // an inferred end of another one comes before the event itself
		l.report.resourceVersion(l.moves)
	}
	ev := l.event(kind, nil)
	ev.Object, ev.ResourceVersion, ev.Inferred = o, o.GetResourceVersion(), inferred
	return l.emit(ctx, ev)
}

func (l *lane) event(kind Type, gap *GapDetails) Event {
	return Event{Type: kind, Resource: l.resource, Namespace: l.namespace, Gap: gap}
}
