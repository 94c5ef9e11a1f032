package explore

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ledgerLine delivers the sequence of one namespace. It calls the index and the ledger as package sequence does.
type ledgerLine struct {
	namespace string
	progress  *acks.Progress
	index     *index.Index
	base      ledgerBase

	version  string // everything up to here has been delivered; empty within a snapshot
	partial  bool
	unclean  bool
	synced   bool
	inferred bool // a GAP was delivered in this run
	stage    ledgerStage
	reason   stream.GapReason
	next     int // the number of the next live write
	snapshot ledgerSnapshot
	wait     ledgerWait
	behind   bool // used by collapse
}

// ledgerSnapshot is the snapshot that is being delivered, or will be.
type ledgerSnapshot struct {
	quiet     bool        // it is not delivered: the run starts now
	stale     bool        // the index distrusts what it has
	since     string      // an unknown object is news only after this
	list      ledgerWorld // what is left
	version   string
	read      bool // completely
	paged     bool // the page was written ahead
	unwritten bool // ... and not waited for, because a commit had failed
}

// ledgerWait is what the next event waits for.
type ledgerWait struct {
	asked int  // how often the ledger was asked, for this event
	waits bool // for a commit
	due   bool // the Store must have a version then
}

// ledgerStage is what a line delivers next.
type ledgerStage byte

const (
	ledgerGap ledgerStage = iota
	ledgerBegin
	ledgerList
	ledgerEnd
	ledgerSynced
	ledgerLive
)

func newLedgerLine(p *ledgerProgram, namespace string, from *checkpoint.Position) *ledgerLine {
	l := &ledgerLine{
		namespace: namespace, progress: p.run.books.Session.Progress(namespace), stage: ledgerBegin,
		base: ledgerBase{within: true}, snapshot: ledgerSnapshot{quiet: p.setup.deferred && from == nil},
	}
	if l.snapshot.quiet && p.setup.after {
		l.stage, l.partial, l.base.partial = ledgerSynced, true, true
		l.snapshot.version, l.next = p.past.server.version(), len(p.past.server.history)
	}
	l.index = index.New(func(v objects.Version, gone bool) { l.progress.Note(acks.Change{Version: v, Gone: gone}) })
	return l
}

// resume begins at a position, or if that is nil with a snapshot. Lost says that the history is gone.
func (l *ledgerLine) resume(from *checkpoint.Position, lost, rewound bool) {
	if from == nil {
		return
	}
	known := 0
	for _, o := range from.Objects {
		if l.namespace != "" && o.Namespace != l.namespace {
			continue
		}
		id := ledgerID(o)
		l.index.Enter(objects.Version{ID: id, ResourceVersion: o.ResourceVersion})
		if known++; o.ResourceVersion != "" {
			l.base.entries = l.base.entries.with(id, ledgerContent{version: o.ResourceVersion})
		}
	}
	version, _ := from.At(l.namespace)
	_, begun := from.ResourceVersions[l.namespace]
	begun = begun || known > 0 || from.Unclean || from.Partial && len(from.ResourceVersions) == 0
	l.version, l.base.version, l.base.partial, l.base.within = version, version, from.Partial, version == ""
	l.partial, l.unclean = from.Partial, from.Unclean
	switch {
	case from.Rewound || rewound:
		l.stage, l.reason = ledgerGap, stream.GapRewound
	case version != "" && lost:
		l.stage, l.reason, l.snapshot.since = ledgerGap, stream.GapExpired, l.sinceVersion()
	case version != "":
		l.stage, l.snapshot.version, l.next = ledgerSynced, version, ledgerAfter(version)
	case begun:
		l.stage, l.reason = ledgerGap, stream.GapRestarted
	}
}

// sinceVersion is from where on an unknown object is news (see protocol.Listed).
func (l *ledgerLine) sinceVersion() string {
	if l.partial {
		return l.version
	}
	return ""
}

// breakOff lets the watch end with a gap.
func (l *ledgerLine) breakOff(reason stream.GapReason) {
	l.stage, l.reason, l.wait = ledgerGap, reason, ledgerWait{}
	if l.snapshot = (ledgerSnapshot{}); reason != stream.GapRewound {
		l.snapshot.since = l.sinceVersion()
	}
}

