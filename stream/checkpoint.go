package stream

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// checkpoint begins a session with the Tracker, if there is one, and returns where
// the range begins.
func (s *Stream) checkpoint(ctx context.Context, lanes []*lane, from Start) (*checkpoint.Session, Start, error) {
	if s.options.Checkpoint == nil {
		return nil, from, nil
	}
	session, err := s.options.Checkpoint.Begin(ctx, s.options.CheckpointKey, s.identity())
	if err != nil {
		return nil, from, err
	}
	for _, l := range lanes {
		l.keep(session.Progress(l.namespace))
	}
	if p := session.Position(); p != nil {
		from = From(*p)
		// Where the end is SYNCED, what is wanted is how things are now; and client-go's
		// fakes remember nothing of what was deleted.
		from.snapshot = s.options.End == WhenSynced || s.fake
		if err := s.options.checkPosition(*p); err != nil {
			session.End()
			return nil, from, fmt.Errorf("stream: the checkpoint %q: %w", s.options.CheckpointKey, err)
		}
	} else if from.kind != startSnapshot {
		for _, l := range lanes {
			l.progress.Hold()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
	return session, from, nil
}

func (s *Stream) identity() checkpoint.Identity {
	id := checkpoint.Identity{
		Group: s.resource.Group, Resource: s.resource.Resource, StorageVersionHash: s.resource.StorageVersionHash,
		LabelSelector: s.options.LabelSelector, FieldSelector: s.options.FieldSelector,
		Objects: s.options.Index != IndexNone,
	}
	if selector, err := labels.Parse(id.LabelSelector); err == nil {
		id.LabelSelector = selector.String() // sorted
	}
	if s.options.Namespaces[0] != "" {
		id.Namespaces = s.options.Namespaces
	}
	return id
}

// keep makes a progress follow what the lane tells.
func (l *lane) keep(p *checkpoint.Progress) {
	l.progress = p
	if l.index != nil {
		l.index.noted = p.Note
	}
}

// mark is that of the next event.
func (l *lane) mark() *checkpoint.Mark {
	if l.progress == nil {
		return nil
	}
	return l.progress.Mark(l.report.point())
}

// pass keeps what no event tells.
func (l *lane) pass() {
	if l.progress != nil {
		l.progress.Pass(l.report.point())
	}
}

// aheadOf makes sure that the checkpoint knows of the objects of a snapshot that
// will be told as ADDED.
func (l *lane) aheadOf(ctx context.Context, items []object, how snapshot) {
	if l.progress == nil || l.index == nil {
		return
	}
	var fresh []checkpoint.Object
	for _, o := range items {
		if !l.isUnsaid(o, how) && l.isFresh(o) {
			fresh = append(fresh, o.known().object())
		}
	}
	l.progress.Ahead(ctx, fresh)
}

// aheadOfFrame does so for an event of the watch.
func (l *lane) aheadOfFrame(ctx context.Context, t told, old bool) {
	if l.progress == nil || l.index == nil || t.kind == Deleted || old && !l.index.has(t.name()) {
		return
	}
	if l.isFresh(t.object) {
		l.progress.Ahead(ctx, []checkpoint.Object{t.known().object()})
	}
}

// isFresh says whether an object, once it is told, is ADDED.
func (l *lane) isFresh(o object) bool {
	was, ok := l.index.get(o.name())
	return (!ok || was.hidden || differ(was.uid, o.GetUID())) && l.selects(o)
}

func (o object) known() known { return known{identity: identity{o.name(), o.GetUID(), o.version}} }
