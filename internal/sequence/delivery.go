package sequence

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// delivery carries out what the protocol decides about the objects in the inbox.
type delivery struct {
	target *Target
	door   Door
	log    logger
	inbox  *inbox
	index  *index.Index
	report *report
	// progress is nil without a checkpoint.
	progress *acks.Progress
	// bookmarks emits BOOKMARK, and everyBookmark also those that do not advance the version.
	bookmarks, everyBookmark bool

	current    Event     // the one that is emitted
	movesTo    string    // the version of the sequence after the current event
	upToDateAt time.Time // when the sequence was last known to be up to date
	// infers: a Gap has been delivered in this run, or it resumes with a snapshot (Origin.Infers), so that what any
	// snapshot adds is inferred.
	infers   bool
	lastName types.NamespacedName // the greatest name on the pages of this snapshot so far
	compared int                  // objects on the pages of a whole list so far
	differs  bool                 // one of them was not delivered
}

// upToDate says that the sequence is up to date.
func (d *delivery) upToDate() { d.upToDateAt = time.Now() }

// inTurn runs f while no other Worker is in its turn. Stream.Position relies on two rules:
//
//   - While the loop body runs, the indexes of all Workers have only objects that were delivered or are being
//     delivered.
//   - Once f has begun, all that it enters into the index is delivered, even if ctx ends meanwhile.
func (d *delivery) inTurn(ctx context.Context, f func() error) error {
	if d.door.Turn != nil {
		return d.door.Turn(ctx, f)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f()
}

// carryOut carries out Outputs: each in one turn, or if it is about several objects, in one turn for each.
type carryOut func(*protocol.Outputs) error

// carrier returns what carries out all Outputs of a run, because new closures for each event would take memory.
func (d *delivery) carrier(ctx context.Context) carryOut {
	var now protocol.EmitEvent
	change := func(c index.Change) error { return d.change(ctx, c, d.inbox.event.object, false) }
	event := func() error { return d.event(ctx, now, change) }
	return func(out *protocol.Outputs) (err error) {
		if out.NoInitialEvents != nil {
			d.target.noInitialEvents.Store(true)
			d.log.log(ctx, slog.LevelDebug, "the server has no streaming lists: reading pages from now on",
				"cause", out.NoInitialEvents)
		}
		if out.Gap != (protocol.EmitGap{}) {
			err = d.inTurn(ctx, func() error { return d.gap(out.Gap) })
		}
		if out.BeginSnapshot && err == nil {
			err = d.inTurn(ctx, d.beginSnapshot)
		}
		if out.Listed.Fate != protocol.NoneListed && err == nil {
			err = d.listed(ctx, out.Listed)
		}
		if out.EndSnapshot != protocol.NotEnded && err == nil {
			err = d.endSnapshot(ctx, out.EndSnapshot)
		}
		if out.Event.Emit && err == nil {
			if err = d.writeEventAhead(ctx, out.Event); err == nil { // not in a turn: others need not wait
				now = out.Event
				err = d.inTurn(ctx, event)
			}
		}
		if out.Reached.As != protocol.NoMilestone && err == nil {
			err = d.reached(ctx, out.Reached)
		}
		return err
	}
}

func (d *delivery) gap(g protocol.EmitGap) error {
	if g.Reused {
		d.index.Distrust()
	}
	d.infers = true
	d.current = Event{Kind: Gap, Gap: &Break{
		Reason: g.Gap.Reason, From: g.Gap.From, To: g.To, HistoryLost: g.HistoryLost,
		Duration: time.Since(d.upToDateAt),
	}}
	return d.emit(false)
}

func (d *delivery) beginSnapshot() error {
	// Until the snapshot ends, the index does not match any version.
	d.report.resourceVersion("")
	d.pass()
	d.index.BeginList()
	return nil
}

// listed decides about objects of a snapshot. Initial events are gathered only to be written ahead together.
func (d *delivery) listed(ctx context.Context, l protocol.Listed) error {
	switch l.Fate {
	case protocol.Retain:
		d.inbox.gather()
		return nil
	case protocol.Gather:
		if !d.progress.WritesAhead() {
			d.inbox.gather()
		} else if !d.inbox.gatherUpTo(d.target.Requests.PageSize, client.BufferBytes) {
			return nil
		}
	}
	page := d.inbox.takePage()
	d.index.Coming(func(id objects.ID) bool {
		return slices.ContainsFunc(page, func(o object) bool { return o.ID == id })
	})
	defer d.index.Coming(nil)
	if err := d.writePageAhead(ctx, page, l); err != nil {
		return err
	}
	for i, o := range page {
		page[i] = object{} // so that its memory can be freed
		if err := d.inTurn(ctx, func() error { return d.object(ctx, o, l) }); err != nil {
			return err
		}
	}
	return nil
}

// object delivers an object of a snapshot, if it is new or changed.
func (d *delivery) object(ctx context.Context, o object, l protocol.Listed) error {
	defer d.pass()
	from := index.Listed
	if d.index.Saw(o.ID) {
		from = index.ListedAgain
	}
	if isOnlyEntered(o, l) {
		return d.index.Put(o.Version, d.target.selects(o), from, nil)
	}
	return d.index.Put(o.Version, d.target.selects(o), from, func(c index.Change) error {
		return d.change(ctx, c, o, true)
	})
}

// isOnlyEntered reports whether an object of a snapshot is entered into the index without being delivered.
func isOnlyEntered(o object, l protocol.Listed) bool {
	return l.Quiet || l.Since != "" && protocol.NotAfter(o.ResourceVersion, l.Since)
}

// notePage notes the names on a page, and reports whether the pages before it had all of its objects. For objects that
// the index does not have, it relies on servers that list in the order of names.
func (d *delivery) notePage(first bool) (duplicate bool) {
	if first {
		d.lastName = types.NamespacedName{}
	}
	duplicate = !first && len(d.inbox.page) > 0
	for _, o := range d.inbox.page {
		n, last := o.NamespacedName(), d.lastName
		if cmp.Or(cmp.Compare(n.Namespace, last.Namespace), cmp.Compare(n.Name, last.Name)) > 0 {
			d.lastName, duplicate = n, false
		} else if d.target.selects(o) && !d.index.Saw(o.ID) {
			duplicate = false
		}
	}
	return duplicate
}

func (d *delivery) endSnapshot(ctx context.Context, how protocol.Ending) error {
	return d.inTurn(ctx, func() error {
		if how == protocol.OnlyForgotten {
			return d.index.EndList(nil)
		}
		return d.index.EndList(func(c index.Change) error { return d.change(ctx, c, object{}, true) })
	})
}

// reached emits SYNCED or BOOKMARK: everything up to a version has been delivered.
func (d *delivery) reached(ctx context.Context, r protocol.Reached) error {
	kind := Bookmark
	switch r.As {
	case protocol.Synced:
		kind = Synced
		_, partial := d.report.point()
		if err := d.progress.WriteSynced(ctx, r.Version, partial); err != nil { // not in a turn: others need not wait
			return err
		}
	case protocol.Bookmark:
		if !d.bookmarks && !d.everyBookmark {
			return nil
		}
	case protocol.BookmarkAgain:
		if !d.everyBookmark {
			return nil
		}
	}
	return d.inTurn(ctx, func() error {
		if kind == Synced {
			d.log.log(ctx, slog.LevelDebug, "synced", "resourceVersion", r.Version)
			d.upToDate()
			d.report.synced()
		}
		d.report.resourceVersion(r.Version)
		d.current = Event{Kind: kind, ResourceVersion: r.Version}
		return d.emit(false)
	})
}

// event delivers the event in the inbox, through change if the index has made something of it.
func (d *delivery) event(ctx context.Context, e protocol.EmitEvent, change index.Deliver) error {
	last := &d.inbox.event
	d.movesTo = e.Version
	defer func() { d.movesTo = ""; d.inbox.dropEvent() }()
	if e.Partial && !e.Replay && !d.index.Has(last.object.ID) {
		return d.unknown(ctx, *last)
	}
	from := index.Happened
	switch {
	case d.target.Fake:
		from = index.Only
	case e.Replay:
		from = index.Replayed
	case last.kind == watch.Added && !e.Exists:
		from = index.Appeared
	}
	if last.kind == watch.Deleted {
		return d.index.Remove(last.object.Version, from, change)
	}
	return d.index.Put(last.object.Version, d.target.selects(last.object), from, change)
}

// unknown delivers the event of an object that is not in the index, but may have existed before the start. With a
// Select the object may not have been selected before, so it is ADDED.
func (d *delivery) unknown(ctx context.Context, ev objectEvent) error {
	if !d.target.selects(ev.object) {
		return nil
	}
	kind := ev.kind
	if kind != watch.Deleted {
		if err := d.index.Put(ev.object.Version, true, index.Happened, nil); err != nil {
			return err
		}
		if d.target.Select != nil {
			kind = watch.Added
		}
	}
	return d.change(ctx, index.Change{Kind: kind}, ev.object, false)
}

// change emits a change. One that is not inferred has the object o.
func (d *delivery) change(ctx context.Context, c index.Change, o object, listed bool) error {
	inferred := false
	switch {
	case c.Gone != nil:
		o, inferred = d.target.inferred(c.Gone), true
	case c.Left != nil && listed:
		// It is unknown when, and at which version, the object stopped matching: it is handled as if it were gone.
		o, inferred = d.target.inferred(c.Left), true
	case listed:
		// What a first snapshot adds is not inferred, but a change since an earlier, interrupted one is.
		inferred = d.infers || c.Kind != watch.Added
	}
	if d.movesTo != "" && !inferred && !c.Doubtful { // an inferred DELETED comes before the event of this version
		d.report.resourceVersion(d.movesTo)
	}
	d.current = Event{
		Kind: Kind(c.Kind), Object: o.body.decoded, JSON: o.body.json, Memory: o.body.memory,
		ResourceVersion: o.resourceVersion(), Inferred: inferred,
	}
	if err := d.emit(c.Pending || c.Kind == watch.Added && d.report.unclean()); err != nil {
		return err
	}
	return context.Cause(ctx) // nil, or the index must make no further change
}

// emit emits the Event. mayBeKnown says that it is the ADDED of an object that an earlier run may have delivered.
func (d *delivery) emit(mayBeKnown bool) error {
	d.current.Namespace = d.report.namespace
	if d.progress != nil {
		if mayBeKnown {
			d.progress.MayBeKnown()
		}
		d.current.Mark = d.progress.Mark(d.report.point())
	}
	err := d.door.Emit(&d.current)
	d.current = Event{} // so that the object's memory can be freed
	return err
}

// pass records a change of the position or the index that comes without an Event.
func (d *delivery) pass() {
	if d.progress != nil {
		d.progress.Pass(d.report.point())
	}
}

// moved reports how far everything has been delivered. No version can be resumed from inside a snapshot. Until the Gap
// is emitted, the position stays before the gap.
func (d *delivery) moved(m protocol.Memory) {
	if partial, unclean, ok := m.Resumable(); ok {
		d.report.position(m.Version(), partial, unclean)
		d.pass()
	} else if protocol.Unresumable(&m) {
		d.unresumable()
	}
}

// writePageAhead writes the new objects of a page to the checkpoint.
func (d *delivery) writePageAhead(ctx context.Context, page []object, l protocol.Listed) error {
	if !d.progress.WritesAhead() {
		return nil
	}
	var fresh []objects.ID
	for _, o := range page {
		if !isOnlyEntered(o, l) && d.isNew(o) {
			fresh = append(fresh, o.ID)
		}
	}
	return d.progress.WriteAhead(ctx, fresh)
}

// commitsFor reports whether the event in the inbox has to wait for a commit of its object. Then the objects of later
// events, if they are in the inbox, too, share that commit.
func (d *delivery) commitsFor(e protocol.EmitEvent) bool {
	return d.writesAhead(e) && !d.progress.IsWrittenAhead(d.inbox.event.object.ID)
}

// writesAhead reports whether the object of the event in the inbox has to be in the checkpoint before it is delivered.
func (d *delivery) writesAhead(e protocol.EmitEvent) bool {
	ev := &d.inbox.event
	return e.Emit && !e.Replay && d.progress.WritesAhead() && ev.kind != watch.Deleted && d.isNew(ev.object)
}

// writeEventAhead writes to the checkpoint what must be there before the event in the inbox is delivered: the version
// of SYNCED, if it is acked, and the object, if it is new.
func (d *delivery) writeEventAhead(ctx context.Context, e protocol.EmitEvent) error {
	if err := d.progress.WriteVersion(ctx); err != nil {
		return err
	}
	coming := d.inbox.takeComing()
	if !d.writesAhead(e) {
		return nil
	}
	fresh := []objects.ID{d.inbox.event.object.ID}
	seen := map[objects.ID]bool{}
	for _, o := range coming {
		// A replay of an unknown object is not delivered.
		replay := protocol.NotAfter(o.ResourceVersion, e.Version) && !d.index.Has(o.ID)
		if !replay && o.ID != fresh[0] && !seen[o.ID] && d.isNew(o) {
			seen[o.ID] = true
			fresh = append(fresh, o.ID)
		}
	}
	return d.progress.WriteAhead(ctx, fresh)
}

// isNew reports whether an object will be delivered and has no entry yet.
func (d *delivery) isNew(o object) bool { return !d.index.Has(o.ID) && d.target.selects(o) }
