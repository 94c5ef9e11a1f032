package acks

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Session is one run of a sequence of events under a key. Begin makes it, and package stream delivers the events.
type Session struct {
	engine   *engine
	key      string
	identity checkpoint.Identity
	position *checkpoint.Position // where it resumes; nil once Position has returned it

	mu       sync.Mutex
	start    start
	progress map[string]*Progress        // by namespace
	pending  map[checkpoint.Object]queue // of objects with marks that are not applied
	next     nextCommit
	phase    phase
}

// start is where a session starts.
type start struct {
	point                      // of every namespace, but for the version
	versions map[string]string // as in checkpoint.Position
}

// nextCommit is what a session has for the next commit.
type nextCommit struct {
	changed    map[checkpoint.Object]Change
	applied    int  // events since the session began
	dirty      bool // there are changes since the last commit
	committing bool // a commit is under way
	reset      bool // the commit replaces what is in the Store
	urgent     bool // an event waits for the commit
	unclean    bool // the Store has the position as Unclean; used with NoWriteAhead
	deferred   bool // nothing is committed yet (see Begin)
}

type phase int

const (
	running phase = iota
	ended         // delivers no more events; acks still count
	closed        // acks don't count any more: the next session has begun
)

// idOf returns what identifies an object, even among objects of one name: the object without its version.
func idOf(o checkpoint.Object) checkpoint.Object {
	o.ResourceVersion = ""
	return o
}

// queue has the marks of one object that are not applied, in the order of delivery.
type queue struct {
	marks []*Mark
	ahead bool // written ahead: an ADDED is about to follow
}

func newSession(e *engine, key string, id checkpoint.Identity) *Session {
	return &Session{
		engine: e, key: key, identity: id, progress: map[string]*Progress{}, pending: map[checkpoint.Object]queue{},
	}
}

// resume makes a new session start from a position.
func (s *Session) resume(from checkpoint.Position) {
	s.position = &from
	s.start.point = point{partial: from.Partial, rewound: from.Rewound, unclean: from.Unclean}
	s.start.versions = maps.Clone(from.ResourceVersions)
	s.next.deferred = false
}

// Position returns where the sequence resumes, or nil if it starts from the beginning. It can be large, so that only
// the first call returns it, and later ones nil.
func (s *Session) Position() *checkpoint.Position {
	p := s.position
	s.position = nil
	return p
}

// Progress returns the progress of a watched namespace, or of the cluster ("").
func (s *Session) Progress(namespace string) *Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.progress[namespace]
	if p == nil {
		p = &Progress{session: s, low: s.start.point, snapshots: 1}
		rv, moved := (&checkpoint.Position{ResourceVersions: s.start.versions}).At(namespace)
		if p.low.version = rv; rv == "" && !moved {
			p.low.snapshot = 1
		}
		p.stored = stored{begun: rv != "" || moved, version: rv != ""}
		p.delivered = p.low
		p.next.first = s.next.deferred
		s.progress[namespace] = p
	}
	return p
}

// End ends delivery. Delivered events can still be acked until the next Session under the key begins. End may be called
// on nil.
func (s *Session) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.phase = max(s.phase, ended)
	if s.engine.options.NoWriteAhead && (s.next.unclean || s.next.committing) && s.isAcked() {
		s.next.dirty = true // the next commit has the position without Unclean
	}
	s.mu.Unlock()
	s.engine.commitSoon()
}

// Status returns how far acks and commits are behind.
func (s *Session) Status() checkpoint.Status {
	st := checkpoint.Status{Key: s.key}
	s.mu.Lock()
	st.Uncommitted = s.next.dirty || s.next.committing
	var oldest time.Time
	for _, p := range s.progress {
		st.Unacked += p.waiting.unacked
		if first := p.waiting.first; first != nil && (oldest.IsZero() || first.delivered.Before(oldest)) {
			oldest = first.delivered
		}
	}
	s.mu.Unlock()
	if !oldest.IsZero() {
		st.OldestUnacked = time.Since(oldest)
	}
	last := s.engine.result()
	st.LastCommit, st.Err, st.Attempts, st.NextTry = last.success, last.err, last.attempts, last.nextTry
	return st
}

// enqueue adds m to the pending marks of the object that c is about.
func (s *Session) enqueue(c Change, m *Mark) {
	l := s.pending[c.id()]
	l.marks = append(l.marks, m)
	l.ahead = l.ahead && c.Gone
	s.pending[c.id()] = l
}

func (s *Session) dequeue(id checkpoint.Object, m *Mark) {
	l := s.pending[id]
	l.marks = slices.DeleteFunc(l.marks, func(other *Mark) bool { return other == m })
	if len(l.marks) == 0 && !l.ahead {
		delete(s.pending, id)
	} else {
		s.pending[id] = l
	}
}

// requeue puts another mark in the place of m.
func (s *Session) requeue(id checkpoint.Object, m, other *Mark) {
	for i, one := range s.pending[id].marks {
		if one == m {
			s.pending[id].marks[i] = other
		}
	}
}

// oldest returns the first pending mark of an object, or nil.
func (s *Session) oldest(id checkpoint.Object) *Mark {
	if marks := s.pending[id].marks; len(marks) > 0 {
		return marks[0]
	}
	return nil
}

