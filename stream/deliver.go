package stream

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
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
func (l *lane) tellInTurn(ctx context.Context, out protocol.Output) error {
	switch o := out.(type) {
	case protocol.EmitPage:
		return l.tellItems(ctx, o.Mode)
	case protocol.EmitInitial:
		l.items, l.how = append(l.items, l.conn.take().object), o.Mode
		if l.writesAhead() && len(l.items) < l.options.PageSize {
			return nil // they are written ahead together
		}
		return l.tellItems(ctx, o.Mode)
	case protocol.EmitEvent:
		if err := l.aheadOfFrame(ctx, l.conn.told, o); err != nil { // while others have their turns
			return err
		}
	case protocol.EndSnapshot:
		if err := l.tellItems(ctx, l.how); err != nil { // initial events that still wait
			return err
		}
	}
	return l.inTurn(ctx, func() error { return l.tell(ctx, out) })
}

// tellItems tells the objects of a snapshot that are there.
func (l *lane) tellItems(ctx context.Context, how protocol.Mode) error {
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
func (l *lane) tell(ctx context.Context, o protocol.Output) error {
	switch o := o.(type) {
	case protocol.EmitGap:
		if o.Reason == protocol.GapRewound && l.index != nil {
			l.index.Distrust()
		}
		l.snapped = true
		return l.delivery.emit(l.event(Gap, &GapDetails{
			Reason: GapReason(o.Reason), From: o.From, To: o.To, HistoryLost: o.HistoryLost, Duration: time.Since(l.knewAt),
		}))
	case protocol.BeginSnapshot:
		// From here to the end of the snapshot, what is known fits no version.
		l.report.resourceVersion("")
		l.furthest = types.NamespacedName{}
		l.pass()
		if l.index != nil {
			l.index.BeginList()
		}
	case protocol.RetainInitial:
		l.items = append(l.items, l.conn.take().object)
	case protocol.EndSnapshot:
		l.snapped = true
		switch {
		case l.index == nil:
		case o.Quiet:
			for range l.index.EndList() {
			}
		default:
			return l.tellChanges(ctx, l.index.EndList(), nil, true)
		}
	case protocol.EmitSynced:
		l.options.Logger.DebugContext(ctx, "synced", "resource", l.resource.String(), "namespace", l.namespace, "resourceVersion", o.Version)
		l.knewAt = time.Now()
		l.report.update(func(r *report) { r.status.Synced, r.rewound = true, false })
		return l.tellVersion(ctx, Synced, o.Version)
	case protocol.EmitEvent:
		return l.tellFrame(ctx, l.conn.take(), o)
	case protocol.EmitBookmark:
		if l.options.Bookmarks {
			return l.tellVersion(ctx, Bookmark, o.Version)
		}
	case protocol.NoStreamedLists:
		l.noStreamedLists.Store(true)
		l.options.Logger.DebugContext(ctx, "no streaming lists here: reading pages from now on",
			"resource", l.resource.String(), "namespace", l.namespace, "cause", o.Cause)
	}
	return nil
}

// tellListed tells an object of a snapshot.
func (l *lane) tellListed(ctx context.Context, o object, how protocol.Mode) error {
	defer l.pass()
	if l.index == nil {
		if how.Quiet || !l.selects(o) {
			return nil
		}
		return l.tellObject(ctx, Added, o.Unstructured, false)
	}
	unsaid, from := l.isUnsaid(o, how), index.Listed
	if l.index.Saw(o.NamespacedName) {
		from = index.Replayed // the server repeats itself
	}
	changes := l.index.Put(o.Entry, l.selects(o), from)
	if unsaid {
		for range changes { // they are only to be known
		}
		return nil
	}
	return l.tellChanges(ctx, changes, o.Unstructured, true)
}

// isUnsaid says whether an object of a snapshot is only to be known.
func (l *lane) isUnsaid(o object, how protocol.Mode) bool {
	return how.Quiet || how.Since != "" && protocol.NotAfter(o.Version, how.Since) && !l.index.Has(o.Entry)
}

// tellFrame tells an event of the watch.
func (l *lane) tellFrame(ctx context.Context, t told, how protocol.EmitEvent) error {
	o := t.object
	l.moves = how.Version
	defer func() { l.moves = "" }()
	switch {
	case l.index == nil && (how.Replay || !l.selects(o)):
		return nil
	case l.index == nil:
		return l.tellObject(ctx, t.kind, o.Unstructured, false)
	case how.Partial && !how.Replay && !l.index.Has(o.Entry):
		return l.tellChanges(ctx, l.believe(t), o.Unstructured, false)
	}
	from := index.Happened
	if how.Replay {
		from = index.Replayed
	}
	if t.kind == Deleted { // two calls, each with one iterator, take three allocations less
		return l.tellChanges(ctx, l.index.Remove(o.Entry, from), o.Unstructured, false)
	}
	return l.tellChanges(ctx, l.index.Put(o.Entry, l.selects(o), from), o.Unstructured, false)
}

// believe is what an event means of an object that nothing is known of. Whether one
// that is selected was selected before is not known either: then it is ADDED.
func (l *lane) believe(t told) iter.Seq[index.Change] {
	return func(yield func(index.Change) bool) {
		if !l.selects(t.object) {
			return
		}
		kind := t.kind
		if kind != Deleted {
			for range l.index.Put(t.Entry, true, index.Happened) {
			}
			if l.options.Select != nil {
				kind = Added
			}
		}
		yield(index.Change{Kind: watch.EventType(kind)})
	}
}

func (l *lane) selects(o object) bool {
	if o.verdict != client.Unasked {
		return o.verdict == client.Selected
	}
	return (l.matches == nil || l.matches(o.Unstructured)) && (l.options.Select == nil || l.options.Select(o))
}

// tellChanges emits changes; o is the object of those that have no identity.
func (l *lane) tellChanges(ctx context.Context, changes iter.Seq[index.Change], o *unstructured.Unstructured, listed bool) error {
	for c := range changes {
		object, isInferred := o, false
		switch {
		case c.Gone != nil:
			object, isInferred = inferred(c.Gone, l.resource), true
		case c.Left != nil && listed:
			// When it left is not known, nor in which version: as if it were gone.
			object, isInferred = inferred(c.Left, l.resource), true
		case listed:
			// What a first snapshot has is no inference, but that something has changed
			// since another one is.
			isInferred = l.snapped || c.Kind != watch.Added
		}
		if c.Pending && l.progress != nil {
			l.progress.MayBeKnown()
		}
		if err := l.tellObject(ctx, Type(c.Kind), object, isInferred); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // before the next one is entered
		}
	}
	return nil
}

func (l *lane) tellObject(ctx context.Context, kind Type, o *unstructured.Unstructured, isInferred bool) error {
	if l.moves != "" && !isInferred { // an inferred end of another one comes before the event itself
		l.report.resourceVersion(l.moves)
	}
	if kind == Added && l.progress != nil && l.report.lacks() {
		l.progress.MayBeKnown()
	}
	ev := l.event(kind, nil)
	ev.Object, ev.ResourceVersion, ev.Inferred = o, o.GetResourceVersion(), isInferred
	return l.delivery.emit(ev)
}

// tellVersion tells that everything up to rv has been told.
func (l *lane) tellVersion(ctx context.Context, kind Type, rv string) error {
	l.report.resourceVersion(rv)
	ev := l.event(kind, nil)
	ev.ResourceVersion = rv
	return l.delivery.emit(ev)
}

// event returns one that is to be emitted next.
func (l *lane) event(kind Type, gap *GapDetails) Event {
	return Event{Type: kind, Resource: l.resource, Namespace: l.namespace, Gap: gap, Mark: l.mark()}
}
