package informer

import (
	"cmp"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// handler returns a handler of packed objects that calls h with what they were.
func (p *packer) handler(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	wrapped := &compactHandler{ResourceEventHandler: h, recent: &p.recent}
	switch f := h.(type) {
	case cache.ResourceEventHandlerFuncs:
		wrapped.ignores = ignored{f.AddFunc == nil, f.UpdateFunc == nil, f.DeleteFunc == nil}
	case cache.ResourceEventHandlerDetailedFuncs:
		wrapped.ignores = ignored{f.AddFunc == nil, f.UpdateFunc == nil, f.DeleteFunc == nil}
	}
	return wrapped
}

// compactHandler calls a handler with unpacked objects.
type compactHandler struct {
	cache.ResourceEventHandler
	recent  *recent
	ignores ignored
}

// ignored says for which events a handler has no function, so that nothing is unpacked for those.
type ignored struct{ added, updated, deleted bool }

func (h *compactHandler) OnAdd(obj any, isInInitialList bool) {
	if h.ignores.added {
		return
	}
	if o, ok := h.recent.get(obj, newer); ok {
		h.ResourceEventHandler.OnAdd(o, isInInitialList)
	}
}

func (h *compactHandler) OnUpdate(old, obj any) {
	if h.ignores.updated {
		return
	}
	o, ok := h.recent.get(obj, newer)
	before := o
	// The same packed object is a resync. Objects that are not packed need not be comparable.
	if p, isPacked := old.(*packed); ok && (!isPacked || any(p) != obj) {
		if known, ok := h.recent.get(old, older); ok {
			before = known
		}
	}
	if ok {
		h.ResourceEventHandler.OnUpdate(before, o)
	}
}

func (h *compactHandler) OnDelete(obj any) {
	if h.ignores.deleted {
		return
	}
	if t, isTombstone := obj.(cache.DeletedFinalStateUnknown); isTombstone {
		t.Obj, _ = h.recent.get(t.Obj, older)
		obj = t
	} else if o, ok := h.recent.get(obj, newer); ok {
		obj = o
	} else {
		obj = cache.DeletedFinalStateUnknown{Key: obj.(*packed).key()}
	}
	h.ResourceEventHandler.OnDelete(obj)
}

const (
	// maxRecent is how many objects of a generation are kept for the handlers that have not received them yet. A
	// handler that is further behind unpacks them again.
	maxRecent = 64
	// maxRecentBytes is how many bytes of text begin another generation. Objects take several times their text.
	maxRecentBytes = 1 << 20
	// recentFor is how long a generation lasts. An object is kept for one or two of them.
	recentFor = time.Second
)

// recent keeps what was packed or unpacked last, so that all handlers receive the same object, and it is unpacked once.
type recent struct {
	mu         sync.Mutex
	young, old map[use]*shared
	bytes      int         // of the texts of the objects in young
	timer      *time.Timer // not nil while there is anything
}

// use is an object and what it is used as. What a handler received as new may have been changed by it since, so that
// what the next update shows as old is another object.
type use struct {
	packed *packed
	role   role
}

type role bool

const newer, older role = false, true

// shared is an object that one of its users unpacks, or nil if that failed.
type shared struct {
	once   sync.Once
	object any
}

// get returns a copy of obj if it is not packed, else the object that all who ask with this role receive. It reports an
// object that cannot be unpacked, and returns false.
func (r *recent) get(obj any, as role) (any, bool) {
	p, isPacked := obj.(*packed)
	if !isPacked {
		return copied(obj), true
	}
	s := r.find(use{p, as})
	s.once.Do(func() {
		var err error
		if s.object, err = unpack(p); err != nil {
			utilruntime.HandleError(err)
		}
	})
	return s.object, s.object != nil
}

// put keeps the object that p was packed from.
func (r *recent) put(p *packed, obj any) {
	s := r.find(use{p, newer})
	s.once.Do(func() { s.object = obj })
}

func (r *recent) find(u use) *shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := cmp.Or(r.young[u], r.old[u]); s != nil {
		return s
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(recentFor, r.expire)
	}
	switch {
	case r.young == nil:
		r.young = make(map[use]*shared, maxRecent)
	case len(r.young) == maxRecent, r.bytes >= maxRecentBytes:
		r.young, r.old, r.bytes = make(map[use]*shared, maxRecent), r.young, 0
	}
	s := &shared{}
	r.young[u] = s
	r.bytes += u.packed.record.TextSize()
	return s
}

// expire begins another generation, and forgets the one before the last.
func (r *recent) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil {
		r.old, r.timer = nil, nil
		return
	}
	r.young, r.old, r.bytes = nil, r.young, 0
	r.timer.Reset(recentFor)
}
