package checkpoint

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Session is one sequence, from its beginning to its end, under a key. It is made
// by Tracker.Begin, for who delivers the events (package stream does).
type Session struct {
	tracker  *Tracker
	key      string
	identity Identity
	position *Position // that it goes on from, until it has been asked for

	mu       sync.Mutex
	from     point                // that every namespace begins at, but for the version
	versions map[string]string    // that it began with, as in Position
	progress map[string]*Progress // by namespace
	lines    map[ID]line          // of the objects that have marks that are not entered
	commitState
}

// commitState is what a Session has for the next commit.
type commitState struct {
	changed   map[ID]Change
	entered   int  // events, since the last commit
	dirty     bool // something moved since the last commit
	taken     bool // ... and that commit is under way
	reset     bool // what is in the store is not to be kept
	urgent    bool // the next event waits for the commit
	announced bool // with NoWriteAhead: the Store knows that it does not know of every object
	held      bool // nothing is kept before an event has been acked
	ended     bool // nothing more is delivered
	over      bool // ... nor heard
}

// line is the marks of one object that are not entered, in the order of delivery.
type line struct {
	marks []*Mark
	ahead bool // an ADDED is about to follow (Progress.Ahead)
}

func newSession(t *Tracker, key string, id Identity, saved *Checkpoint) *Session {
	s := &Session{tracker: t, key: key, identity: id, progress: map[string]*Progress{}, lines: map[ID]line{}}
	if saved != nil {
		from := saved.Position
		s.position = &from
		s.from = point{partial: from.Partial, rewound: from.Rewound, unclean: from.Unclean}
		s.versions = maps.Clone(from.ResourceVersions)
	}
	return s
}

// Position is where the sequence has to go on, and nil if it begins. It is
// returned once, since it can be large, and nil after that.
func (s *Session) Position() *Position {
	p := s.position
	s.position = nil
	return p
}

// Progress returns that of a namespace that is watched, or of the cluster ("").
func (s *Session) Progress(namespace string) *Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.progress[namespace]
	if p == nil {
		p = &Progress{session: s, low: s.from, snapshots: 1}
		rv, moved := (&Position{ResourceVersions: s.versions}).At(namespace)
		if p.low.version = rv; rv == "" && !moved {
			p.low.snapshot = 1
		}
		p.delivered = p.low
		s.progress[namespace] = p
	}
	return p
}

// End says that no more events are delivered. Those that were can still be acked,
// until the next Session under the key begins. It may be called on nil.
func (s *Session) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.ended = true
	if s.tracker.options.NoWriteAhead && (s.announced || s.taken) && s.isAcked() {
		s.dirty = true // so that the Store learns that it knows of every object
	}
	s.mu.Unlock()
	s.tracker.commitSoon()
}

// list adds m to the line of the object that c is about.
func (s *Session) list(c Change, m *Mark) {
	l := s.lines[c.ID()]
	l.marks = append(l.marks, m)
	l.ahead = l.ahead && c.Gone
	s.lines[c.ID()] = l
}

// unlist takes m out of a line.
func (s *Session) unlist(id ID, m *Mark) {
	l := s.lines[id]
	l.marks = slices.DeleteFunc(l.marks, func(other *Mark) bool { return other == m })
	if len(l.marks) == 0 && !l.ahead {
		delete(s.lines, id)
	} else {
		s.lines[id] = l
	}
}

// relist puts another mark in the place of m.
func (s *Session) relist(id ID, m, other *Mark) {
	marks := s.lines[id].marks
	for i := range marks {
		if marks[i] == m {
			marks[i] = other
		}
	}
}

// eldest is the first mark in the line of an object, nil if there is none.
func (s *Session) eldest(id ID) *Mark {
	if marks := s.lines[id].marks; len(marks) > 0 {
		return marks[0]
	}
	return nil
}

// enter makes a change of m part of the next commit. The entry of an object that is
// gone stays, without a version, if a later event may have delivered it again.
func (s *Session) enter(c Change, m *Mark) {
	s.unlist(c.ID(), m)
	if _, again := s.lines[c.ID()]; again && c.Gone {
		c = Change{Object: c.Object}
		c.ResourceVersion = ""
	}
	s.change(c)
}

// forgo removes the entry of an object that is not delivered after all, unless
// another event may have delivered it.
func (s *Session) forgo(id ID) {
	if _, ok := s.lines[id]; !ok {
		s.change(Change{Object: id.object(), Gone: true})
	}
}

func (s *Session) change(c Change) {
	if s.tracker.final.Load() {
		return // it would be kept for nobody
	}
	s.dirty = true
	if s.tracker.positionsOnly {
		return
	}
	if s.changed == nil {
		s.changed = map[ID]Change{}
	}
	s.changed[c.ID()] = c
}

