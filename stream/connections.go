package stream

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Connections are watches that Streams share: of those that are ranged over with
// the same Connections and watch the same resource (in the same version), through
// the same client, in the same namespace, with the same selectors and the same
// MetadataOnly, the server sees one watch. It may be used by any number of Streams,
// at once and one after the other; it holds nothing for those that have ended.
//
// Each Stream keeps all that it promises: its own index, its own snapshot, its own
// Status, GAP and SYNCED, and objects of its own, which nobody else sees change.
// What is shared is what follows a snapshot. One that comes while others watch reads
// its snapshot in pages, whatever InitialList says, and then joins their watch
// exactly where the snapshot ends: what the watch has told meanwhile is kept for
// it, up to 1,000 events or 8 MiB of JSON. Of those that come at the same moment the first one begins, and the
// others wait up to five seconds for its snapshot to be told, so that they can join.
//
// One watch for all is the rule, and not a promise: where nobody can tell for sure
// that a watch has all that a Stream still has to hear of, that Stream has a watch
// of its own, which then is shared likewise. That is so
//
//   - for one that goes on after a version that the others are past,
//   - for one whose snapshot took longer than those events, or is older than
//     what the others had been told when it was asked for,
//   - where resourceVersions are no numbers,
//   - for one that finds the watch silent for longer than its IdleTimeout. Such a
//     watch is joined by nobody any more. IdleTimeout counts from the joining.
//
// A Stream that falls 256 events behind while others keep up, and does not catch up
// with half of that within 50 ms, is cut off, so that it delays nobody for longer:
// it goes on where it was, with a watch that it shares with nobody, until that ends.
// While a Stream is alone it is never cut off: up to 16 events are read ahead of it,
// and then the server waits.
//
// The end of a watch, and an error that ends it, are those of all who share it, but
// of those alone who are where it ended: others, who began at a later version, go on
// with another one. If a watch can't be opened, only the one who tried hears why. How long
// a watch lasts (Options.Timeout) is what the one wanted who opened it, whose
// context's values it also has; it lasts until the last one has left it.
//
// A server that goes back in time (GapRewound) in the very moment in which one joins
// may have that one told, after its snapshot, what is no longer true, as it
// has been told to the others. It notices when they do, and tells GAP.
//
// Nothing is shared by a Stream that ends AtFirstClose, which asks for a watch of its own,
// and by those on client-go's fake, or on a client whose type is not comparable.
type Connections struct {
	mu     sync.Mutex // before that of an upstream
	shared map[shareKey]*share
}

// NewConnections returns one that shares nothing yet.
func NewConnections() *Connections { return &Connections{shared: map[shareKey]*share{}} }

// shareKey is what those have in common who share.
type shareKey struct {
	client         dynamic.Interface
	resource       schema.GroupVersionResource
	namespace      string
	labels, fields string
	metadata       bool
}

// share is what there is under a key.
type share struct {
	seats     map[*seat]struct{} // of all who are ranging
	holders   int                // of them, how many hold
	leader    *seat              // that is about to ask for initial events
	led       chan struct{}      // closed when there is no leader any more
	upstreams []*upstream        // that are being opened, or open
}

// seat is what a lane has at Connections, for the time of a range. All methods may
// be called on nil: the lane shares nothing.
type seat struct {
	all  *Connections
	key  shareKey
	idle time.Duration
	// apart: it was too slow for the others, so that its next watch is its own.
	apart atomic.Bool

	// Under all.mu.
	holds bool
	// Where the upstreams were when it began to hold: a server that answers with
	// something older than that is not where they are.
	passed map[*upstream]string
}

// seat returns nil where nothing is to be shared.
func (c *Connections) seat(l *lane) *seat {
	if c == nil || l.fake || l.options.End == AtFirstClose || !reflect.ValueOf(l.dynamic).Comparable() {
		return nil
	}
	id := l.identity()
	s := &seat{all: c, idle: l.options.IdleTimeout, key: shareKey{
		client: l.dynamic, resource: l.resource.GroupVersionResource, namespace: l.namespace,
		labels: id.LabelSelector, fields: id.FieldSelector, metadata: l.options.MetadataOnly,
	}}
	c.mu.Lock()
	defer c.mu.Unlock()
	sh := c.shared[s.key]
	if sh == nil {
		sh = &share{seats: map[*seat]struct{}{}}
		c.shared[s.key] = sh
	}
	sh.seats[s] = struct{}{}
	return s
}