// hasNext reports whether there is anything to deliver.
func (l *ledgerLine) hasNext(p *ledgerProgram) bool {
	l.skip(p)
	return l.stage != ledgerLive || l.next < len(p.past.server.history)
}

// skip passes over the writes of other namespaces and of objects that are not selected.
func (l *ledgerLine) skip(p *ledgerProgram) {
	for l.next < len(p.past.server.history) {
		if id := p.past.server.history[l.next].id; id.Name != "" && (l.namespace == "" || id.Namespace == l.namespace) {
			return
		}
		l.next++
	}
}

// goOn delivers what is next, unless it has to wait for a commit. Then the commit begins, if none is under way.
func (l *ledgerLine) goOn(p *ledgerProgram) {
	if l.skip(p); l.stage == ledgerBegin {
		l.begin(p)
	}
	if l.wait.waits && !p.run.failed && p.run.books.IsUrgent() {
		p.take()
		return
	}
	if l.wait.waits && p.run.failed {
		p.run.books.Expose()
	}
	l.wait.waits = false
	for l.ask(p) {
		waits := p.run.books.Waits && !p.run.failed
		if p.run.books.Waits && p.run.failed {
			p.run.books.Expose()
		}
		p.run.books.Waits = false
		if waits {
			l.wait.waits = true
			p.says("an event of %s waits for a commit", l.name())
			if !p.run.committing {
				p.take()
			}
			return
		}
	}
	l.wait.asked = 0
	l.deliver(p)
	p.collapse()
}

func (l *ledgerLine) name() string {
	if l.namespace == "" {
		return "the watch"
	}
	return l.namespace
}

// ask asks the ledger whether the next event has to wait. It reports whether there was something to ask.
func (l *ledgerLine) ask(p *ledgerProgram) (more bool) {
	ctx := context.Background()
	l.wait.asked++
	switch {
	case l.stage == ledgerGap && l.reason == stream.GapRewound && l.wait.asked == 1:
		p.calls("rewound")
		_ = l.progress.Rewound(ctx, l.others(p)...)
	case l.stage == ledgerList && l.wait.asked == 1:
		if !l.snapshot.paged {
			l.snapshot.paged = p.setup.pages
			l.ahead(p, l.fresh(p))
		}
	case l.stage == ledgerSynced && l.wait.asked == 1:
		if l.snapshot.quiet {
			p.beganNow(l)
		}
		_ = l.progress.WriteSynced(ctx, l.snapshot.version, l.partial)
	case l.stage == ledgerLive && l.wait.asked == 1:
		_ = l.progress.WriteVersion(ctx)
		l.wait.due = l.base.version != ""
	case l.stage == ledgerLive && l.wait.asked == 2:
		if c := p.past.server.history[l.next]; !c.gone && !l.index.Has(c.id) {
			l.ahead(p, []objects.ID{c.id})
		}
	default:
		return false
	}
	return true
}

func (l *ledgerLine) ahead(p *ledgerProgram, ids []objects.ID) {
	if !l.progress.WritesAhead() {
		return
	}
	for _, id := range ids {
		p.calls("+%s", scriptText(id, ""))
		p.past.ahead = p.past.ahead.with(id, ledgerContent{})
	}
	_ = l.progress.WriteAhead(context.Background(), ids)
	l.snapshot.unwritten = p.run.failed
}

// others are the lines that a rewind concerns too: those whose watch is not open.
func (l *ledgerLine) others(p *ledgerProgram) (all []*acks.Progress) {
	for _, one := range p.run.lines {
		if one == l || one.stage != ledgerLive {
			all = append(all, one.progress)
		}
	}
	return all
}

// fresh returns the new objects of the page that the next event is on: of one object, or of all of them.
func (l *ledgerLine) fresh(p *ledgerProgram) (ids []objects.ID) {
	page := l.snapshot.list[:1]
	if p.setup.pages {
		page = l.snapshot.list
	}
	for _, o := range page {
		if !l.isOnlyEntered(o) && !l.index.Has(o.id) {
			ids = append(ids, o.id)
		}
	}
	return ids
}

func (l *ledgerLine) isOnlyEntered(o ledgerObject) bool {
	return l.snapshot.quiet || l.snapshot.since != "" && protocol.NotAfter(o.version, l.snapshot.since)
}

func (l *ledgerLine) pass(p *ledgerProgram) {
	l.progress.Pass(l.version, l.partial)
	p.passed(l)
}

