package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// units takes and releases units: those that are owned are watched, and their events published.
type units struct {
	log       engine.Log
	claims    *claims
	sources   *mux.Mux
	publisher *publisher
	isMember  func(id string) bool // reports whether another replica has joined within its lease
	logger    *slog.Logger

	running sync.WaitGroup // of what takes units
	free    chan struct{}  // has room for each unit that may be taken at the same time

	mu      sync.Mutex
	owned   map[string]*owned            // by the text of the unit, as waiting and taking
	waiting map[string]engine.UnitStatus // that this replica should own, and why it does not
	taking  map[string]*taking           // that are being taken
}

// taking is a unit that is being taken, which lasts until its objects are read from the log.
type taking struct {
	selected *Selected
	cancel   context.CancelFunc
	claimed  bool // this replica is the owner in the log, and reads the objects
}

// owned is a unit that this replica publishes.
type owned struct {
	selected *Selected
	key      string // of its source: that of an earlier epoch has another one
	epoch    uint64
	encoder  *message.Encoder
	ended    chan struct{} // closed when nothing more of the unit will be published
	// Only the publisher uses these, with its mutex.
	published published
	received  received
}

// The states of a unit that is not taken, in UnitStatus.
const (
	stateWaiting = "Waiting"
	stateHeld    = "Held" // another replica publishes it
)

// plan compares what this replica owns with what all replicas want, by the text of the units, and what it should own.
// It returns what to release, and what to take that is not being taken. What it should take waits from now on.
func (u *units) plan(
	wanted map[string]*Selected, mine func(engine.Unit) bool,
) (release []*owned, take []*Selected) {
	idle := u.idle()
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, o := range u.owned {
		if s := wanted[key]; s == nil && idle(o) || s != nil && (!s.same(o.selected) || !mine(s.Unit)) {
			release = append(release, o)
		}
	}
	before := u.waiting
	u.waiting = map[string]engine.UnitStatus{}
	for _, key := range sortedKeys(wanted) {
		s := wanted[key]
		if u.owned[key] != nil || !mine(s.Unit) {
			continue
		}
		status, known := before[key]
		if !known {
			status = engine.UnitStatus{Unit: s.Unit, State: stateWaiting, Problem: "being taken"}
		}
		u.waiting[key] = status
		if u.taking[key] == nil {
			take = append(take, s)
		}
	}
	return release, take
}

// cancel ends what takes units that this replica should not own any more. It does not wait.
func (u *units) cancel(wanted map[string]*Selected, mine func(engine.Unit) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, t := range u.taking {
		if s := wanted[key]; s == nil || !s.same(t.selected) || !mine(s.Unit) {
			t.cancel()
		}
	}
}

// isTaking reports whether a unit is being taken, or was canceled and has not ended.
func (u *units) isTaking(unit engine.Unit) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taking[unit.String()] != nil
}

// idle returns whether all events of a unit that were received are in the log. One that nobody wants, because its
// resource or namespace is gone, is not released before, as nobody would receive them again.
func (u *units) idle() func(*owned) bool {
	queued := map[string]int{}
	for _, s := range u.sources.Status().Sources {
		queued[s.Key] = s.Queued
	}
	return func(o *owned) bool { return queued[o.key] == 0 && u.publisher.isIdle(o) }
}

// start begins to take units, until ctx ends. It remembers why it can't take those that it can't.
func (u *units) start(ctx context.Context, all []*Selected) {
	if len(all) == 0 {
		return
	}
	u.mu.Lock()
	contexts := map[*Selected]context.Context{}
	for _, s := range all {
		t := &taking{selected: s}
		contexts[s], t.cancel = context.WithCancel(ctx)
		u.taking[s.Unit.String()] = t
	}
	u.mu.Unlock()
	u.running.Go(func() {
		entries, failed := u.claims.prepare(ctx, all)
		for _, s := range all {
			u.running.Go(func() {
				o, err := (*owned)(nil), failed
				if err == nil {
					o, err = u.takeInTurn(contexts[s], s, entries[s.Unit.Whole()])
				}
				u.took(s, o, err, contexts[s].Err() != nil)
			})
		}
	})
}

