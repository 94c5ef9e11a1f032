package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

const concurrentTakes = 8 // and releases

// replica takes and releases units, in rounds.
type replica struct {
	*Relay
	started time.Time

	mu sync.Mutex
	units
	membership
	known bool      // a round has ended in which it was known what is wanted
	began time.Time // of the last round
}

// units are those of a replica, by their text.
type units struct {
	owned    map[string]*owned
	claimed  map[string]engine.Unit // whose positions may name this replica, although it does not own them
	waiting  map[string]engine.UnitStatus
	problems []string
}

// membership is what a replica knows of the others.
type membership struct {
	seen    map[string]observed
	trusted time.Time // since when the engine answers, or zero if it does not
	leaving bool      // this replica
	expires bool      // this replica removes what is left of deleted objects
}

// observed is a member as last read.
type observed struct {
	revision uint64
	at       time.Time // when the revision was new
	lease    time.Duration
}

func (o observed) alive() bool { return time.Since(o.at) < o.lease }

func newReplica(r *Relay) *replica {
	return &replica{
		Relay: r, started: time.Now(), began: time.Now(),
		units: units{owned: map[string]*owned{}, waiting: map[string]engine.UnitStatus{}},
	}
}

// beat announces this replica until ctx ends.
func (r *replica) beat(ctx context.Context) {
	for ctx.Err() == nil {
		r.join(ctx)
		wait(ctx, r.config.Replica.Lease.Duration/5)
	}
}

// expire removes what is left of deleted objects until ctx ends. One replica does.
func (r *replica) expire(ctx context.Context) {
	keep := r.config.Log.KeepDeleted.Duration
	for {
		wait(ctx, min(keep/4, time.Hour))
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		mine := r.expires
		r.mu.Unlock()
		if !mine {
			continue
		}
		if err := r.log.Expire(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
			r.logger.Warn("deleted objects are not removed from the log; trying again later", "err", err)
		}
	}
}

func (r *replica) join(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, r.config.Replica.Lease.Duration/3)
	defer cancel()
	r.trust(r.group.Join(asked, r.status()))
}

// trust remembers whether the engine answers.
func (r *replica) trust(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		if !r.trusted.IsZero() {
			r.logger.Warn("the engine does not say who shares the work; trying again", "err", err)
		}
		r.trusted = time.Time{}
	case r.trusted.IsZero():
		r.trusted = time.Now()
	}
}

// round finds out who else there is, releases the units that others should own, and takes those that this replica
// should own. What does not succeed within a lease, the next round repeats.
func (r *replica) round(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, r.config.Replica.Lease.Duration)
	defer end()
	r.dropLost()
	wanted, problems, known := r.wantedUnits()
	asked, cancel := context.WithTimeout(ctx, r.config.Replica.Lease.Duration/3)
	members, err := r.group.Members(asked)
	if err == nil {
		err = r.findClaimed(asked)
	}
	cancel()
	r.trust(err)
	idle := r.idle()
	r.mu.Lock()
	r.began = time.Now()
	if err != nil {
		// What this replica owns it keeps: if others take it, its batches are refused.
		r.problems = append(problems, fmt.Sprintf("the engine does not say who shares the work: %v", err))
		r.mu.Unlock()
		return
	}
	r.problems = problems
	members = r.note(members)
	ids := sharing(members, r.config.shared(), r.config.Replica.ID)
	r.expires = ownerOf(engine.Unit{}, ids) == r.config.Replica.ID
	mine := func(s *Selected) bool { return ownerOf(s.Unit, ids) == r.config.Replica.ID }
	var release []*owned
	var take []*Selected
	for key, o := range r.owned {
		if s := wanted[key]; s == nil && idle(o) || s != nil && (!s.same(o.Selected) || !mine(s)) {
			release = append(release, o)
		}
	}
	clear(r.waiting)
	for _, key := range sortedKeys(wanted) {
		if s := wanted[key]; r.owned[key] == nil && mine(s) {
			take = append(take, s)
			r.waiting[key] = engine.UnitStatus{Unit: s.Unit, State: stateWaiting, Problem: "being taken"}
		}
	}
	var disown []engine.Unit
	for _, key := range sortedKeys(r.claimed) {
		if s := wanted[key]; s == nil || !mine(s) {
			disown = append(disown, r.claimed[key])
		}
	}
	r.mu.Unlock()
	each(disown, func(u engine.Unit) { r.disown(ctx, u) })
	each(release, func(o *owned) { r.release(ctx, o) })
	if len(take) > 0 {
		r.takeAll(ctx, take)
	}
	r.mu.Lock()
	r.known = known
	r.mu.Unlock()
	if len(release) > 0 {
		r.join(ctx) // others see at once what they may take
	}
}

