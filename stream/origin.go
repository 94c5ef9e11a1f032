package stream

import (
	"context"
	"fmt"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// origin is where a run begins: a Start, with the position that it stands for.
type origin struct {
	kind     startKind // not startResume
	version  string
	position checkpoint.Position
	snapshot bool // read a snapshot even if the position has a version
}

// findOrigin determines where the run begins, and begins a session with the Tracker if there is one:
//
//  1. A checkpoint decides, if there is one under the key.
//  2. Else the host does, if it has a position to go on from.
//  3. Else Run.Start does, unless the host has delivered events of this sequence before.
func (r *activeRun) findOrigin(ctx context.Context) error {
	first := r.origin(r.run.Start)
	if r.hosted.Again && first.kind != startFrom && (first.kind == startNow || r.hosted.Start == nil) {
		first = origin{}
	}
	r.from = first
	if r.hosted.Start != nil {
		r.from = origin{}
		if p := r.hosted.Start(); p != nil {
			r.from = r.resume(*p)
		}
	}
	if err := r.options.checkPosition(r.from.position, r.hosted.Namespaces != nil); err != nil {
		return err
	}
	if r.run.Checkpoint == nil {
		return nil
	}
	if r.from.kind != startFrom {
		first = r.from
	} else if first.kind == startFrom {
		first = origin{} // Resume, and there is no checkpoint yet
	}
	key := r.checkpointKey()
	session, err := acks.Begin(ctx, r.run.Checkpoint, key, r.identity(), first.beginsSynced())
	if err != nil {
		return err
	}
	r.from = first
	if p := session.Position(); p != nil {
		r.from = r.resume(*p)
		if err := r.options.checkPosition(*p, r.hosted.Namespaces != nil); err != nil {
			session.End()
			return fmt.Errorf("stream: cannot resume from checkpoint %q: %w", key, err)
		}
	}
	r.session = session
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.session = session
	return nil
}

// origin returns what a Start stands for.
func (r *activeRun) origin(s Start) origin {
	switch s.kind {
	case startFrom:
		return r.resume(*s.position)
	case startResume:
		r.mu.Lock()
		holder := r.holder
		r.mu.Unlock()
		if r.hosted.Again || holder != nil && holder != r.hosted.Holder {
			return origin{}
		}
		if p := r.Position(); len(p.ResourceVersions)+len(p.Objects) > 0 {
			return r.resume(p)
		}
		return origin{}
	}
	return origin{kind: s.kind, version: s.version}
}

// resume returns where a run begins that continues an earlier one. A run that ends at SYNCED reports the current state,
// which needs a snapshot. So does client-go's fake, which keeps no history.
func (r *activeRun) resume(p checkpoint.Position) origin {
	return origin{kind: startFrom, position: p, snapshot: r.run.Until == UntilSynced || r.fake}
}

// beginsSynced reports whether the first event is SYNCED. It may be for a position, too.
func (o *origin) beginsSynced() bool { return o.kind == startNow || o.kind == startAfter }

// rules returns the rules of the protocol for a worker of the run that begins at from.
func (r *activeRun) rules(from origin) protocol.Rules {
	streamed := !r.options.Requests.PagedLists && !r.fake
	return protocol.Rules{
		FailOnGap:         r.run.FailOnGap,
		Quiet:             from.kind == startNow,
		Partial:           from.kind == startAfter || from.position.Partial,
		Unclean:           from.position.Unclean,
		UntilClosed:       r.run.Until == UntilClosed,
		UntilSynced:       r.run.Until == UntilSynced,
		WantInitialEvents: streamed,
		InitialEvents:     streamed && !r.noInitialEvents.Load(),
		NoProbe:           r.fake,
	}
}