// take returns what is to be committed, if anything is, and of how many events,
// and forgets it.
func (s *Session) take() (d Delta, events int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty || s.held {
		return d, 0, false
	}
	d = Delta{Key: s.key, Identity: s.identity, Reset: s.reset, ResourceVersions: map[string]string{}}
	s.progressed(&d)
	for id, c := range s.changed {
		if c.Gone {
			d.Gone = append(d.Gone, id)
		} else {
			d.Put = append(d.Put, c.Object)
		}
	}
	d.Partial = d.Partial || s.tracker.positionsOnly
	announce := s.tracker.options.NoWriteAhead && !(s.ended && s.isAcked())
	s.announced = s.announced && announce
	d.Unclean = d.Unclean || announce
	events, s.entered = s.entered, 0
	s.dirty, s.urgent, s.reset, s.changed, s.taken = false, false, false, nil, true
	return d, events, true
}

// progressed fills in how far everything has come. What is not watched now stays where
// it was.
func (s *Session) progressed(d *Delta) {
	rest, begun := s.from, false
	if s.isWhole() {
		rest = point{}
	}
	if all := s.progress[""]; all == nil || !all.begun {
		maps.Copy(d.ResourceVersions, s.versions)
	}
	points := []point{}
	for n, p := range s.progress {
		if points = append(points, p.low); p.begun {
			begun, d.ResourceVersions[n] = true, p.low.version
		}
	}
	rest.rewound = rest.rewound && !begun // else others have passed that
	for _, p := range append(points, rest) {
		d.Partial = d.Partial || p.partial
		d.Rewound = d.Rewound || p.rewound
		d.Unclean = d.Unclean || p.unclean
	}
}

// isWhole says whether there is progress of all that the identity stands for.
func (s *Session) isWhole() bool {
	if len(s.identity.Namespaces) == 0 {
		return s.progress[""] != nil
	}
	return !slices.ContainsFunc(s.identity.Namespaces, func(n string) bool { return s.progress[n] == nil })
}

// committed says what came of a commit of what was taken. If it failed, the take is
// undone.
func (s *Session) committed(d Delta, events int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	if err != nil {
		s.giveBack(d, events)
		return
	}
	s.announced = d.Unclean && s.tracker.options.NoWriteAhead
}

// giveBack adds what an earlier take of the key holds to what is to be committed.
func (s *Session) giveBack(d Delta, events int) {
	s.entered += events
	s.dirty, s.reset, s.announced = true, s.reset || d.Reset, false
	newer := s.changed
	s.changed = make(map[ID]Change, len(d.Put)+len(d.Gone))
	for _, o := range d.Put {
		s.changed[o.ID()] = Change{Object: o}
	}
	for _, id := range d.Gone {
		s.changed[id] = Change{Object: id.object(), Gone: true}
	}
	maps.Copy(s.changed, newer)
}

func (s *Session) runs() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// isDone says that nothing can come of it any more.
func (s *Session) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && (!s.dirty || s.held) && s.isAcked()
}

// isAcked says whether everything that was delivered is. s.mu is held.
func (s *Session) isAcked() bool {
	for _, p := range s.progress {
		if p.first != nil {
			return false
		}
	}
	return true
}

// identityOf is that of what was acked last under a key, if anything was.
func identityOf(before *Session, saved *Checkpoint) (Identity, bool) {
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		if before.dirty && !before.held {
			return before.identity, true
		}
	}
	if saved != nil {
		return saved.Identity, true
	}
	return Identity{}, false
}

// close ends the session for good and returns what has not been committed.
func (s *Session) close() (d Delta, events int, ok bool) {
	if s == nil {
		return d, 0, false
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	return s.take()
}

// WritesAhead says whether Ahead does anything. With NoWriteAhead it does once: the
// Store learns that there will be objects that it does not know of.
func (p *Progress) WritesAhead() bool {
	s := p.session
	if !s.tracker.options.NoWriteAhead {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.announced && !s.held
}

// IsAhead says whether the Store has, or is about to have, an entry of an object that
// is about to be delivered.
func (p *Progress) IsAhead(id ID) bool {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	_, ok := p.session.lines[id]
	return ok
}

// Ahead makes sure that the Store has an entry of objects before they are delivered
// as ADDED. While commits fail it returns at once: Status shows the failure, and
// delivery goes on. It returns an error only if ctx ends: then the objects must not
// be delivered. It may be called from any goroutine.
func (p *Progress) Ahead(ctx context.Context, objects []Object) error {
	s := p.session
	if len(objects) == 0 || !p.WritesAhead() || s.tracker.final.Load() {
		return nil
	}
	s.mu.Lock()
	if s.tracker.options.NoWriteAhead {
		s.urgent = true
	} else {
		for _, o := range objects {
			l, ok := s.lines[o.ID()]
			l.ahead = true
			s.lines[o.ID()] = l
			if !ok { // else the entry of an earlier event stays until all are entered
				o.ResourceVersion = ""
				s.change(Change{Object: o})
				s.urgent = true
			}
		}
	}
	wait := s.urgent && !s.held
	s.dirty = s.dirty || wait
	s.mu.Unlock()
	if !wait {
		return nil
	}
	return s.tracker.writeAhead(ctx, s)
}

// waits says whether an event waits for a commit.
func (s *Session) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urgent
}
