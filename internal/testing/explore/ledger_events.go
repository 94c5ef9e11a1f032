package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/stream"
)

// emit delivers an event.
func (p *ledgerProgram) emit(l *ledgerLine, e *ledgerEvent, mayBeKnown bool) {
	switch e.kind {
	case stream.Added:
		p.promises().writtenAhead(l, e)
		p.past.ahead = p.past.ahead.without(e.id)
	case stream.Deleted: // it was in the Store, and may not have been delivered
		p.past.ahead = p.past.ahead.without(e.id)
	case stream.Gap:
		p.promises().rewound(e)
		if l.partial || l.unclean {
			p.loseHistory(l)
		}
	}
	p.promises().begun(l, e)
	if mayBeKnown {
		l.progress.MayBeKnown()
	}
	e.line, e.at, e.number = l, l.version, p.run.number
	e.mark = l.progress.Mark(l.version, l.partial)
	p.run.number++
	p.run.events = append(p.run.events, e)
	p.calls("%v", ledgerWord{e})
	if e.kind == stream.Synced && !p.isSynced() {
		// The SYNCED of several namespaces are one.
		e.acked, e.hidden = true, true
		e.mark.Ack()
		return
	}
	p.says("deliver %v", e)
}

// loseHistory says that the receiver can't rely on what it knows.
func (p *ledgerProgram) loseHistory(l *ledgerLine) {
	for _, w := range []ledgerWorld{p.delivered(), p.acked()} {
		for _, o := range w {
			if l.namespace == "" || l.namespace == o.id.Namespace {
				p.past.exposed = p.past.exposed.with(o.id, ledgerContent{})
			}
		}
	}
}

func (p *ledgerProgram) isSynced() bool {
	for _, l := range p.run.lines {
		if !l.synced {
			return false
		}
	}
	return true
}

// passed keeps a pass that waits behind an event.
func (p *ledgerProgram) passed(l *ledgerLine) {
	var last *ledgerEvent
	for _, e := range p.run.events {
		if e.line == l {
			last = e
		}
	}
	switch e := (&ledgerEvent{line: l, at: l.version, acked: true}); {
	case last == nil:
		l.base.advance(e)
	case last.at != e.at:
		p.run.events = append(p.run.events, e)
	}
}

// beganNow says that a receiver takes what existed when the run began for known.
func (p *ledgerProgram) beganNow(l *ledgerLine) {
	for _, o := range p.past.server.at(l.snapshot.version) {
		if l.namespace != "" && l.namespace != o.id.Namespace {
			continue
		}
		known := &p.past
		known.seen, known.handled = known.seen.with(o.id, o.ledgerContent), known.handled.with(o.id, o.ledgerContent)
		if l.index.Has(o.id) {
			l.base.entries = l.base.entries.with(o.id, o.ledgerContent)
		} else {
			p.past.exposed = p.past.exposed.with(o.id, ledgerContent{}) // the index lacks it
		}
	}
	l.base.version, l.base.within, l.base.epoch = l.snapshot.version, false, p.past.server.epoch
}

// bookmark moves a line to the server's version, and delivers BOOKMARK.
func (p *ledgerProgram) bookmark(l *ledgerLine) {
	l.version = p.past.server.version()
	p.emit(l, &ledgerEvent{kind: stream.Bookmark, content: ledgerContent{version: l.version}}, false)
}

// mergeable returns what the newest event is merged into by a Mux that keeps the newest state of each object, or nil.
func (p *ledgerProgram) mergeable() (was, e *ledgerEvent) {
	for _, e := range p.run.events {
		if e.kind != "" {
			was = e
		}
	}
	if e = was; e == nil || e.acked || !e.isObject() && e.kind != stream.Bookmark {
		return nil, nil
	}
	was = nil
	for _, other := range p.run.events {
		switch {
		case other == e || other.line != e.line || other.kind == "":
		case other.acked, other.kind == stream.Gap, other.kind == stream.Synced:
			was = nil // it is not in the queue any more, or in an earlier part of it
		case other.id == e.id && (other.kind == stream.Bookmark) == (e.kind == stream.Bookmark):
			was = other
		}
	}
	if was == nil || was.kind == stream.Deleted {
		return nil, nil
	}
	return was, e
}

// merge merges the newest event with an earlier one.
func (p *ledgerProgram) merge(was, e *ledgerEvent) {
	drop := func(e *ledgerEvent) {
		*e = ledgerEvent{line: e.line, at: e.at, acked: true, number: e.number}
	}
	switch {
	case e.kind == stream.Bookmark:
		p.says("a Mux skips %v", was)
		acks.Skip(was.mark)
		drop(was)
	case was.kind == stream.Added && e.kind == stream.Deleted && !acks.MayBeKnown(was.mark):
		p.says("a Mux cancels %v and %v", was, e)
		if !acks.Cancel(was.mark, e.mark) {
			p.breaks(fmt.Errorf("%s and %s can't be cancelled", was, e))
		}
		drop(was)
		drop(e)
	default:
		p.says("a Mux coalesces %v and %v", was, e)
		if !acks.Coalesce(was.mark, e.mark) {
			p.breaks(fmt.Errorf("%s and %s can't be coalesced", was, e))
		}
		if was.content, was.inferred = e.content, e.inferred; e.kind == stream.Deleted {
			was.kind = e.kind
		}
		was.coalesced++
		drop(e)
	}
	p.collapse()
}

func (e *ledgerEvent) String() string {
	text := fmt.Sprint(e.number, " ", e.kind)
	if e.isObject() {
		text += " " + scriptText(e.id, "")
	}
	if e.content.version != "" {
		text += "@" + e.content.version
	}
	if e.line.namespace != "" && !e.isObject() {
		text += " of " + e.line.namespace
	}
	return text
}

// ledgerWord is an event in the words of the tests of package acks.
type ledgerWord struct{ of *ledgerEvent }

func (w ledgerWord) String() string {
	e := w.of
	switch e.kind {
	case stream.Gap:
		return "gap"
	case stream.Synced:
		return "synced@" + e.at
	case stream.Bookmark:
		return "mark@" + e.at
	case stream.Deleted:
		return "-" + scriptText(e.id, e.content.version)
	}
	return scriptText(e.id, e.content.version)
}

func scriptText(id objects.ID, version string) string {
	text := id.Name + ":" + string(id.UID)
	if id.Namespace != "" {
		text = id.Namespace + "/" + text
	}
	if version != "" {
		text += "@" + version
	}
	return text
}

// ledgerDelta is a commit in words.
type ledgerDelta checkpoint.Delta

func (d ledgerDelta) String() string {
	words := []string{fmt.Sprintf("versions %v", d.ResourceVersions)}
	for _, o := range d.Put {
		words = append(words, scriptText(ledgerID(o), o.ResourceVersion))
	}
	for _, o := range d.Removed {
		words = append(words, "-"+scriptText(ledgerID(o), ""))
	}
	if d.Partial {
		words = append(words, "partial")
	}
	if d.Rewound {
		words = append(words, "rewound")
	}
	if d.Unclean {
		words = append(words, "unclean")
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
