package stream

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// inTurn does f while no other lane does: what is known when the loop body runs
// has been told or is being told, whichever lane it is of. Once f has begun, what
// it enters into the index is told, even if ctx ends meanwhile. Position depends
// on both.
func (l *lane) inTurn(ctx context.Context, f func() error) error {
	if l.turn != nil {
		return l.turn(ctx, f)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f()
}

// tellInTurn tells an output in a turn of its own, and those that are of several
// objects object by object.
func (l *lane) tellInTurn(ctx context.Context, out output) error {
	switch o := out.(type) {
	case tellPage:
		return l.tellItems(ctx, o.snapshot)
	case tellInitial:
		l.items, l.how = append(l.items, l.conn.take().object), o.snapshot
		if l.writesAhead() && len(l.items) < l.options.PageSize {
			return nil // they are written ahead together
		}
		return l.tellItems(ctx, o.snapshot)
	case tellFrame:
		if err := l.aheadOfFrame(ctx, l.conn.told, o); err != nil { // while others have their turns
			return err
		}
	case endList:
		if err := l.tellItems(ctx, l.how); err != nil { // initial events that still wait
			return err
		}
	}
	return l.inTurn(ctx, func() error { return l.tell(ctx, out) })
}

// tellItems tells the objects of a snapshot that are there.
func (l *lane) tellItems(ctx context.Context, how snapshot) error {
	items := l.items
	l.items = nil
	if err := l.aheadOf(ctx, items, how); err != nil {
		return err
	}
	for i, item := range items {
		items[i] = object{} // what has been told need not be kept
		err := l.inTurn(ctx, func() error { return l.tellListed(ctx, item, how) })
		if err != nil {
			return err
		}
	}
	return nil
}

// tell does what an output of the protocol says.
func (l *lane) tell(ctx context.Context, o output) error {
	switch o := o.(type) {
	case tellGap:
		if o.reason == GapRewound && l.index != nil {
			l.index.distrust()
		}
		l.snapped = true
		return l.emit(l.event(Gap, &GapDetails{
			Reason: o.reason, From: o.from, To: o.to, HistoryLost: o.lost, Duration: time.Since(l.knewAt),
		}))
	case beginList:
		// From here to the end of the snapshot, what is known fits no version.
		l.report.resourceVersion("")
		l.furthest = types.NamespacedName{}
		l.pass()
		if l.index != nil {
			l.index.beginList()
		}
	case keepInitial:
		l.items = append(l.items, l.conn.take().object)
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
		l.knewAt = time.Now()
		l.report.update(func(r *report) { r.status.Synced, r.rewound = true, false })
		return l.tellVersion(ctx, Synced, o.rv)
	case tellFrame:
		return l.tellFrame(ctx, l.conn.take(), o)
	case tellBookmark:
		if l.options.Bookmarks {
			return l.tellVersion(ctx, Bookmark, o.rv)
		}
	case noInitial:
		l.noStreamedLists.Store(true)
		l.options.Logger.DebugContext(ctx, "no streaming lists here: reading pages from now on",
			"resource", l.resource.String(), "namespace", l.namespace, "cause", o.cause)
	}
	return nil
}

// tellListed tells an object of a snapshot.
func (l *lane) tellListed(ctx context.Context, o object, how snapshot) error {
	defer l.pass()
	if l.index == nil {
		if how.quiet || !l.selects(o) {
			return nil
		}
		return l.tellObject(ctx, Added, o.Unstructured, false)
	}
	unsaid, from := l.isUnsaid(o, how), listed
	if l.index.saw(o.NamespacedName) {
		from = replayed // the server repeats itself
	}
	changes := l.index.put(o, l.selects(o), from)
	if unsaid {
		for range changes { // they are only to be known
		}
		return nil
	}
	return l.tellChanges(ctx, changes, o.Unstructured, true)
}

// isUnsaid says whether an object of a snapshot is only to be known.
func (l *lane) isUnsaid(o object, how snapshot) bool {
	return how.quiet || how.since != "" && notAfter(o.version, how.since) && !l.index.has(o.identity)
}

// tellFrame tells an event of the watch.
func (l *lane) tellFrame(ctx context.Context, t told, how tellFrame) error {
	o := t.object
	l.moves = how.rv
	defer func() { l.moves = "" }()
	switch {
	case l.index == nil && (how.old || !l.selects(o)):
		return nil
	case l.index == nil:
		return l.tellObject(ctx, t.kind, o.Unstructured, false)
	case how.partial && !how.old && !l.index.has(o.identity):
		return l.tellChanges(ctx, l.believe(t), o.Unstructured, false)
	}
	from := happened
	if how.old {
		from = replayed
	}
	if t.kind == Deleted { // two calls, each with one iterator, take three allocations less
		return l.tellChanges(ctx, l.index.remove(o, from), o.Unstructured, false)
	}
	return l.tellChanges(ctx, l.index.put(o, l.selects(o), from), o.Unstructured, false)
}

// believe is what an event means of an object that nothing is known of. Whether one
// that is selected was selected before is not known either: then it is ADDED.
func (l *lane) believe(t told) iter.Seq[change] {
	return func(yield func(change) bool) {
		if !l.selects(t.object) {
			return
		}
		kind := t.kind
		if kind != Deleted {
			for range l.index.put(t.object, true, happened) {
			}
			if l.options.Select != nil {
				kind = Added
			}
		}
		yield(change{kind: kind})
	}
}

func (l *lane) selects(o object) bool {
	if o.verdict != unasked {
		return o.verdict == passes
	}
	return (l.matches == nil || l.matches(o.Unstructured)) && (l.options.Select == nil || l.options.Select(o))
}

// tellChanges emits changes; o is the object of those that have no identity.
func (l *lane) tellChanges(ctx context.Context, changes iter.Seq[change], o *unstructured.Unstructured, listed bool) error {
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
		if c.maybe && l.progress != nil {
			l.progress.MayBeKnown()
		}
		if err := l.tellObject(ctx, c.kind, object, inferred); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // before the next one is entered
		}
	}
	return nil
}

func (l *lane) tellObject(ctx context.Context, kind Type, o *unstructured.Unstructured, inferred bool) error {
	if l.moves != "" && !inferred { // an inferred end of another one comes before the event itself
		l.report.resourceVersion(l.moves)
	}
	if kind == Added && l.progress != nil && l.report.lacks() {
		l.progress.MayBeKnown()
	}
	ev := l.event(kind, nil)
	ev.Object, ev.ResourceVersion, ev.Inferred = o, o.GetResourceVersion(), inferred
	return l.emit(ev)
}

// tellVersion tells that everything up to rv has been told.
func (l *lane) tellVersion(ctx context.Context, kind Type, rv string) error {
	l.report.resourceVersion(rv)
	ev := l.event(kind, nil)
	ev.ResourceVersion = rv
	return l.emit(ev)
}

// event returns one that is to be emitted next.
func (l *lane) event(kind Type, gap *GapDetails) Event {
	return Event{Type: kind, Resource: l.resource, Namespace: l.namespace, Gap: gap, Mark: l.mark()}
}
