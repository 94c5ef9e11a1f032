package stream

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// inTurn runs f while no other worker is in its turn. Stream.Position relies on two rules:
//
//   - While the loop body runs, the indexes of all workers have only objects that were delivered or are being
//     delivered.
//   - Once f has begun, all that it enters into the index is delivered, even if ctx ends meanwhile.
func (w *worker) inTurn(ctx context.Context, f func() error) error {
	if w.turn != nil {
		return w.turn(ctx, f)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f()
}

// deliverOutput carries out an output in one turn, or if it is about several objects, in one turn for each.
func (w *worker) deliverOutput(ctx context.Context, out protocol.Output) error {
	switch o := out.(type) {
	case protocol.EmitPage:
		return w.deliverItems(ctx, o.Mode)
	case protocol.EmitInitial:
		w.items, w.mode = append(w.items, w.conn.takeLast()), o.Mode
		if w.writesAhead() {
			w.itemBytes += w.items[len(w.items)-1].size()
			if len(w.items) < w.options.Requests.PageSize && w.itemBytes < client.BufferBytes {
				return nil // the objects of a page are written ahead together
			}
		}
		return w.deliverItems(ctx, o.Mode)
	case protocol.EmitSynced:
		if err := w.writeSynced(ctx, o.Version); err != nil { // not in a turn, as others need not wait
			return err
		}
	case protocol.EndSnapshot:
		if err := w.deliverItems(ctx, w.mode); err != nil { // the last initial events
			return err
		}
	}
	return w.inTurn(ctx, func() error { return w.handleOutput(ctx, out) })
}

// deliverItems delivers the objects of a snapshot that were read and not delivered yet.
func (w *worker) deliverItems(ctx context.Context, mode protocol.Mode) error {
	items := w.items
	w.items, w.itemBytes = nil, 0
	if err := w.writeAhead(ctx, items, mode); err != nil {
		return err
	}
	for i, item := range items {
		items[i] = object{} // so that its memory can be freed
		err := w.inTurn(ctx, func() error { return w.deliverListed(ctx, item, mode) })
		if err != nil {
			return err
		}
	}
	return nil
}

// handleOutput carries out an output of the protocol.
func (w *worker) handleOutput(ctx context.Context, o protocol.Output) error {
	switch o := o.(type) {
	case protocol.EmitGap:
		if o.Reason == protocol.GapRewound {
			w.index.Distrust()
		}
		w.infers = true
		return w.delivery.emit(w.newEvent(Gap, &GapDetails{
			Reason: GapReason(o.Reason), From: o.From, To: o.To, HistoryLost: o.HistoryLost,
			Duration: time.Since(w.upToDateAt),
		}))
	case protocol.BeginSnapshot:
		// Until the snapshot ends, the index does not match any version.
		w.report.resourceVersion("")
		w.lastName = types.NamespacedName{}
		w.pass()
		w.index.BeginList()
	case protocol.RetainInitial:
		w.items = append(w.items, w.conn.takeLast())
	case protocol.EndSnapshot:
		if o.Quiet {
			return w.index.EndList(nil)
		}
		return w.index.EndList(func(c index.Change) error { return w.deliverChange(ctx, c, object{}, true) })
	case protocol.EmitSynced:
		w.options.Logger.DebugContext(ctx, "synced",
			"resource", w.resource.String(), "namespace", w.namespace, "resourceVersion", o.Version)
		w.upToDateAt = time.Now()
		w.report.update(func(r *report) { r.status.Synced, r.rewound = true, false })
		return w.emitVersion(ctx, Synced, o.Version)
	case protocol.EmitBookmark:
		if w.hosted.Bookmarks || w.run.Bookmarks && !o.Again {
			return w.emitVersion(ctx, Bookmark, o.Version)
		}
	case protocol.NoInitialEvents:
		w.noInitialEvents.Store(true)
		w.options.Logger.DebugContext(ctx, "the server has no streaming lists: reading pages from now on",
			"resource", w.resource.String(), "namespace", w.namespace, "cause", o.Cause)
	}
	return nil
}

// deliverListed delivers an object of a snapshot, if it is new or changed.
func (w *worker) deliverListed(ctx context.Context, o object, mode protocol.Mode) error {
	defer w.pass()
	from := index.Listed
	if w.index.Saw(o.NamespacedName()) {
		from = index.Replayed // the server sent the object twice
	}
	if w.isOnlyEntered(o, mode) {
		return w.index.Put(o.Version, w.selects(o), from, nil)
	}
	return w.index.Put(o.Version, w.selects(o), from, func(c index.Change) error {
		return w.deliverChange(ctx, c, o, true)
	})
}

// isOnlyEntered reports whether an object of a snapshot is entered into the index without being delivered.
func (w *worker) isOnlyEntered(o object, mode protocol.Mode) bool {
	return mode.Quiet || mode.Since != "" && protocol.NotAfter(o.ResourceVersion, mode.Since)
}

// deliverEvent delivers the last event of the watch, through change if the index has made something of it, and forgets
// it.
func (w *worker) deliverEvent(ctx context.Context, out protocol.EmitEvent, change index.Deliver) error {
	last := &w.conn.last
	w.movesTo = out.Version
	defer func() { w.movesTo, *last = "", objectEvent{} }() // so that the object's memory can be freed
	if out.Partial && !out.Replay && !w.index.Has(last.ID) {
		return w.deliverUnknown(ctx, *last)
	}
	from := index.Happened
	if out.Replay {
		from = index.Replayed
	}
	if last.kind == Deleted {
		return w.index.Remove(last.Version, from, change)
	}
	return w.index.Put(last.Version, w.selects(last.object), from, change)
}

// deliverUnknown delivers the event of an object that is not in the index, but may have existed before the start. With
// a Select the object may not have been selected before, so it is ADDED.
func (w *worker) deliverUnknown(ctx context.Context, ev objectEvent) error {
	if !w.selects(ev.object) {
		return nil
	}
	kind := ev.kind
	if kind != Deleted {
		if err := w.index.Put(ev.Version, true, index.Happened, nil); err != nil {
			return err
		}
		if w.options.Select != nil {
			kind = Added
		}
	}
	return w.deliverChange(ctx, index.Change{Kind: watch.EventType(kind)}, ev.object, false)
}

func (w *worker) selects(o object) bool {
	if o.verdict != client.Unasked {
		return o.verdict == client.Selected
	}
	return (w.matches == nil || w.matches(o.decoded)) && (w.options.Select == nil || w.options.Select(o.meta()))
}

// deliverChange emits a change. One that is not inferred has the object o.
func (w *worker) deliverChange(ctx context.Context, c index.Change, o object, listed bool) error {
	isInferred := false
	switch {
	case c.Gone != nil:
		o, isInferred = w.inferred(c.Gone), true
	case c.Left != nil && listed:
		// It is unknown when, and at which version, the object stopped matching: it is handled as if it were gone.
		o, isInferred = w.inferred(c.Left), true
	case listed:
		// An object of the first snapshot is not inferred, but a change since an earlier snapshot is.
		isInferred = w.infers || c.Kind != watch.Added
	}
	if c.Pending && w.progress != nil {
		w.progress.MayBeKnown()
	}
	if err := w.emitObject(ctx, Type(c.Kind), o, isInferred); err != nil {
		return err
	}
	return context.Cause(ctx) // nil, or the index must make no further change
}

func (w *worker) emitObject(ctx context.Context, kind Type, o object, isInferred bool) error {
	if w.movesTo != "" && !isInferred { // an inferred DELETED comes before the event of this version
		w.report.resourceVersion(w.movesTo)
	}
	if kind == Added && w.progress != nil && w.report.unclean { // only this goroutine changes it
		w.progress.MayBeKnown()
	}
	ev := w.newEvent(kind, nil)
	ev.Object, ev.JSON, ev.ResourceVersion, ev.Inferred = o.decoded, o.json, o.resourceVersion(), isInferred
	if w.hosted.Memory != nil {
		*w.hosted.Memory = o.memory
	}
	return w.delivery.emit(ev)
}

// emitVersion emits SYNCED or BOOKMARK: everything up to rv has been delivered.
func (w *worker) emitVersion(ctx context.Context, kind Type, rv string) error {
	w.report.resourceVersion(rv)
	ev := w.newEvent(kind, nil)
	ev.ResourceVersion = rv
	return w.delivery.emit(ev)
}

// newEvent returns the next event to emit.
func (w *worker) newEvent(kind Type, gap *GapDetails) Event {
	return Event{Type: kind, Resource: w.resource, Namespace: w.namespace, Gap: gap,
		envelope: host.Envelope{Mark: w.nextMark()}}
}
