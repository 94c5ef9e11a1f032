package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// checkpoint begins a session with the Tracker, if there is one, and returns where
// the range begins.
func (s *Stream) checkpoint(ctx context.Context, from Start, moves bool) (*checkpoint.Session, Start, error) {
	if s.options.Checkpoint == nil {
		return nil, from, nil
	}
	session, err := s.options.Checkpoint.Begin(ctx, s.options.CheckpointKey, s.identity())
	if err != nil {
		return nil, from, err
	}
	if p := session.Position(); p != nil {
		from = From(*p)
		// Where the end is SYNCED, what is wanted is how things are now; and client-go's
		// fakes remember nothing of what was deleted.
		from.snapshot = s.options.End == WhenSynced || s.fake
		if err := s.options.checkPosition(*p, moves); err != nil {
			session.End()
			return nil, from, fmt.Errorf("stream: the checkpoint %q: %w", s.options.CheckpointKey, err)
		}
	} else if from.kind == startFrom { // of which nothing was acked
		from = s.options.Start
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
		terms = append(terms, r.Field+string(r.Operator)+fields.EscapeValue(r.Value))
	}
	slices.Sort(terms)
	id.LabelSelector, id.FieldSelector = byLabel.String(), strings.Join(slices.Compact(terms), ",")
	if s.options.Namespaces[0] != "" {
		id.Namespaces = s.options.Namespaces
	}
	return id
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
func (l *lane) aheadOf(ctx context.Context, items []object, how protocol.Mode) error {
	if !l.writesAhead() {
		return nil
	}
	var fresh []checkpoint.Object
	for _, o := range items {
		if !l.isUnsaid(o, how) && l.isFresh(o) {
			fresh = append(fresh, known(o.Entry))
		}
	}
	return l.progress.Ahead(ctx, fresh)
}

// aheadOfFrame does so for an event of the watch, and if it is new for all that
// have come after it.
func (l *lane) aheadOfFrame(ctx context.Context, t told, how protocol.EmitEvent) error {
	if !l.writesAhead() || t.kind == Deleted || how.Replay || !l.isFresh(t.object) {
		return nil
	}
	fresh := []checkpoint.Object{known(t.Entry)}
	if !l.progress.IsAhead(fresh[0].ID()) {
		first := map[checkpoint.ID]bool{fresh[0].ID(): true}
		for _, o := range l.conn.come() {
			// A replay of one that is not known is not delivered.
			replay := protocol.NotAfter(o.Version, how.Version) && !l.index.Has(o.Entry)
			if k := known(o.Entry); !replay && !first[k.ID()] && l.isFresh(o) {
				first[k.ID()] = true
				fresh = append(fresh, k)
			}
		}
	}
	return l.progress.Ahead(ctx, fresh)
}

// isFresh says whether there is no entry of an object that is to be delivered.
func (l *lane) isFresh(o object) bool { return !l.index.Has(o.Entry) && l.selects(o) }

// withdraw takes the position back where the server has gone back in time, before
// anybody is told: who goes on from it must not miss that, even if the server is
// past it again by then. So must namespaces that are not watched now, or can't be.
func (l *lane) withdraw(ctx context.Context, next protocol.State, outputs []protocol.Output) error {
	m, _ := next.Recall()
	rewound := m.Rewound()
	for _, o := range outputs {
		gap, ok := o.(protocol.EmitGap)
		rewound = rewound || ok && gap.Reason == protocol.GapRewound
	}
	if end, ok := next.(protocol.Stopped); ok && end.Gap != nil { // OnExpired: Fail
		rewound = rewound || end.Gap.Reason == protocol.GapRewound
	}
	if !rewound {
		return nil
	}
	l.mu.Lock()
	all := slices.Concat(l.lanes, l.parked)
	l.mu.Unlock()
	var others []*checkpoint.Progress
	for _, one := range all {
		if one == l || one.report.get().State != Streaming {
			one.report.update(func(r *report) { r.rewound = true })
			others = append(others, one.progress)
		}
	}
	if l.progress == nil {
		return nil
	}
	return l.progress.Rewound(ctx, others...)
}