// findClaimed finds units that an earlier process with the ID of this replica has left behind.
func (r *replica) findClaimed(ctx context.Context) error {
	if r.claimed != nil { // only rounds, and what they wait for, change it
		return nil
	}
	claimed := map[string]engine.Unit{}
	entries, err := r.log.Positions(ctx, engine.Unit{})
	if err != nil {
		return fmt.Errorf("read the positions: %w", err)
	}
	for _, e := range entries {
		if e.Position.Owner == r.config.Replica.ID {
			claimed[e.Unit.String()] = e.Unit
		}
	}
	r.claimed = claimed
	return nil
}

// disown lets others take a unit that this replica has claimed, but does not own.
func (r *replica) disown(ctx context.Context, u engine.Unit) {
	e, err := r.log.Position(ctx, u)
	if err == nil && e.Position.Owner == r.config.Replica.ID {
		e.Position.Owner = ""
		_, err = r.log.Publish(ctx, []engine.Part{{Unit: u, Position: e.Position, Revision: e.Revision}})
	}
	if err != nil {
		return // the next round tries again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claimed, u.String())
}

func (r *replica) disownClaimed(ctx context.Context, u engine.Unit) {
	r.mu.Lock()
	_, claimed := r.claimed[u.String()]
	r.mu.Unlock()
	if claimed {
		r.disown(ctx, u)
	}
}

// idle returns whether all events of a unit that were received are in the log. One that nobody wants, because its
// resource or namespace is gone, is not released before, as nobody would receive them again.
func (r *replica) idle() func(*owned) bool {
	queued := map[string]int{}
	for _, s := range r.sources.Status().Sources {
		queued[s.Key] = s.Queued
	}
	return func(o *owned) bool { return queued[o.key] == 0 && r.publisher.isIdle(o) }
}

// each calls f for all of them, a few at a time, and waits.
func each[T any](all []T, f func(T)) {
	var running sync.WaitGroup
	free := make(chan struct{}, concurrentTakes)
	for _, v := range all {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			f(v)
		})
	}
	running.Wait()
}

// note remembers who has joined again, and returns the members that have done so within their lease. It uses the clock
// of this process only. It needs the mutex.
func (r *replica) note(members []engine.Member) (alive []engine.Member) {
	seen := map[string]observed{}
	for _, m := range members {
		s, known := r.seen[m.ID]
		if !known || s.revision != m.Revision {
			s = observed{m.Revision, time.Now(), m.Lease}
		}
		seen[m.ID] = s
		if s.alive() {
			alive = append(alive, m)
		}
	}
	r.seen = seen
	return alive
}

// alive reports whether another replica is a member, or may be one that could not announce itself yet, because the
// engine was down, or this replica has just started.
func (r *replica) alive(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	justTrusted := r.trusted.IsZero() || time.Since(r.trusted) < r.config.Replica.Lease.Duration
	return id != r.config.Replica.ID && (r.seen[id].alive() || justTrusted)
}

// fence sets the positions of units whose owners are not alive, and which overlap units to take: taking a unit fences
// only its own owner. It changes entries accordingly.
func (r *replica) fence(ctx context.Context, units []*Selected, entries []engine.Entry) error {
	whole, namespaces := map[engine.Unit]bool{}, map[engine.Unit]bool{} // resources of which units are taken
	for _, s := range units {
		if s.Unit.Namespace == "" {
			whole[s.Unit] = true
		} else {
			namespaces[s.Unit.Whole()] = true
		}
	}
	var dead []*engine.Entry
	for i := range entries {
		e := &entries[i]
		overlaps := whole[e.Unit.Whole()]
		if e.Unit.Namespace == "" {
			overlaps = namespaces[e.Unit]
		}
		if overlaps && e.Position.Owner != "" && !r.alive(e.Position.Owner) {
			dead = append(dead, e)
		}
	}
	for some := range slices.Chunk(dead, r.log.Limits().Messages) {
		parts := make([]engine.Part, len(some))
		for i, e := range some {
			parts[i] = engine.Part{Unit: e.Unit, Position: e.Position, Revision: e.Revision}
			parts[i].Position.Owner = ""
		}
		revisions, err := r.log.Publish(ctx, parts)
		if err != nil {
			return fmt.Errorf("fence owners that are not alive: %w", err)
		}
		for i, e := range some {
			e.Position, e.Revision = parts[i].Position, revisions[i]
		}
	}
	return nil
}