// leave is the end of the range. The lane has no watch any more.
func (s *seat) leave() {
	if s == nil {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.release()
	s.follow()
	sh := s.share()
	if delete(sh.seats, s); len(sh.seats) == 0 {
		delete(s.all.shared, s.key)
	}
}

// share is that of the seat: it lasts for as long as somebody has one there.
func (s *seat) share() *share { return s.all.shared[s.key] }

// leads says whether the lane may ask for initial events: if others do or have a
// watch that it could join, it should rather read pages, and join.
func (s *seat) leads() bool {
	if s == nil {
		return true
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	sh := s.share()
	if sh.leader != nil && sh.leader != s || slices.ContainsFunc(sh.upstreams, (*upstream).promises) {
		return false
	}
	if sh.leader == nil {
		sh.leader, sh.led = s, make(chan struct{})
	}
	return true
}

// follow undoes leads, under all.mu.
func (s *seat) follow() {
	if sh := s.share(); sh.leader == s {
		sh.leader = nil
		close(sh.led)
	}
}

// hold keeps what the upstreams tell from here on, until release: the lane is about
// to ask for a snapshot, or has lost a watch that others have lost as well.
func (s *seat) hold() {
	if s == nil {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.holdLocked()
}

func (s *seat) holdLocked() {
	sh := s.share()
	if !s.holds {
		s.holds = true
		sh.holders++
	}
	s.passed = map[*upstream]string{}
	for _, u := range sh.upstreams {
		s.passed[u] = u.hold(sh.holders)
	}
}

// release ends hold, under all.mu.
func (s *seat) release() {
	if !s.holds {
		return
	}
	sh := s.share()
	s.holds, s.passed = false, nil
	sh.holders--
	for _, u := range sh.upstreams {
		u.hold(sh.holders)
	}
}

// joinPatience is how long one waits for another's watch to be opened, and to have
// told its initial events.
const joinPatience = 5 * time.Second

// join returns a subscription to a watch that tells all that happens after rv, if
// there is one, or else an upstream that the caller has to open (start) or to give
// up (fail). Without both the lane has to open a watch that it does not share.
func (s *seat) join(ctx context.Context, rv string, initial bool) (*subscription, *upstream) {
	if s == nil || s.apart.Swap(false) {
		return nil, nil
	}
	var patience <-chan time.Time
	for over := false; ; {
		sub, mine, wait := s.try(rv, initial, over)
		if wait == nil {
			return sub, mine
		}
		if patience == nil {
			t := time.NewTimer(joinPatience)
			defer t.Stop()
			patience = t.C
		}
		select {
		case <-wait:
		case <-patience:
			over = true
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// try is join without waiting: it may also return what is worth to be waited for,
// unless there is no more time for that.
func (s *seat) try(rv string, initial, over bool) (sub *subscription, mine *upstream, wait <-chan struct{}) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	sh := s.share()
	if !initial {
		for _, u := range sh.upstreams {
			sub, soon := u.attach(s, rv)
			if sub != nil {
				s.release()
				s.follow()
				return sub, nil, nil
			}
			if soon {
				wait = u.ready
			}
		}
		if wait == nil && sh.leader != nil && sh.leader != s {
			wait = sh.led // it is about to have one
		}
	}
	if wait != nil && !over {
		return nil, nil, wait
	}
	s.follow()
	mine = newUpstream(s, rv, initial, sh.holders)
	sh.upstreams = append(sh.upstreams, mine)
	return nil, mine, nil
}

// remove forgets an upstream, under mu.
func (c *Connections) remove(u *upstream) {
	if sh := c.shared[u.key]; sh != nil {
		sh.upstreams = slices.DeleteFunc(sh.upstreams, func(x *upstream) bool { return x == u })
	}
}

// joining is s, or if that is to begin with initial events while there is a watch
// that the lane can join, a list, after which it can.
func (l *lane) joining(s state) state {
	c, ok := s.(connecting)
	if !ok || !c.initial || c.synced || l.seat.leads() {
		return s
	}
	m := c.memory
	m.initial = false
	return listing{memory: m}
}
