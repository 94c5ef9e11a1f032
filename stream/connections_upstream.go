package stream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/jsonsize"
)

const (
	// queued is how many events one who shares may be behind the others.
	queued = 256
	// aheadAlone is how many are read ahead of one who is alone.
	aheadAlone = 16
	// mercy is how long the others wait for one who is so far behind, to make good
	// half of that: some are only not as lucky with the scheduler.
	mercy = 50 * time.Millisecond
	// retained is how many events are kept for those who read a snapshot, and
	// retainedBytes how large they may be as JSON, more or less.
	retained, retainedBytes = 1000, 8 << 20
)

// upstream is a watch of the server that is shared. A goroutine reads it, and deals
// out what it reads; it never waits for one subscriber when there are others.
type upstream struct {
	all     *Connections
	key     shareKey
	rv      string        // that it was asked for
	initial bool          // it begins with initial events
	ready   chan struct{} // closed when it can be joined, or it is certain that it can't

	// Since start.
	watch    watch.Interface
	cancel   context.CancelCauseFunc
	opened   time.Time
	lifetime time.Duration
	over     chan struct{} // closed when the last one has left
	gone     chan struct{} // closed when the goroutine has ended
	room     chan struct{} // holds a token when it is worth to look for room again
	waits    atomic.Bool   // the goroutine wants to be told of room

	mu      sync.Mutex
	subs    []*subscription
	to      []*subscription // that an event is for; to be used by put alone
	cursor  string          // everything up to it has been dealt out; empty: not known
	barred  bool            // nobody can join
	left    bool            // everybody has, so over is closed
	settled bool            // ready is closed
	last    time.Time
	holders int
	since   string // kept is all that was told after it; empty: nothing is kept
	kept    []keptEvent
	size    int64 // of those
}

// keptEvent is one that those can still be told who join.
type keptEvent struct {
	watch.Event
	version string
	cursor  string // of the upstream, with it
	size    int64
}

func newUpstream(s *seat, rv string, initial bool, holders int) *upstream {
	return &upstream{all: s.all, key: s.key, rv: rv, initial: initial, ready: make(chan struct{}), holders: holders}
}

// context is for the request that opens the watch: it is not that of a lane, which
// may leave while others stay. Until detach is called, it ends with ctx; detach says
// why if it has. It may be called on nil: the watch is the lane's own.
func (u *upstream) context(ctx context.Context) (own context.Context, cancel context.CancelCauseFunc, detach func() error) {
	if u == nil {
		own, cancel = context.WithCancelCause(ctx)
		return own, cancel, func() error { return nil }
	}
	own, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return own, cancel, func() error {
		if stop() {
			return nil
		}
		return context.Cause(ctx)
	}
}

// fail gives the upstream up: it could not be opened. It may be called on nil.
func (u *upstream) fail() {
	if u == nil {
		return
	}
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	u.all.remove(u)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bar()
}

// start begins to deal out what w tells and returns the subscription of the one who
// has opened it.
func (u *upstream) start(s *seat, w watch.Interface, cancel context.CancelCauseFunc, lifetime time.Duration) *subscription {
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	s.release()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watch, u.cancel, u.lifetime = w, cancel, lifetime
	u.opened = time.Now()
	u.last = u.opened
	u.over, u.gone, u.room = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	sub := u.subscribe(s, "", nil)
	sub.opened = true
	if !u.initial {
		u.know(u.rv)
	}
	go u.run()
	return sub
}

// know: everything up to a version has been dealt out, and nobody who is not past
// that needs to know more to join.
func (u *upstream) know(rv string) {
	if !isNumber(rv) {
		u.bar()
		return
	}
	u.cursor, u.since = rv, rv
	u.settle()
}

// bar lets nobody join from here on.
func (u *upstream) bar() {
	u.barred, u.kept, u.size, u.since = true, nil, 0, ""
	u.settle()
}

func (u *upstream) settle() {
	if !u.settled {
		u.settled = true
		close(u.ready)
	}
}

// promises says whether it can be joined now, or perhaps soon.
func (u *upstream) promises() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.barred
}

// hold sets for how many what is told has to be kept. It returns where the upstream is.
func (u *upstream) hold(holders int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.holders == 0 || holders == 0 {
		u.kept, u.size, u.since = nil, 0, u.cursor
	}
	u.holders = holders
	return u.cursor
}

// attach subscribes one who has to be told all that happens after rv, if that is
// possible; else it says whether waiting may help.
func (u *upstream) attach(s *seat, rv string) (sub *subscription, wait bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.barred || !isNumber(rv):
		return nil, false
	case !u.settled:
		return nil, u.initial || notAfter(u.rv, rv)
	case time.Since(u.last) > s.idle:
		return nil, false // as it would think itself of a watch that is silent for so long
	case notAfter(u.cursor, rv):
		return u.subscribe(s, rv, nil), false
	case u.holders == 0 || !notAfter(u.since, rv) || before(rv, s.passed[u]):
		return nil, false
	}
	var backlog []watch.Event
	for _, k := range u.kept {
		if !notAfter(k.version, rv) {
			backlog = append(backlog, copyOf(k.Event))
		}
	}
	return u.subscribe(s, rv, backlog), false
}

