package stream

import (
	"context"

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
	s.mu.Lock()
	s.session = session
	s.mu.Unlock()
	for _, l := range lanes {
		l.keep(session.Progress(l.namespace))
	}
	if p := session.Position(); p != nil {
		from = From(*p)
		if s.options.End == WhenSynced {
			// What is wanted is how things are now: a snapshot, as differences.
			from.position.ResourceVersions = nil
		}
	} else if from.kind != startSnapshot {
		for _, l := range lanes {
			l.progress.Hold()
		}
	}
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