// apply makes a change of m part of the next commit. If the object is gone, and a later event may have delivered it
// again, its entry stays, without a version.
func (s *Session) apply(c Change, m *Mark) {
	s.dequeue(c.id(), m)
	if _, again := s.pending[c.id()]; again && c.Gone {
		c = Change{Object: c.id()}
	}
	s.change(c)
}

// retract removes the entry of an object that is not delivered after all, unless another event may have delivered it.
func (s *Session) retract(id checkpoint.Object) {
	if _, ok := s.pending[id]; !ok {
		s.change(Change{Object: id, Gone: true})
	}
}

func (s *Session) change(c Change) {
	if s.engine.final.Load() {
		return // no commit will take it
	}
	s.next.dirty = true
	if s.engine.positionsOnly {
		return
	}
	if s.next.changed == nil {
		s.next.changed = map[checkpoint.Object]Change{}
	}
	s.next.changed[c.id()] = c
}

// takeDelta returns what there is to commit, and forgets it.
func (s *Session) takeDelta() (d checkpoint.Delta, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.next.dirty || s.next.deferred {
		return d, false
	}
	d = checkpoint.Delta{Key: s.key, Identity: s.identity, Reset: s.next.reset, ResourceVersions: map[string]string{}}
	s.fillPosition(&d)
	for id, c := range s.next.changed {
		if c.Gone {
			d.Removed = append(d.Removed, id)
		} else {
			d.Put = append(d.Put, c.Object)
		}
	}
	d.Partial = d.Partial || s.engine.positionsOnly
	unclean := s.engine.options.NoWriteAhead && !(s.phase >= ended && s.isAcked())
	d.Unclean = d.Unclean || unclean
	s.next.dirty, s.next.urgent, s.next.reset, s.next.changed, s.next.committing = false, false, false, nil, true
	return d, true
}

// fillPosition fills in the low-water marks. A namespace that is not watched now stays where it was.
func (s *Session) fillPosition(d *checkpoint.Delta) {
	rest, moved := s.start.point, false
	if s.isWhole() {
		rest = point{}
	}
	if all := s.progress[""]; all == nil || !all.moved {
		maps.Copy(d.ResourceVersions, s.start.versions)
	}
	points := []point{}
	for n, p := range s.progress {
		if points = append(points, p.low); p.moved || p.stored.begun && p.low.snapshot != 0 {
			d.ResourceVersions[n] = p.low.version
		}
		moved = moved || p.moved
	}
	// Each namespace with a version or an object in the position has a Progress (fanIn.enter in package stream). So
	// once one of them has moved, the rest has nothing from before the rewind: its next watch begins with a list.
	rest.rewound = rest.rewound && !moved
	for _, p := range append(points, rest) {
		d.Partial = d.Partial || p.partial
		d.Rewound = d.Rewound || p.rewound
		d.Unclean = d.Unclean || p.unclean
	}
}

// isWhole reports whether every namespace of the identity has progress.
func (s *Session) isWhole() bool {
	if len(s.identity.Namespaces) == 0 {
		return s.progress[""] != nil
	}
	return !slices.ContainsFunc(s.identity.Namespaces, func(n string) bool { return s.progress[n] == nil })
}

// committed records how the commit of a delta ended. If it failed, the delta is part of the next commit.
func (s *Session) committed(d checkpoint.Delta, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.committing = false
	if err != nil {
		s.restore(d)
		return
	}
	s.next.unclean = d.Unclean
	for n, p := range s.progress {
		p.stored.version = d.ResourceVersions[n] != ""
	}
}

// restore adds an earlier delta of the key to the next commit.
func (s *Session) restore(d checkpoint.Delta) {
	s.next.dirty, s.next.reset, s.next.unclean = true, d.Reset, false
	newer := s.next.changed
	s.next.changed = make(map[checkpoint.Object]Change, len(d.Put)+len(d.Removed))
	for _, o := range d.Put {
		s.next.changed[idOf(o)] = Change{Object: o}
	}
	for _, o := range d.Removed {
		s.next.changed[idOf(o)] = Change{Object: o, Gone: true}
	}
	maps.Copy(s.next.changed, newer)
}

// runs reports whether the session is running. It may be called on nil.
func (s *Session) runs() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == running
}

// isDone reports whether the session has nothing to commit, and never will.
func (s *Session) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase >= ended && (!s.next.dirty || s.next.deferred) && s.isAcked()
}

// isAcked reports whether every delivered event is acked. s.mu is held.
func (s *Session) isAcked() bool {
	for _, p := range s.progress {
		if p.waiting.first != nil {
			return false
		}
	}
	return true
}

// savedIdentity returns the identity of what was acked last under a key, if anything was.
func savedIdentity(before *Session, saved *checkpoint.Checkpoint) (checkpoint.Identity, bool) {
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		if before.next.dirty && !before.next.deferred {
			return before.identity, true
		}
	}
	if saved != nil {
		return saved.Identity, true
	}
	return checkpoint.Identity{}, false
}

// close makes later acks ineffective, and returns what has not been committed. It may be called on nil.
func (s *Session) close() (d checkpoint.Delta, ok bool) {
	if s == nil {
		return d, false
	}
	s.mu.Lock()
	s.phase = closed
	s.mu.Unlock()
	return s.takeDelta()
}

// isUrgent reports whether an event waits for a commit.
func (s *Session) isUrgent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next.urgent
}