// takeAll takes units. It remembers why it can't take those that it can't.
func (r *replica) takeAll(ctx context.Context, units []*Selected) {
	all, failed := r.log.Positions(ctx, engine.Unit{})
	if failed == nil {
		failed = r.fence(ctx, units, all)
	}
	entries := map[engine.Unit][]engine.Entry{} // by resource
	for _, e := range all {
		entries[e.Unit.Whole()] = append(entries[e.Unit.Whole()], e)
	}
	each(units, func(s *Selected) {
		o, err := (*owned)(nil), failed
		if err == nil {
			o, err = r.take(ctx, s, entries[s.Unit.Whole()])
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			state := stateWaiting
			if held := (*heldError)(nil); errors.As(err, &held) && r.seen[held.owner].alive() {
				state = stateHeld
			}
			r.waiting[s.Unit.String()] = engine.UnitStatus{Unit: s.Unit, State: state, Problem: err.Error()}
			return
		}
		r.owned[s.Unit.String()] = o
		delete(r.waiting, s.Unit.String())
		delete(r.claimed, s.Unit.String())
	})
}

// The states of a unit that is not taken, in UnitStatus.
const (
	stateWaiting = "Waiting"
	stateHeld    = "Held" // another replica publishes it
)

// heldError says that a replica has not released a unit.
type heldError struct{ owner string }

func (e *heldError) Error() string { return fmt.Sprintf("waiting until %s has released it", e.owner) }

// take makes this replica the owner of a unit, and begins to watch it. entries are the positions of its resource.
func (r *replica) take(ctx context.Context, s *Selected, entries []engine.Entry) (*owned, error) {
	uid, err := s.connection.UID(ctx)
	if err != nil {
		return nil, err
	}
	c := claimOf(s.Unit, r.config.Replica.ID, s.scope, entries, r.alive)
	if c.wait != "" {
		// If this replica has claimed it, too, before it knew that: both would wait.
		r.disownClaimed(ctx, s.Unit)
		return nil, &heldError{c.wait}
	}
	r.mu.Lock()
	r.claimed[s.Unit.String()] = s.Unit
	r.mu.Unlock()
	revisions, err := r.log.Publish(ctx, []engine.Part{{Unit: s.Unit, Position: c.position, Revision: c.revision}})
	if errors.Is(err, engine.ErrFenced) {
		return nil, errors.New("another replica has taken it")
	}
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	if err := r.checkOthers(ctx, s.Unit, entries); err != nil {
		r.disown(ctx, s.Unit)
		return nil, err
	}
	position, err := r.resume(ctx, s, &c)
	if err != nil {
		return nil, err
	}
	opts, run := s.Options, stream.Run{Bookmarks: true}
	opts.Logger = r.logger
	if c.revision > 0 || len(position.Objects) > 0 {
		run.Start = stream.From(position)
	}
	source, err := stream.New(s.connection.Client, s.Resource, &opts)
	if err != nil {
		return nil, err
	}
	o := &owned{
		Selected: s, key: fmt.Sprintf("%s#%d", s.Unit, c.position.Epoch), epoch: c.position.Epoch,
		ended: make(chan struct{}),
		encoder: message.NewEncoder(message.EncoderOptions{
			Cluster: s.connection.Name, ClusterUID: uid, Limit: func() int { return r.log.Limits().MessageBytes },
		}),
		published: published{position: c.position, revision: revisions[0]},
		received:  received{progress: newProgress(c.position, s.scope)},
	}
	r.publisher.register(o)
	if err := r.sources.Add(source.With(run), &mux.SourceOptions{Key: o.key}); err != nil {
		r.publisher.lose(o)
		return nil, err
	}
	r.logger.Info("took a unit", "unit", s.Unit.String(), "epoch", o.epoch, "resourceVersion",
		c.position.ResourceVersion, "objects", len(position.Objects))
	return o, nil
}

// checkOthers returns an error if a unit that overlaps u has changed since entries were read: another replica may have
// taken it at the same time. If both take and then check, at least one notices.
func (r *replica) checkOthers(ctx context.Context, u engine.Unit, entries []engine.Entry) error {
	var now []engine.Entry
	var err error
	if u.Namespace == "" {
		now, err = r.log.Positions(ctx, u)
	} else {
		now = make([]engine.Entry, 1)
		now[0], err = r.log.Position(ctx, u.Whole())
	}
	if err != nil {
		return fmt.Errorf("read the positions: %w", err)
	}
	for _, e := range now {
		if e.Unit != u && e.Revision > 0 && !slices.Contains(entries, e) {
			return fmt.Errorf("%s, which overlaps, was taken meanwhile", e.Unit)
		}
	}
	return nil
}