func (u *upstream) subscribe(s *seat, rv string, backlog []watch.Event) *subscription {
	sub := &subscription{up: u, seat: s, start: rv, skips: rv != "", events: make(chan watch.Event, queued+len(backlog))}
	sub.pending.Store(int32(len(backlog)))
	for _, ev := range backlog {
		sub.events <- ev
	}
	u.subs = append(u.subs, sub)
	poke(u.room) // who was alone no longer is
	return sub
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run reads the watch until it ends, or the last one has left.
func (u *upstream) run() {
	defer close(u.gone)
	defer part(u.watch, u.cancel)
	for {
		select {
		case ev, ok := <-u.watch.ResultChan():
			switch {
			case !ok:
				u.end(nil)
				return
			case ev.Type == watch.Error:
				u.end(&ev) // whatever comes after it is not to be trusted
				return
			case !u.deal(ev):
				return
			}
		case <-u.over:
			return
		}
	}
}

// deal puts ev into all queues, once there is room.
func (u *upstream) deal(ev watch.Event) bool {
	var grace *time.Timer
	for over := false; !u.put(ev, over); {
		if grace == nil {
			grace = time.NewTimer(mercy)
			defer grace.Stop()
		}
		select {
		case <-u.room:
		case <-grace.C:
			over = true
		case <-u.over:
			return false
		}
	}
	return true
}

// put says whether there was room. Who has none, while there are others, is waited
// for until the time is over, and then cut off.
func (u *upstream) put(ev watch.Event, over bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.subs) > 1 && u.late(over) {
		return false
	}
	if len(u.subs) == 1 && u.crowded(u.subs[0]) {
		return false
	}
	version := u.advance(ev)
	u.keep(ev, version)
	u.to = u.to[:0]
	for _, s := range u.subs {
		s.skips = s.skips && notAfter(version, s.start)
		// A bookmark of that very version shows that the watch is alive. Older ones do
		// not: who stands where the server has gone back behind has to find the watch
		// silent, so that it looks what is the matter.
		if !s.skips || ev.Type == watch.Bookmark && version == s.start {
			u.to = append(u.to, s)
		}
	}
	give(u.to, ev) // there is room
	return true
}

// give puts ev into the queues of some, each with an object of its own: the last
// one's is that which came, since it may be changed as soon as it is there.
func give(to []*subscription, ev watch.Event) {
	for i, s := range to {
		own := ev
		if i < len(to)-1 {
			own = copyOf(ev)
		}
		s.pending.Add(1)
		s.events <- own
	}
}

// late says whether there is somebody to wait for.
func (u *upstream) late(over bool) bool {
	if !u.anyLate() {
		return false
	}
	if !over {
		u.waits.Store(true)
		return u.anyLate() // not without having asked to be told
	}
	for _, s := range slices.Clone(u.subs) {
		if s.late && len(u.subs) > 1 {
			s.seat.apart.Store(true)
			s.cutOff()
			u.drop(s)
		}
	}
	return false
}

func (u *upstream) anyLate() (late bool) {
	for _, s := range u.subs {
		pending := int(s.pending.Load())
		s.late = (s.late || pending >= cap(s.events)) && pending > s.low()
		late = late || s.late
	}
	return late
}

// crowded says whether the only one has enough to do. If so, it tells of room.
func (u *upstream) crowded(s *subscription) bool {
	if s.pending.Load() < aheadAlone {
		return false
	}
	u.waits.Store(true)
	return s.pending.Load() >= aheadAlone
}

// advance notes how far ev brings the upstream and returns its version.
func (u *upstream) advance(ev watch.Event) string {
	u.last = time.Now()
	o := unstructuredOf(ev.Object)
	if o == nil {
		u.bar()
		return ""
	}
	rv := o.GetResourceVersion()
	isBookmark := ev.Type == watch.Bookmark
	switch {
	case u.barred:
	case !u.settled && ev.Type == watch.Added:
		// Initial events come in no order: they say nothing of how far it is.
	case !u.settled && isBookmark && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
		u.know(rv)
	case !u.settled:
		u.bar() // these are no initial events
	case before(u.cursor, rv):
		u.cursor = rv
	case !isBookmark && !isNumber(rv):
		u.bar()
	}
	return rv
}

// keep keeps a copy of ev for those who may join, while there are some.
func (u *upstream) keep(ev watch.Event, version string) {
	if u.barred || u.holders == 0 || u.since == "" || ev.Type == watch.Bookmark {
		return
	}
	k := keptEvent{Event: copyOf(ev), version: version, cursor: u.cursor}
	if o := unstructuredOf(ev.Object); o != nil {
		k.size = jsonsize.Of(o.Object)
	}
	for len(u.kept) > 0 && (len(u.kept) >= retained || u.size+k.size > retainedBytes) {
		half := (len(u.kept) + 1) / 2
		u.since = u.kept[half-1].cursor
		for _, old := range u.kept[:half] {
			u.size -= old.size
		}
		u.kept = slices.Delete(u.kept, 0, half)
	}
	u.kept, u.size = append(u.kept, k), u.size+k.size
}

// end ends all subscriptions, with ev if it is not nil: it concerns those who are
// where the watch is. Of one who began at a later version it says nothing.
func (u *upstream) end(ev *watch.Event) {
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	u.all.remove(u)
	u.mu.Lock()
	subs, cursor := u.subs, u.cursor
	u.bar()
	var concerned []*subscription
	for _, s := range subs {
		if before(cursor, s.start) || ev != nil && len(s.events) == cap(s.events) {
			s.cutOff()
		} else {
			concerned = append(concerned, s)
		}
	}
	if ev != nil {
		give(concerned, *ev)
	}
	for _, s := range concerned {
		s.close()
	}
	u.mu.Unlock()
	for _, s := range subs {
		s.seat.holdLocked() // they will want to go on together
	}
}

// drop takes a subscription out, under mu.
func (u *upstream) drop(s *subscription) {
	u.subs = slices.DeleteFunc(u.subs, func(x *subscription) bool { return x == s })
}
