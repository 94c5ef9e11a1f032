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
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// findOrigin determines where the run begins, and begins a session with the Tracker if there is one:
//
//  1. A checkpoint decides, if there is one under the key.
//  2. Else the host does, if it has a position to go on from.
//  3. Else Run.Start does, unless the host has delivered events of this sequence before.
func (r *activeRun) findOrigin(ctx context.Context) (from sequence.Origin, session *acks.Session, err error) {
	first := r.origin(r.run.Start)
	if r.hosted.Again && first.Position == nil && (first.Now || r.hosted.Start == nil) {
		first = sequence.Origin{}
	}
	from = first
	if r.hosted.Start != nil {
		from = sequence.Origin{}
		if p := r.hosted.Start(); p != nil {
			from = r.resume(*p)
		}
	}
	if err := r.stream.options.checkOrigin(from, r.hosted.Namespaces != nil); err != nil {
		return from, nil, err
	}
	if r.run.Checkpoint == nil {
		return from, nil, nil
	}
	if from.Position == nil {
		first = from
	} else if first.Position != nil {
		first = sequence.Origin{} // Resume, and there is no checkpoint yet
	}
	key := r.checkpointKey()
	session, err = acks.Begin(ctx, r.run.Checkpoint, key, r.stream.identity(), first.BeginsSynced())
	if err != nil {
		return first, nil, err
	}
	from = first
	if p := session.Position(); p != nil {
		from = r.resume(*p)
		if err := r.stream.options.checkOrigin(from, r.hosted.Namespaces != nil); err != nil {
			session.End()
			return from, nil, fmt.Errorf("stream: cannot resume from checkpoint %q: %w", key, err)
		}
	}
	return from, session, nil
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

// rules returns what the Run determines of the protocol.
func (r *activeRun) rules() protocol.Rules {
	return protocol.Rules{
		FailOnGap:   r.run.FailOnGap,
		UntilClosed: r.run.Until == UntilClosed,
		UntilSynced: r.run.Until == UntilSynced,
	}
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
