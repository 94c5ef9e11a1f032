package checkpoint

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ahead is what the Store is told of objects before they are told themselves.
type ahead struct {
	told    map[ID]Object // that the next commit writes
	written map[ID]Object // that the Store has, is about to have, or may have
	settled map[ID]bool   // that the next commit removes
	// by is the event that tells one as ADDED, so that the ack of an earlier one, at
	// the same version, settles nothing: unborn before it is told. It is nil for those
	// of an earlier run.
	by map[ID]*Mark
	// prior are those that have left and come again (as an object does that leaves a
	// selector), oldest first: that events have told that are not entered, or that an
	// earlier run was about to tell, and whose end is not entered.
	prior map[ID][]prior
	// earlier are those that an earlier run was about to tell.
	earlier map[ID]bool
}

type prior struct {
	Object
	by *Mark // nil if it is of an earlier run
}

func (p prior) isEntered() bool { return p.by != nil && p.by.entered }

var unborn = &Mark{}

func newAhead() ahead {
	return ahead{told: map[ID]Object{}, written: map[ID]Object{}, settled: map[ID]bool{}, by: map[ID]*Mark{}, prior: map[ID][]prior{}, earlier: map[ID]bool{}}
}

// inherit takes over what an earlier run has left.
func (a *ahead) inherit(o Object) {
	a.written[o.ID()] = o
	a.earlier[o.ID()] = true
}

// WritesAhead says whether Ahead does anything. With NoWriteAhead it does once: it
// tells the Store that there will be objects that it does not know of.
func (p *Progress) WritesAhead() bool {
	s := p.session
	if !s.tracker.options.NoWriteAhead {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.announced && s.held == 0
}

// IsAhead says whether the Store knows of an object, or is to be told of it.
func (p *Progress) IsAhead(o Object) bool {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	was, ok := p.session.ahead.get(o.ID())
	return ok && (was.ResourceVersion == o.ResourceVersion || before(o, was))
}

// Ahead makes sure that the Store knows of objects that are about to be told as
// ADDED, before they are. While commits fail it returns at once: the failure is
// shown by Status, and what is told is not held up by it. It returns an error only
// if ctx ends: then they must not be told. It may be called from any goroutine.
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
			o.Unacked = true
			s.ahead.add(o)
		}
	}
	wait := (len(s.ahead.told) > 0 || s.urgent) && s.held == 0
	s.dirty = s.dirty || wait
	s.mu.Unlock()
	if !wait {
		return nil
	}
	err := s.tracker.writeAhead(ctx, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = !s.urgent
	return err
}

func (a *ahead) add(o Object) {
	id := o.ID()
	was, ok := a.get(id)
	if by := a.by[id]; ok && before(o, was) && (by == nil || by == unborn) {
		return // the watch goes on before what was about to be told
	}
	if p := (prior{was, a.by[id]}); ok && p.by != unborn && !p.isEntered() {
		a.prior[id] = append(slices.DeleteFunc(a.prior[id], prior.isEntered), p)
	}
	a.by[id] = unborn
	if !ok || was.ResourceVersion != o.ResourceVersion {
		a.told[id] = o
	}
	if a.settled[id] { // the Store has it still, or again
		delete(a.settled, id)
		a.written[id] = o
	}
}

func (a *ahead) get(id ID) (Object, bool) {
	o, ok := a.told[id]
	if !ok {
		o, ok = a.written[id]
	}
	return o, ok
}

// tell: an object is told by m.
func (a *ahead) tell(o Object, m *Mark) {
	id := o.ID()
	if was, _ := a.get(id); a.by[id] == unborn && was.ResourceVersion == o.ResourceVersion {
		a.by[id] = m
	}
}

// settle: an object has been told by m, and acked, or its end has. Of an earlier
// run's that settles nothing that is newer.
func (a *ahead) settle(o Object, m *Mark) {
	id := o.ID()
	was, ok := a.get(id)
	by := a.by[id]
	if !ok || by != nil && by != m || by == nil && was.ResourceVersion != o.ResourceVersion && !before(was, o) {
		return
	}
	a.forget(id)
}

// end: the end of an object that an earlier run was about to tell has been told,
// and acked, or the object itself has.
func (a *ahead) end(o Object, m *Mark) {
	if of := a.prior[o.ID()]; of != nil {
		a.prior[o.ID()] = slices.DeleteFunc(of, func(p prior) bool { return p.by == nil })
	}
	by := a.by[o.ID()]
	if was, _ := a.get(o.ID()); by == unborn && before(o, was) {
		return // it has come back, and is about to be told
	}
	if by == nil || by == unborn || by == m {
		a.forget(o.ID())
	}
}

// ended: the end of an object has been told by m, and acked. That settles it where m
// stands for the event that told of the object as well (Mark.Cover).
func (a *ahead) ended(o Object, m *Mark) {
	if a.by[o.ID()] == m {
		a.forget(o.ID())
	}
}

// unsaid: a snapshot has been told, and what it did not have is not going to be
// told any more.
func (a *ahead) unsaid(namespace string) {
	for id, by := range a.by {
		if by == unborn && !a.earlier[id] && (namespace == "" || id.Namespace == namespace) {
			a.forget(id)
		}
	}
}

func (a *ahead) forget(id ID) {
	delete(a.told, id)
	delete(a.by, id)
	delete(a.prior, id)
	delete(a.earlier, id)
	if _, ok := a.written[id]; ok {
		delete(a.written, id)
		a.settled[id] = true
	}
}

// before says that a is known to be an older version than b.
func before(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
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
	return len(s.ahead.told) > 0 || s.urgent
}

// writeAhead commits what is told ahead, with all else there is. Who comes while
// another one does finds it done. It returns the cause if ctx ends.
func (t *Tracker) writeAhead(ctx context.Context, s *Session) error {
	if _, err := t.state(); err != nil {
		return context.Cause(ctx)
	}
	patient, cancel := context.WithTimeoutCause(ctx, t.options.Timeout, errHangs)
	defer cancel()
	switch err := t.take(patient); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		t.record(attempt{info: CommitInfo{Err: errHangs}})
		return nil
	}
	if _, err := t.state(); err != nil || !s.waits() {
		t.release()
		return context.Cause(ctx)
	}
	_ = t.commit(ctx) // a failure is shown by Status, and tried again
	return context.Cause(ctx)
}
