package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// begin determines where the run begins, and begins a session with the Tracker if there is one:
//
//  1. A checkpoint decides, if there is one under the key.
//  2. Else the host does, if it has a position to go on from.
//  3. Else Run.Start does, unless the host has delivered events of this sequence before.
func (r *activeRun) begin(ctx context.Context) (from sequence.Origin, session *acks.Session, err error) {
	from = r.origin(r.run.Start)
	start := from // without what only the host knows
	if r.hosted.Again && from.Position == nil && (from.Now || r.hosted.Start == nil) {
		from, start = sequence.Origin{}, sequence.Origin{}
	}
	if r.hosted.Start != nil {
		from = sequence.Origin{}
		if p := r.hosted.Start(); p != nil {
			from = r.resume(*p)
		}
	}
	if err = r.check(from); err != nil || r.run.Checkpoint == nil {
		return from, nil, err
	}
	switch { // what is resumed, the checkpoint has to say
	case from.Position == nil:
	case start.Position != nil:
		from = sequence.Origin{}
	default:
		from = start
	}
	session, err = acks.Begin(ctx, r.run.Checkpoint, r.checkpointKey(), r.stream.identity(), from.BeginsSynced())
	if err != nil {
		return from, nil, err
	}
	if p := session.Position(); p != nil {
		from = r.resume(*p)
		if err = r.check(from); err != nil {
			session.End()
			return from, nil, fmt.Errorf("stream: cannot resume from checkpoint %q: %w", r.checkpointKey(), err)
		}
	}
	return from, session, nil
}

// check returns an error if the run cannot begin at from.
func (r *activeRun) check(from sequence.Origin) error {
	if from.Position == nil {
		return nil
	}
	return r.stream.options.checkPosition(*from.Position, r.hosted.Namespaces != nil)
}

// origin returns what a Start stands for.
func (r *activeRun) origin(s Start) sequence.Origin {
	switch s.kind {
	case startFrom:
		return r.resume(*s.position)
	case startResume:
		holder := r.stream.heldBy()
		if r.hosted.Again || holder != nil && holder != r.hosted.Holder {
			return sequence.Origin{}
		}
		if p := r.stream.Position(); len(p.ResourceVersions)+len(p.Objects) > 0 {
			return r.resume(p)
		}
	}
	return sequence.Origin{Now: s.kind == startNow, After: s.version}
}

// resume returns where a run begins that continues an earlier one. A run that ends at SYNCED reports the current state,
// which needs a snapshot. So does client-go's fake, which keeps no history.
func (r *activeRun) resume(p checkpoint.Position) sequence.Origin {
	return sequence.Origin{Position: &p, Snapshot: r.run.Until == UntilSynced || r.stream.target.Fake}
}

// checkpointKey returns the key of the run's checkpoint.
func (r *activeRun) checkpointKey() string {
	return cmp.Or(r.run.Key, r.stream.resource.GroupResource().String())
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
