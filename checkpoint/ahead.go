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

// WritesAhead says whether Ahead does anything.
func (p *Progress) WritesAhead() bool { return !p.session.tracker.options.NoWriteAhead }

// IsAhead says whether the Store knows of an object, or is to be told of it.
func (p *Progress) IsAhead(o Object) bool {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	was, ok := p.session.ahead.get(o.ID())
	return ok && was.ResourceVersion == o.ResourceVersion
}

// Ahead makes sure that the Store knows of objects that are about to be told as
// ADDED, before they are. While commits fail it returns at once: the failure is
// shown by Status, and what is told is not held up by it. It may be called from
// any goroutine.
func (p *Progress) Ahead(ctx context.Context, objects []Object) {
	s := p.session
	if len(objects) == 0 || !p.WritesAhead() || s.tracker.final.Load() {
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
	if was, ok := a.get(o.ID()); !ok || was.ResourceVersion != o.ResourceVersion {
		a.told[o.ID()] = o
		delete(a.settled, o.ID())
	}
}

func (a *ahead) get(id ID) (Object, bool) {
	o, ok := a.told[id]
	if !ok {
		o, ok = a.written[id]
	}
	return o, ok
}

// settle: an object has been told, and acked, in a version, or its end has. That
// settles nothing of a later version: one that was about to be told before a kill,
// or that was told since.
func (a *ahead) settle(o Object) {
	id := o.ID()
	was, ok := a.get(id)
	if !ok {
		return
	}
	order, err := resourceversion.CompareResourceVersion(o.ResourceVersion, was.ResourceVersion)
	if o.ResourceVersion != was.ResourceVersion && (err != nil || order < 0) {
		return
	}
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
		id := o.ID()
		if _, newer := a.told[id]; !newer && !a.settled[id] {
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
