package checkpoint

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Session is one sequence, from its beginning to its end, under a key. It is made
// by Tracker.Begin, for who tells the events (package stream does).
type Session struct {
	tracker  *Tracker
	key      string
	identity Identity
	position *Position // that it goes on from, until it has been asked for

	mu       sync.Mutex
	progress map[string]*Progress // by namespace
	changed  map[types.NamespacedName]Change
	ahead    ahead
	entered  int  // events, since the last commit
	dirty    bool // something moved since the last commit
	taken    bool // ... and that commit is under way
	reset    bool // what is in the store is not to be kept
	held     int  // of progress

	urgent    bool     // the Store is to be told at once
	announced bool     // ... that there are objects that it does not know of
	elsewhere Versions // that it began with, if it moves between scopes
	unclean   bool     // the Store says so
	ended     bool     // nothing more is told
	over      bool     // ... nor heard
}

func newSession(t *Tracker, key string, id Identity, saved *Checkpoint) *Session {
	s := &Session{tracker: t, key: key, identity: id, progress: map[string]*Progress{}, ahead: newAhead()}
	var from Position
	if saved != nil {
		from = saved.Position
		s.position = &from
		for _, o := range from.Objects {
			if o.Unacked {
				s.ahead.inherit(o)
			}
		}
	}
	if id.Moves {
		s.elsewhere = maps.Clone(Versions(from.ResourceVersions))
	}
	for _, n := range id.watched() {
		p := &Progress{session: s, namespace: n, low: point{version: s.beginsAt(n, from), partial: from.Partial, rewound: from.Rewound, unclean: from.Unclean}}
		if p.low.version == "" {
			p.snapshots, p.low.snapshot, p.objects = 1, 1, pending{}
		}
		p.told = p.low
		s.progress[n] = p
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

// beginsAt is the version that a namespace goes on at, or the cluster.
func (s *Session) beginsAt(namespace string, from Position) string {
	switch {
	case !s.identity.Moves:
		return from.ResourceVersions[namespace]
	case namespace != "":
		return s.elsewhere.Of(namespace)
	}
	if rv, listed, ok := s.elsewhere.Lowest(); ok && !listed {
		return rv
	}
	return ""
}

// Progress returns that of one of the namespaces that are watched, or where there
// are none of the cluster ("").
func (s *Session) Progress(namespace string) *Progress { return s.progress[namespace] }

// End says that no more events are told. Those that were can still be acked,
// until the next Session under the key begins. It may be called on nil.
func (s *Session) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.ended = true
	if s.unclean && s.isAcked() {
		s.dirty = true // so that the store is told
	}
	s.mu.Unlock()
	s.tracker.kick()
}

// enter makes a change part of the next commit.
func (s *Session) enter(c Change, m *Mark) {
	if s.tracker.final.Load() {
		return // it would be kept for nobody
	}
	s.dirty = true
	switch {
	case !c.Gone:
		s.ahead.settle(c.Object, m)
	case c.Unacked:
		s.ahead.end(c.Object, m)
		return
	default:
		s.ahead.ended(c.Object, m)
	}
	if s.changed == nil {
		s.changed = map[types.NamespacedName]Change{}
	}
	s.changed[c.NamespacedName()] = c
}

// take returns what is to be committed, if anything is, and of how many events,
// and forgets it.
func (s *Session) take() (d Delta, events int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty || s.held > 0 {
		return d, 0, false
	}
	s.urgent = false
	d = Delta{Key: s.key, Identity: s.identity, ResourceVersions: map[string]string{}, Reset: s.reset}
	s.versions(d.ResourceVersions)
	for _, p := range s.progress {
		d.Partial = d.Partial || p.low.partial
		d.Rewound = d.Rewound || p.low.rewound
		d.Unclean = d.Unclean || p.low.unclean
	}
	for name, c := range s.changed {
		if c.Gone {
			d.Gone = append(d.Gone, name)
		} else {
			d.Put = append(d.Put, c.Object)
		}
	}
	s.ahead.take(&d)
	s.unclean = s.tracker.options.NoWriteAhead && !(s.ended && s.isAcked())
	d.Unclean = d.Unclean || s.unclean
	events, s.entered = s.entered, 0
	s.dirty, s.reset, s.changed, s.taken = false, false, nil, true
	return d, events, true
}

// versions fills in how far everything has come.
func (s *Session) versions(all Versions) {
	for n, p := range s.progress {
		if p.low.version != "" {
			all[n] = p.low.version
		}
	}
	if len(s.elsewhere) == 0 {
		return
	}
	cluster := s.progress[""]
	switch {
	case cluster == nil: // what it does not watch is where it was
		for n, rv := range s.elsewhere {
			if s.progress[n] == nil {
				all[n] = rv
			}
		}
		for n, p := range s.progress {
			if p.low.version == "" && s.elsewhere[""] != "" {
				all[n] = "" // and not what the others go by
			}
		}
	case cluster.low.fresh: // it has begun anew, everywhere
	case cluster.low.version == "":
		maps.Copy(all, s.elsewhere)
	default:
		maps.Copy(all, Versions(s.elsewhere).with(cluster.low.base).Past(cluster.low.version))
	}
}

// keep says that what was taken has been committed.
func (s *Session) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
}

// giveBack undoes a take that could not be committed.
func (s *Session) giveBack(d Delta, events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entered += events
	s.dirty, s.reset, s.taken = true, s.reset || d.Reset, false
	newer := s.changed
	s.changed = make(map[types.NamespacedName]Change, len(d.Put)+len(d.Gone))
	for _, o := range d.Put {
		s.changed[o.NamespacedName()] = Change{Object: o}
	}
	for _, name := range d.Gone {
		s.changed[name] = Change{Object: Object{Namespace: name.Namespace, Name: name.Name}, Gone: true}
	}
	for name, c := range newer {
		s.changed[name] = c
	}
	s.ahead.giveBack(d)
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
	return s.ended && (!s.dirty || s.held > 0) && s.isAcked()
}

// isAcked says whether everything that was told is. s.mu is held.
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
		if before.dirty && before.held == 0 {
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