// resume returns the position from which to watch a unit: the objects are those whose last message is no deletion.
func (r *replica) resume(ctx context.Context, s *Selected, c *claim) (checkpoint.Position, error) {
	p := checkpoint.Position{
		ResourceVersions: map[string]string{s.Unit.Namespace: c.position.ResourceVersion},
		Rewound:          c.position.Rewound,
	}
	messages, err := r.log.Objects(ctx, s.Unit, false)
	if err != nil {
		return p, fmt.Errorf("read the objects in the log: %w", err)
	}
	for _, m := range messages {
		if m.Type == engine.Deleted {
			continue
		}
		o := checkpoint.Object{Name: m.Name, UID: types.UID(m.UID), ResourceVersion: m.ResourceVersion}
		if s.Resource.Namespaced {
			o.Namespace = m.Unit.Namespace
		}
		if c.again {
			o.ResourceVersion = "" // it is then published again, or its deletion
		}
		p.Objects = append(p.Objects, o)
	}
	return p, nil
}

// release ends the watch of a unit, publishes what was received, and lets others take it.
func (r *replica) release(ctx context.Context, o *owned) {
	r.sources.Remove(o.key)
	if err := r.publisher.release(ctx, o); err != nil {
		r.logger.Warn("a unit is not released yet", "unit", o.Unit.String(), "err", err)
		return
	}
	r.forget(o)
	r.logger.Info("released a unit", "unit", o.Unit.String(), "epoch", o.epoch)
}

// dropLost ends the watches of units that others have taken.
func (r *replica) dropLost() {
	for _, o := range r.all() {
		select {
		case <-o.ended:
			r.sources.Remove(o.key)
			r.forget(o)
		default:
		}
	}
}

func (r *replica) forget(o *owned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owned, o.Unit.String())
}

func (r *replica) all() []*owned {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*owned
	for _, key := range sortedKeys(r.owned) {
		all = append(all, r.owned[key])
	}
	return all
}

// leave releases everything.
func (r *replica) leave(ctx context.Context) error {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	r.join(ctx) // the others begin to wait for the units
	each(r.all(), func(o *owned) { r.release(ctx, o) })
	for _, key := range sortedKeys(r.claimed) {
		r.disown(ctx, r.claimed[key])
	}
	if left := len(r.all()); left > 0 {
		return fmt.Errorf("%d units are not released; others take them after the lease: %w", left, context.Cause(ctx))
	}
	return r.group.Leave(ctx, r.config.Replica.ID)
}

// status describes the replica.
func (r *replica) status() engine.Member {
	sources := map[string]mux.SourceStatus{}
	for _, s := range r.sources.Status().Sources {
		sources[s.Key] = s
	}
	m := engine.Member{
		ID: r.config.Replica.ID, Config: r.config.shared(), Started: r.started, Lease: r.config.Replica.Lease.Duration,
	}
	for _, o := range r.all() {
		m.Units = append(m.Units, r.publisher.unitStatus(o, sources[o.key]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Leaving, m.Problems = r.leaving, slices.Clone(r.problems)
	if err := r.publisher.problem(); err != nil {
		m.Problems = append(m.Problems, fmt.Sprintf("the engine does not accept messages: %v", err))
	}
	for _, key := range sortedKeys(r.waiting) {
		m.Waiting = append(m.Waiting, r.waiting[key])
	}
	return m
}

func (r *replica) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known
}

func (r *replica) lastRound() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.began
}

// unitStatus describes a unit. source is what the Mux says of it.
func (p *publisher) unitStatus(o *owned, source mux.SourceStatus) engine.UnitStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := engine.UnitStatus{
		Unit: o.Unit, State: string(source.State), Synced: source.Synced, Epoch: o.epoch,
		ResourceVersion: o.position.ResourceVersion, Pending: o.pending,
		Coalesced: source.Coalesced + source.Vanished,
	}
	if source.Stream != nil {
		s.Objects = source.Stream.Objects
	}
	if o.pending > 0 {
		s.Lag = time.Since(o.oldest)
	}
	switch {
	case source.Err != nil:
		s.Problem = source.Err.Error()
	case source.Stream != nil && source.Stream.Cause != nil:
		s.Problem = source.Stream.Cause.Error()
	}
	return s
}
