package streamtest

import (
	"fmt"

	"github.com/gvrwatch/gvrwatch/stream"
)

func (s *source) bookmark(i int, ev stream.Event) {
	switch {
	case s.phase != live && s.joint:
	case s.phase != live:
		s.report(ErrSilent, i, "not everything up to there has been told before SYNCED")
	case older(ev.ResourceVersion, s.cursor):
		s.report(ErrBackInTime, i, "everything up to "+s.cursor+" has been told")
	default:
		s.upTo(i, ev.ResourceVersion, "it")
		s.cursor = ev.ResourceVersion
	}
}

// upTo checks the claim that everything up to rv has been told, and keeps the
// worlds in which it has.
func (s *source) upTo(i int, rv, claim string) {
	if s.opts.Latest {
		s.latestUpTo(i, rv, claim)
		return
	}
	var fit []world
	for _, w := range s.worlds {
		pos, ok := s.timelines[w.epoch].position(rv)
		if !ok {
			fit = append(fit, w)
			continue
		}
		if len(s.due(w, pos)) == 0 {
			w.pos = max(w.pos, pos)
			fit = append(fit, w)
		}
	}
	if len(fit) > 0 {
		s.worlds = fit
		return
	}
	w := s.worlds[0]
	pos, _ := s.timelines[w.epoch].position(rv)
	for _, e := range s.due(w, pos) {
		s.report(s.absence(e.kind), i, fmt.Sprintf("%s says that everything up to %s has been told, but not %s", claim, rv, e.text()))
	}
	w.pos = pos
	s.worlds = []world{w}
}

// due are the changes from w to pos that had to be told.
func (s *source) due(w world, pos int) []*entry {
	var due []*entry
	for _, e := range s.timelines[w.epoch][min(w.pos, pos):pos] {
		if e.kind != "" && !s.optional(w, e) {
			due = append(due, e)
		}
	}
	return due
}

// absence is the promise that is broken where a change is not told.
func (s *source) absence(kind stream.Type) error {
	switch {
	case s.resuming:
		return ErrResumed
	case kind == stream.Deleted:
		return ErrRemoval
	}
	return ErrMissing
}

// flush reports what has been jumped over and can't come any more.
func (s *source) flush() {
	for _, k := range s.skipped {
		s.report(k.promise, k.index, k.entry.text()+" comes before it, and was not told")
	}
	s.skipped = nil
}
