package stream

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// checkpointKey returns the key of the run's checkpoint.
func (r *activeRun) checkpointKey() string {
	return cmp.Or(r.run.Key, r.resource.GroupResource().String())
}

func (s *Stream) identity() checkpoint.Identity {
	id := checkpoint.Identity{
		Group: s.resource.Group, Resource: s.resource.Resource, StorageVersionHash: s.resource.StorageVersionHash,
	}
	// Parse the selectors, so that equal ones have equal identities. New has checked them.
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

// nextMark returns the mark of the next event, or nil without a checkpoint.
func (w *worker) nextMark() *acks.Mark {
	if w.progress == nil {
		return nil
	}
	return w.progress.Mark(w.report.point())
}

// pass records a change of the position or the index that comes without an event.
func (w *worker) pass() {
	if w.progress != nil {
		w.progress.Pass(w.report.point())
	}
}

// writesAhead reports whether new objects are written to the checkpoint before they are delivered.
func (w *worker) writesAhead() bool {
	return w.progress != nil && w.progress.WritesAhead()
}

// writeAhead writes the new objects of a page to the checkpoint.
func (w *worker) writeAhead(ctx context.Context, items []object, mode protocol.Mode) error {
	if !w.writesAhead() {
		return nil
	}
	var fresh []objects.ID
	for _, o := range items {
		if !w.isOnlyEntered(o, mode) && w.isNew(o) {
			fresh = append(fresh, versionOf(o.Entry).ID)
		}
	}
	return w.progress.WriteAhead(ctx, fresh)
}

// writeSynced writes to the checkpoint that SYNCED is about to be delivered.
func (w *worker) writeSynced(ctx context.Context, resourceVersion string) error {
	if w.progress == nil {
		return nil
	}
	_, partial := w.report.point()
	return w.progress.WriteSynced(ctx, resourceVersion, partial)
}

// writeAheadOfEvent writes to the checkpoint what must be there before a watch event is delivered: the version of
// SYNCED, if it is acked, and the object, if it is new. If the object requires a commit, the new objects of later
// events that have already arrived share it.
func (w *worker) writeAheadOfEvent(ctx context.Context, ev objectEvent, out protocol.EmitEvent) error {
	if w.progress == nil {
		return nil
	}
	if err := w.progress.WriteVersion(ctx); err != nil {
		return err
	}
	if !w.writesAhead() || ev.kind == Deleted || out.Replay || !w.isNew(ev.object) {
		return nil
	}
	fresh := []objects.ID{versionOf(ev.Entry).ID}
	if !w.progress.IsWrittenAhead(fresh[0]) {
		seen := map[objects.ID]bool{fresh[0]: true}
		for _, o := range w.conn.peekObjects() {
			// A replay of an unknown object is not delivered.
			replay := protocol.NotAfter(o.Version, out.Version) && !w.index.Has(o.Entry)
			if id := versionOf(o.Entry).ID; !replay && !seen[id] && w.isNew(o) {
				seen[id] = true
				fresh = append(fresh, id)
			}
		}
	}
	return w.progress.WriteAhead(ctx, fresh)
}

// isNew reports whether an object will be delivered and has no entry yet.
func (w *worker) isNew(o object) bool { return !w.index.Has(o.Entry) && w.selects(o) }

// markRewound marks the position as rewound if the server has gone back in time, before GAP is delivered. A run that
// resumes from the position must report the rewind even if the server's versions have caught up by then. Namespaces
// that are not watched now, or whose watch is not open, are marked, too.
func (w *worker) markRewound(ctx context.Context, next protocol.State, outputs []protocol.Output) error {
	m, _ := next.Recall()
	rewound := m.Rewound()
	for _, o := range outputs {
		gap, ok := o.(protocol.EmitGap)
		rewound = rewound || ok && gap.Reason == protocol.GapRewound
	}
	if end, ok := next.(protocol.Stopped); ok && end.Gap != nil { // FailOnGap
		rewound = rewound || end.Gap.Reason == protocol.GapRewound
	}
	if !rewound {
		return nil
	}
	w.mu.Lock()
	all := slices.Concat(w.workers, w.parked)
	w.mu.Unlock()
	var others []*acks.Progress
	for _, one := range all {
		if one == w || one.report.get().State != Streaming {
			one.report.update(func(r *report) { r.rewound = true })
			others = append(others, one.progress)
		}
	}
	if w.progress == nil {
		return nil
	}
	return w.progress.Rewound(ctx, others...)
}
