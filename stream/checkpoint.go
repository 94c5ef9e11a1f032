package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

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
		Objects: s.options.Index != IndexNone,
	}
	// However they are written. (Both have been checked.)
	byLabel, _ := labels.Parse(s.options.LabelSelector)
	byField, _ := fields.ParseSelector(s.options.FieldSelector)
	var terms []string
	for _, r := range byField.Requirements() {
		operator := "="
		if r.Operator == selection.NotEquals {
			operator = "!="
		}
		terms = append(terms, r.Field+operator+fields.EscapeValue(r.Value))
	}
	slices.Sort(terms)
	id.LabelSelector, id.FieldSelector = byLabel.String(), strings.Join(slices.Compact(terms), ",")
	if s.options.Namespaces[0] != "" {
		id.Namespaces = s.options.Namespaces
	}
	if s.options.Scope != nil {
		id.Moves, id.At, id.Namespaces = true, id.Namespaces, s.options.Scope.Namespaces
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

// writesAhead says whether the checkpoint is to know of new objects before they
// are told.
func (l *lane) writesAhead() bool {
	return l.progress != nil && l.index != nil && l.progress.WritesAhead()
}

// aheadOf does so for the objects of a snapshot.
func (l *lane) aheadOf(ctx context.Context, items []object, how snapshot) error {
	if !l.writesAhead() {
		return nil
	}
	var fresh []checkpoint.Object
	for _, o := range items {
		if !l.isUnsaid(o, how) && l.isFresh(o) {
			fresh = append(fresh, o.known().object())
		}
	}
	return l.progress.Ahead(ctx, fresh)
}

// aheadOfFrame does so for an event of the watch, and if it is news for all that
// have come after it.
func (l *lane) aheadOfFrame(ctx context.Context, t told, how tellFrame) error {
	if !l.writesAhead() || t.kind == Deleted || how.old && !l.isKnown(t.object) || !l.isFresh(t.object) {
		return nil
	}
	fresh := []checkpoint.Object{t.known().object()}
	if !l.progress.IsAhead(fresh[0]) {
		first := map[checkpoint.ID]bool{fresh[0].ID(): true}
		for _, o := range l.conn.come() {
			// A replay of one that is not known is not told.
			replay := (notAfter(o.version, how.rv) || l.floors.isOld(o.Namespace, o.version)) && !l.isKnown(o)
			if k := o.known().object(); !replay && !first[k.ID()] && l.isFresh(o) {
				first[k.ID()] = true
				fresh = append(fresh, k)
			}
		}
	}
	return l.progress.Ahead(ctx, fresh)
}

// isKnown says whether the index has an object, whether it was wanted or not.
func (l *lane) isKnown(o object) bool {
	was, ok := l.index.get(o.name())
	return ok && was.uid == o.uid
}

// isFresh says whether an object, once it is told, is ADDED.
func (l *lane) isFresh(o object) bool {
	was, ok := l.index.get(o.name())
	return (!ok || was.hidden || differ(was.uid, o.uid)) && l.selects(o)
}

func (o object) known() known { return known{identity: o.identity} }

// withdraw takes the position back where the server has gone back in time, before
// anybody is told: who goes on from it must not miss that, even if the server is
// past it again by then.
func (l *lane) withdraw(ctx context.Context, next state, outputs []output) error {
	m, _ := memoryOf(next)
	rewound := m.gap != nil && m.gap.reason == GapRewound
	for _, o := range outputs {
		gap, ok := o.(tellGap)
		rewound = rewound || ok && gap.reason == GapRewound
	}
	if end, ok := next.(stopped); ok { // OnExpired: Fail
		var gap *GapError
		rewound = rewound || errors.As(end.err, &gap) && gap.Reason == GapRewound
	}
	if !rewound {
		return nil
	}
	l.report.withdrawn()
	if l.progress == nil {
		return nil
	}
	return l.progress.Rewound(ctx)
}
