package checkpoint

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Mark belongs to an event, and says by Ack that the event has been handled. All
// its methods may be called on nil, and from any goroutine.
type Mark struct {
	progress *Progress
	point    point    // that the low-water mark comes to with it
	changes  []Change // usually one, which is then in one
	one      [1]Change
	told     time.Time
	unsure   bool // MayBeKnown

	acked, entered bool
	compacted      int     // how many changes were left when they were compacted last
	next, prev     *Mark   // told after it and before it; nil once it is behind the low-water mark
	awaits         int     // marks of the same objects that are not entered, within a snapshot
	awaited        []*Mark // by these
	holds          *Mark   // acked with it, and so on; nil for none (CoverNew)
}

// Change is what an event makes of what is known.
type Change struct {
	Object
	// Gone: it is no more; of the Object only the ID counts. If it is Unacked, an
	// object of that name that is not is still what it was.
	Gone bool
}

// point is where the low-water mark can be.
type point struct {
	version  string // empty within a snapshot
	partial  bool
	rewound  bool
	unclean  bool
	snapshot int // that it is within; zero for none
	// Of a sequence that moves between scopes:
	base  string // everything is known up to here of what had no version of its own
	fresh bool   // what was known by namespaces no longer counts
}

// Ack says that the event has been handled. More than once is once; after the
// next run under the same key has begun it means nothing.
func (m *Mark) Ack() {
	if m == nil {
		return
	}
	p := m.progress
	s := p.session
	s.mu.Lock()
	entered, due := 0, false
	if !m.acked && !s.over {
		for _, h := range m.release() {
			h.acked = true
			n, moved := p.advance(h)
			entered, due = entered+n, due || moved
		}
		m.acked = true
		n, moved := p.advance(m)
		entered, due = entered+n, due || moved
	}
	s.mu.Unlock()
	if due {
		s.tracker.due(entered)
	}
}

// pending says which of its objects has a mark that is not entered.
type pending map[types.NamespacedName]*Mark