// takeInTurn takes a unit when fewer than concurrentTakes others are being taken.
func (u *units) takeInTurn(ctx context.Context, s *Selected, entries []engine.Entry) (*owned, error) {
	select {
	case u.free <- struct{}{}:
		defer func() { <-u.free }()
		return u.take(ctx, s, entries)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wait waits until no unit is being taken.
func (u *units) wait() { u.running.Wait() }

// took ends a take: o is the unit, or err says why there is none. The reason is logged when it is another one.
func (u *units) took(s *Selected, o *owned, err error, canceled bool) {
	if err == nil {
		u.own(o)
		u.claims.close(s.Unit)
	}
	key := s.Unit.String()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taking[key].cancel()
	delete(u.taking, key)
	before, wanted := u.waiting[key]
	if err == nil || canceled || !wanted {
		return
	}
	now := engine.UnitStatus{Unit: s.Unit, State: stateWaiting, Problem: err.Error()}
	if held := (*heldError)(nil); errors.As(err, &held) && u.isMember(held.owner) {
		now.State = stateHeld
	}
	u.waiting[key] = now
	if before.Problem != now.Problem && now.State != stateHeld {
		u.logger.Warn("a unit is not taken; trying again", "unit", key, "err", err)
	}
}

// take makes this replica the owner of a unit, and begins to watch it. entries are the positions of its resource.
func (u *units) take(ctx context.Context, s *Selected, entries []engine.Entry) (*owned, error) {
	uid, err := s.connection.UID(ctx)
	if err != nil {
		return nil, err
	}
	c, revision, err := u.claims.take(ctx, s.Unit, s.scope, entries)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	u.taking[s.Unit.String()].claimed = true
	u.mu.Unlock()
	position, err := u.resume(ctx, s, &c)
	if err != nil {
		return nil, err
	}
	opts, run := s.Options, stream.Run{Bookmarks: true}
	opts.Logger = u.logger
	if c.revision > 0 || len(position.Objects) > 0 {
		run.Start = stream.From(position)
	}
	source, err := stream.New(s.connection.Client, s.Resource, &opts)
	if err != nil {
		return nil, err
	}
	o := &owned{
		selected: s, key: fmt.Sprintf("%s#%d", s.Unit, c.position.Epoch), epoch: c.position.Epoch,
		ended: make(chan struct{}),
		encoder: message.NewEncoder(message.EncoderOptions{
			Cluster: s.connection.Name, ClusterUID: uid, Limit: func() int { return u.log.Limits().MessageBytes },
		}),
	}
	u.publisher.register(o, c.position, revision)
	if err := u.sources.Add(source.With(run), &mux.SourceOptions{Key: o.key}); err != nil {
		u.publisher.lose(o)
		return nil, err
	}
	u.logger.Info("took a unit", "unit", s.Unit.String(), "epoch", o.epoch, "resourceVersion",
		c.position.ResourceVersion, "objects", len(position.Objects))
	return o, nil
}

// resume returns the position from which to watch a unit: the objects are those whose last message is no deletion.
func (u *units) resume(ctx context.Context, s *Selected, c *claim) (checkpoint.Position, error) {
	p := checkpoint.Position{
		ResourceVersions: map[string]string{s.Unit.Namespace: c.position.ResourceVersion},
		Rewound:          c.position.Rewound,
	}
	messages, err := u.log.Objects(ctx, s.Unit, false)
	if err != nil {
		return p, fmt.Errorf("read the objects in the log: %w", err)
	}
	p.Objects = make([]checkpoint.Object, 0, len(messages))
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

// releaseAll ends the watches of units, publishes what was received, and lets others take them.
func (u *units) releaseAll(ctx context.Context, release []*owned) {
	each(release, func(o *owned) {
		u.sources.Remove(o.key)
		if err := u.publisher.release(ctx, o); err != nil {
			u.logger.Warn("a unit is not released yet", "unit", o.selected.Unit.String(), "err", err)
			return
		}
		u.forget(o)
		u.logger.Info("released a unit", "unit", o.selected.Unit.String(), "epoch", o.epoch)
	})
}

// dropTaken loses the units that others have taken, by the positions: the publisher notices only when something happens
// in them.
func (u *units) dropTaken(ctx context.Context) error {
	entries, err := u.log.Positions(ctx, engine.Unit{})
	if err != nil {
		return fmt.Errorf("read the positions: %w", err)
	}
	positions := map[engine.Unit]engine.Position{}
	for _, e := range entries {
		positions[e.Unit] = e.Position
	}
	for _, o := range u.all() {
		p := positions[o.selected.Unit]
		if p.Epoch > o.epoch || p.Epoch == o.epoch && p.Owner != u.claims.me {
			u.publisher.taken(o, p)
		}
	}
	u.dropLost()
	return nil
}

// dropLost ends the watches of units that others have taken.
func (u *units) dropLost() {
	for _, o := range u.all() {
		select {
		case <-o.ended:
			u.sources.Remove(o.key)
			u.forget(o)
		default:
		}
	}
}

func (u *units) own(o *owned) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := o.selected.Unit.String()
	u.owned[key] = o
	delete(u.waiting, key)
}

func (u *units) forget(o *owned) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.owned, o.selected.Unit.String())
}

// all returns the units that are owned, sorted.
func (u *units) all() []*owned {
	all, _ := u.both()
	return all
}

// both returns the units that are owned, and those that wait, both sorted.
func (u *units) both() (all []*owned, waiting []engine.UnitStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range sortedKeys(u.owned) {
		all = append(all, u.owned[key])
	}
	for _, key := range sortedKeys(u.waiting) {
		s := u.waiting[key]
		if t := u.taking[key]; t != nil && t.claimed { // not what an earlier take has said
			s.State, s.Problem = stateWaiting, "being taken: its objects are read from the log"
		}
		waiting = append(waiting, s)
	}
	return all, waiting
}

// status describes the units that are owned, and those that wait, both sorted.
func (u *units) status() (owned, waiting []engine.UnitStatus) {
	sources := map[string]mux.SourceStatus{}
	for _, s := range u.sources.Status().Sources {
		sources[s.Key] = s
	}
	all, waiting := u.both()
	for _, o := range all {
		owned = append(owned, u.publisher.status(o, sources[o.key]))
	}
	return owned, waiting
}
