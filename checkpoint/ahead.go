package checkpoint

import (
	"context"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ahead is what the Store is told of objects before they are told themselves.
type ahead struct {
	told    map[ID]Object // that the next commit writes
	written map[ID]Object // that the Store has, is about to have, or may have
	settled map[ID]bool   // that the next commit removes
}

func newAhead() ahead {
	return ahead{told: map[ID]Object{}, written: map[ID]Object{}, settled: map[ID]bool{}}
}

// Ahead makes sure that the Store knows of objects that are about to be told as
// ADDED, before they are. While commits fail it returns at once: the failure is
// shown by Status, and what is told is not held up by it. It may be called from
// any goroutine.
func (p *Progress) Ahead(ctx context.Context, objects []Object) {
	s := p.session
	if len(objects) == 0 || s.tracker.options.NoWriteAhead || s.tracker.final.Load() {
		return
	}
	s.mu.Lock()
	for _, o := range objects {
		o.Unacked = true
		s.ahead.add(o)
	}
	wait := len(s.ahead.told) > 0 && s.held == 0
	s.dirty = s.dirty || wait
	s.mu.Unlock()
	if wait {
		s.tracker.writeAhead(ctx, s)
	}
}

func (a *ahead) add(o Object) {
	id := o.ID()
	if _, ok := a.written[id]; !ok {
		a.told[id] = o
		delete(a.settled, id)
	}
}

// known: an object has been told and acked. In a version before the one that was
// about to be told once, as where a watch goes on before that, it settles nothing.
func (a *ahead) known(o Object) {
	for _, unacked := range []map[ID]Object{a.told, a.written} {
		if u, ok := unacked[o.ID()]; ok {
			if c, err := resourceversion.CompareResourceVersion(o.ResourceVersion, u.ResourceVersion); err == nil && c < 0 {
				return
			}
		}
	}
	a.settle(o.ID())
}

// settle: nobody need be told of the object's end for its having been told ahead.
func (a *ahead) settle(id ID) {
	delete(a.told, id)
	if _, ok := a.written[id]; ok {
		delete(a.written, id)
		a.settled[id] = true
	}
}

// take makes it part of a commit.
func (a *ahead) take(d *Delta) {
	for id, o := range a.told {
		d.Told = append(d.Told, o)
		a.written[id] = o
	}
	for id := range a.settled {
		d.Settled = append(d.Settled, id)
	}
	clear(a.told)
	clear(a.settled)
}

// giveBack undoes take. What has been settled meanwhile stays so.
func (a *ahead) giveBack(d Delta) {
	for _, o := range d.Told {
		if id := o.ID(); !a.settled[id] {
			a.told[id] = o // it may have been written all the same
		}
	}
	for _, id := range d.Settled {
		if _, ok := a.told[id]; !ok {
			a.settled[id] = true
		}
	}
}

// waits says whether something is not written yet.
func (s *Session) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ahead.told) > 0
}

// writeAhead commits what is told ahead, with all else there is. Who comes while
// another one does finds it done.
func (t *Tracker) writeAhead(ctx context.Context, s *Session) {
	if _, err := t.state(); err != nil {
		return
	}
	if t.take(ctx) != nil {
		return
	}
	defer t.release()
	if _, err := t.state(); err == nil && s.waits() {
		// Not with ctx: that the stream is stopped is no failure of the Store.
		_ = t.commit(context.WithoutCancel(ctx)) // shown by Status, and tried again
	}
}