// begin begins a snapshot of the current state.
func (l *ledgerLine) begin(p *ledgerProgram) {
	p.says("a snapshot of %s begins", l.name())
	l.version, l.snapshot.version, l.next = "", p.past.server.version(), len(p.past.server.history)
	p.calls("snapshot")
	l.pass(p)
	l.index.BeginList()
	l.stage, l.snapshot.paged = ledgerList, false
	l.snapshot.list = nil
	for _, o := range p.past.server.world {
		if l.namespace == "" || l.namespace == o.id.Namespace {
			l.snapshot.list = append(l.snapshot.list, o)
		}
	}
	l.listedAll()
}

func (l *ledgerLine) listedAll() {
	if len(l.snapshot.list) == 0 && l.stage == ledgerList {
		l.stage = ledgerEnd
	}
}

// deliver delivers what is next.
func (l *ledgerLine) deliver(p *ledgerProgram) {
	switch l.stage {
	case ledgerGap:
		if l.inferred = true; l.reason == stream.GapRewound {
			l.index.Distrust()
			l.snapshot.stale = true
		}
		l.synced = false
		p.emit(l, &ledgerEvent{kind: stream.Gap, reason: l.reason}, false)
		l.begin(p)
	case ledgerList:
		o := l.snapshot.list[0]
		l.snapshot.list = l.snapshot.list[1:]
		v := objects.Version{ID: o.id, ResourceVersion: o.version}
		if l.isOnlyEntered(o) {
			_ = l.index.Put(v, true, index.Listed, nil)
		} else {
			_ = l.index.Put(v, true, index.Listed, func(c index.Change) error { return l.change(p, c, o, true) })
		}
		l.pass(p)
		l.listedAll()
	case ledgerEnd:
		each := func(c index.Change) error { return l.change(p, c, ledgerObject{}, true) }
		if l.snapshot.quiet {
			each = nil
		}
		_ = l.index.EndList(each)
		p.says("the snapshot of %s ends", l.name())
		l.snapshot.stale, l.snapshot.since, l.snapshot.read, l.stage = false, "", true, ledgerSynced
		if !p.setup.pages { // SYNCED comes with the end
			l.goOn(p)
			return
		}
		l.version, l.partial, l.unclean = l.snapshot.version, false, false
		l.pass(p)
	case ledgerSynced:
		l.version, l.stage, l.synced, l.snapshot.quiet = l.snapshot.version, ledgerLive, true, false
		p.emit(l, &ledgerEvent{kind: stream.Synced, content: ledgerContent{l.version, p.past.server.epoch}}, false)
		if l.snapshot.unwritten = false; l.snapshot.read {
			l.partial, l.unclean = false, false
		}
		l.pass(p)
	case ledgerLive:
		l.live(p)
	}
}

// live delivers the next live event.
func (l *ledgerLine) live(p *ledgerProgram) {
	if p.checks {
		p.promises().version(l)
	}
	c := p.past.server.history[l.next]
	l.next++
	v, kind := objects.Version{ID: c.id, ResourceVersion: c.version}, watch.Modified
	change := func(made index.Change) error { return l.change(p, made, c.ledgerObject, false) }
	switch {
	case l.partial && !l.index.Has(c.id): // it may have existed
		if c.gone {
			kind = watch.Deleted
		} else {
			if c.created {
				kind = watch.Added
			}
			_ = l.index.Put(v, true, index.Happened, nil)
		}
		_ = change(index.Change{Kind: kind})
	case c.gone:
		_ = l.index.Remove(v, index.Happened, change)
	default:
		_ = l.index.Put(v, true, index.Happened, change)
	}
	l.version = c.version
	l.pass(p)
}

// change emits what the index has made of the state of an object.
func (l *ledgerLine) change(p *ledgerProgram, made index.Change, c ledgerObject, listed bool) error {
	e := &ledgerEvent{kind: stream.Type(made.Kind), id: c.id, content: c.ledgerContent}
	switch {
	case made.Gone != nil:
		e.id, e.content = made.Gone.ID, ledgerContent{version: made.Gone.ResourceVersion}
		e.inferred = true
	case listed:
		e.inferred = l.inferred || made.Kind != watch.Added
	}
	if !listed && !e.inferred {
		l.version = c.version
	}
	p.emit(l, e, made.Pending || e.kind == stream.Added && l.unclean)
	return nil
}
