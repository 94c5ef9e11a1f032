package explore

import (
	"slices"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ledgerStep is one step. Number is a line, an event or an object.
type ledgerStep struct {
	do     ledgerAction
	number int8
	how    ledgerHow
}

type ledgerAction int8

const (
	ledgerWriteObject  ledgerAction = iota // an object is created or changed
	ledgerRemoveObject                     // an object is deleted
	ledgerWriteOther                       // an object that is not selected changes
	ledgerDeliver                          // a line delivers what is next, or begins to wait for a commit
	ledgerBookmark                         // the server sends a bookmark
	ledgerAck                              // an event is acked
	ledgerMerge                            // a Mux merges the last two events of an object
	ledgerCommit                           // a commit begins
	ledgerAnswer                           // and ends
	ledgerBreak                            // the history is lost while the program runs, or a list breaks off
	ledgerRewind                           // the server goes back in time
	ledgerLeave                            // the loop of the run is left; what was delivered can still be acked
	ledgerSucceed                          // the next run of the same program begins
	ledgerKill                             // the program is killed and started again
)

// ledgerHow says how a commit ends, and what the next run finds.
type ledgerHow uint8

const (
	ledgerStored   ledgerHow = 1 << iota // the Store has the commit
	ledgerAnswered                       // the Store says so
	ledgerLost                           // the server's history is lost
)

// ledgerSteps are the steps that a program can take.
type ledgerSteps struct {
	p   *ledgerProgram
	all []ledgerStep
}

// stepsOf returns the steps that can be taken, and the calm one of them, if there is one.
func stepsOf(p *ledgerProgram) (all []ledgerStep, calm ledgerStep) {
	s := &ledgerSteps{p: p}
	if p.err == nil {
		s.ofServer()
		s.ofLines()
		s.ofReceiver()
		s.ofCommits()
		s.ofRuns()
	}
	calm.do = -1
	if step := s.calm(); slices.Contains(s.all, step) {
		calm = step
	}
	return s.all, calm
}

// calm returns the next step if nothing goes wrong any more: no commit fails, and a run ends only to have a successor.
func (s *ledgerSteps) calm() ledgerStep {
	p := s.p
	switch {
	case p.run.committing:
		return ledgerStep{ledgerAnswer, 0, ledgerStored | ledgerAnswered}
	case p.run.ended:
		return ledgerStep{ledgerSucceed, 0, 0}
	}
	for i, l := range p.run.lines {
		if !l.wait.waits && l.hasNext(p) {
			return ledgerStep{ledgerDeliver, int8(i), 0}
		}
	}
	if len(p.run.events) > 0 {
		return ledgerStep{ledgerAck, 0, 0}
	}
	return ledgerStep{ledgerCommit, 0, 0}
}

func (s *ledgerSteps) add(do ledgerAction, number int, how ledgerHow) {
	s.all = append(s.all, ledgerStep{do, int8(number), how})
}

func (s *ledgerSteps) ofServer() {
	server, u := &s.p.past.server, s.p.setup
	if server.writes < u.writes && !s.p.past.unmarked {
		for i, name := range ledgerNames[:u.objects] {
			id, exists := server.named(u.namespaceOf(i), name, u.recreated)
			s.add(ledgerWriteObject, i, 0)
			if exists {
				s.add(ledgerRemoveObject, i, 0)
			} else if server.isNew(id) {
				break // the next name would do the same
			}
		}
		if u.most.bookmarks > 0 {
			s.add(ledgerWriteOther, 0, 0)
		}
	}
	if l := s.p.run.lines[0]; s.p.past.spent.rewinds < u.most.rewinds && l.stage == ledgerLive && !l.wait.waits &&
		!s.p.run.ended && len(server.history) > 0 && ledgerAfter(l.version) == len(server.history) {
		s.add(ledgerRewind, 0, 0)
	}
}

func (s *ledgerSteps) ofLines() {
	spent, most := &s.p.past.spent, &s.p.setup.most
	for i, l := range s.p.run.lines {
		if s.p.run.ended || l.wait.waits {
			continue
		}
		if l.hasNext(s.p) {
			s.add(ledgerDeliver, i, 0)
		} else if l.version != s.p.past.server.version() && spent.bookmarks < most.bookmarks {
			s.add(ledgerBookmark, i, 0)
		}
		if spent.gaps < most.gaps && (l.stage == ledgerLive || l.stage == ledgerList || l.stage == ledgerEnd) {
			s.add(ledgerBreak, i, 0)
		}
	}
}

func (s *ledgerSteps) ofReceiver() {
	for i, e := range s.p.run.events {
		if !e.acked {
			s.add(ledgerAck, i, 0)
		}
	}
	if was, _ := s.p.mergeable(); was != nil && s.p.past.spent.merges < s.p.setup.most.merges {
		s.add(ledgerMerge, 0, 0)
	}
}

func (s *ledgerSteps) ofCommits() {
	switch {
	case s.p.run.committing:
		s.add(ledgerAnswer, 0, ledgerStored|ledgerAnswered)
		if s.p.past.spent.failures < s.p.setup.most.failures {
			s.add(ledgerAnswer, 0, ledgerStored)
			s.add(ledgerAnswer, 0, 0)
		}
	case s.p.run.books.Session.Status().Uncommitted, s.p.run.books.Marked():
		s.add(ledgerCommit, 0, 0)
	}
}

func (s *ledgerSteps) ofRuns() {
	spent, most := &s.p.past.spent, &s.p.setup.most
	switch {
	case s.p.run.ended && !s.p.run.committing:
		s.add(ledgerSucceed, 0, 0)
		s.add(ledgerSucceed, 0, ledgerLost)
	case !s.p.run.ended && spent.ends < most.ends:
		s.add(ledgerLeave, 0, 0)
	}
	if spent.kills >= most.kills || s.p.past.isBlind() {
		return
	}
	s.add(ledgerKill, 0, 0)
	s.add(ledgerKill, 0, ledgerLost)
	if s.p.run.committing {
		s.add(ledgerKill, 0, ledgerStored)
		s.add(ledgerKill, 0, ledgerStored|ledgerLost)
	}
}

// apply takes a step.
func (s ledgerStep) apply(p *ledgerProgram) {
	p.log = nil
	stored, lost := s.how&ledgerStored != 0, s.how&ledgerLost != 0
	switch s.do {
	case ledgerWriteObject, ledgerRemoveObject:
		id, _ := p.past.server.named(p.setup.namespaceOf(int(s.number)), ledgerNames[s.number], p.setup.recreated)
		p.past.server.write(id, s.do == ledgerRemoveObject)
		p.says("write %s, deleted %v", scriptText(id, p.past.server.version()), s.do == ledgerRemoveObject)
	case ledgerWriteOther:
		p.past.server.write(objects.ID{}, false)
		p.says("write another object, at %s", p.past.server.version())
	case ledgerDeliver:
		p.run.lines[s.number].goOn(p)
	case ledgerBookmark:
		p.past.spent.bookmarks++
		p.bookmark(p.run.lines[s.number])
	case ledgerAck:
		p.ack(p.run.events[s.number])
	case ledgerMerge:
		p.past.spent.merges++
		p.merge(p.mergeable())
	case ledgerCommit:
		p.take()
	case ledgerAnswer:
		answered := s.how&ledgerAnswered != 0
		if !answered {
			p.past.spent.failures++
		}
		p.says("the commit ends: stored %v, answered %v", stored, answered)
		p.answer(stored, answered)
	default:
		s.applyRare(p, lost)
	}
}

// applyRare takes a step that ends a run or breaks the sequence.
func (s ledgerStep) applyRare(p *ledgerProgram, lost bool) {
	switch s.do {
	case ledgerBreak:
		p.past.spent.gaps++
		if l := p.run.lines[s.number]; l.stage == ledgerLive {
			p.says("the history is lost for %s", l.name())
			l.breakOff(stream.GapExpired)
		} else {
			p.says("the list of %s breaks off", l.name())
			l.stage = ledgerBegin
		}
	case ledgerRewind:
		p.past.spent.rewinds++
		p.past.server.rewind()
		p.past.unmarked = true
		p.says("the server goes back to %s", p.past.server.version())
		p.run.lines[0].breakOff(stream.GapRewound)
	case ledgerLeave:
		p.past.spent.ends++
		p.run.ended = true
		p.says("the run ends")
		p.run.books.Session.End()
		for _, l := range p.run.lines {
			l.wait.waits = false
		}
	case ledgerSucceed:
		p.says("the next run begins: history lost %v", lost)
		p.succeed(lost)
	}
}

// killed returns what is left after a kill.
func (p *ledgerProgram) killed(s ledgerStep) ledgerPast {
	before, inherited := p.past, p.run.inherited
	defer func() { p.past, p.run.inherited = before, inherited }()
	if s.how&ledgerStored != 0 {
		p.stored()
	}
	past := p.left()
	past.spent.kills++
	return past
}
