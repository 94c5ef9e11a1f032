// Package relay publishes what happens to the objects of clusters to a message engine, shared among replicas.
//
// A Relay watches with Streams, merged by a Mux. The publisher queues their events as messages, and publishes them in
// batches, each with the positions of its units. A unit is a resource of a cluster, or one namespace of it. Replicas
// share the units by rendezvous hashing among those that are members of the engine's Group. The position of a unit
// names its owner: a replica takes a unit by setting it, which fences the owner before. A unit that moves is drained
// and released before its next owner takes it, unless its owner is no longer a member.
//
// Each object has its last message in the log. A new owner reads these, and begins where the position is: with the
// changes since then or, if the server no longer knows them, with GAP and the differences.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Relay is one replica. In rounds it finds out which units it should own: wanted has what all replicas publish, members
// has who shares that. Units takes and releases them, with claims, which set their positions. What the sources yield of
// them goes to the publisher.
type Relay struct {
	config    Config
	log       engine.Log
	logger    *slog.Logger
	wanted    []*wanted // of each cluster
	sources   *mux.Mux
	publisher *publisher
	members   *membership
	units     *units
	rounds    *rounds
}

// Options are for New.
type Options struct {
	Logger   *slog.Logger // nil disables logging
	Observer *Observer    // nil disables it
	// Connections replace Config.Clusters.
	Connections []*Connection
}

// New returns a Relay. It starts nothing. cfg must be complete: see Config.Complete.
func New(cfg Config, log engine.Log, group engine.Group, opts Options) (*Relay, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &Relay{config: cfg, log: log, logger: opts.Logger}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	selector, err := newSelector(&cfg)
	if err != nil {
		return nil, err
	}
	connections := opts.Connections
	if len(connections) == 0 {
		if connections, err = ConnectAll(cfg.Clusters); err != nil {
			return nil, err
		}
	}
	wake := newSignal()
	for _, c := range connections {
		r.wanted = append(r.wanted, newWanted(c, selector, r.logger, wake.set))
	}
	r.sources, err = mux.New(&mux.Options{
		BufferBytes: cfg.Queue.Bytes / 2, Overflow: mux.Overflow(cfg.Queue.Overflow), Logger: r.logger,
		OnError: onError,
	})
	if err != nil {
		return nil, err
	}
	var o Observer
	if opts.Observer != nil {
		o = *opts.Observer
	}
	r.publisher = newPublisher(log, &cfg, o, r.logger, wake.set)
	r.members = &membership{
		group: group, status: r.Status, logger: r.logger,
		self: engine.Member{
			ID: cfg.Replica.ID, Config: cfg.shared(), Started: time.Now(), Lease: cfg.Replica.Lease.Duration,
		},
	}
	claims := &claims{log: log, me: cfg.Replica.ID, alive: r.members.alive}
	r.units = &units{
		log: log, claims: claims, sources: r.sources, publisher: r.publisher, isMember: r.members.isMember,
		logger: r.logger, owned: map[string]*owned{}, waiting: map[string]engine.UnitStatus{},
		taking: map[string]*taking{}, free: make(chan struct{}, concurrentTakes),
	}
	r.rounds = &rounds{
		lease: cfg.Replica.Lease.Duration, wanted: r.wanted, members: r.members, claims: claims, units: r.units,
		wake: wake, began: time.Now(),
	}
	return r, nil
}

// ConnectAll connects to clusters, or to the current one if there are none. It makes no request.
func ConnectAll(clusters []Cluster) ([]*Connection, error) {
	if len(clusters) == 0 {
		clusters = []Cluster{{}}
	}
	var all []*Connection
	for _, c := range clusters {
		made, err := Connect(c)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *Connection) bool { return other.Name == made.Name }) {
			return nil, fmt.Errorf("invalid clusters: name %q is used twice: must be unique", made.Name)
		}
		all = append(all, made)
	}
	return all, nil
}

func onError(key string, err error) mux.Decision {
	if panicked := (*stream.PanicError)(nil); errors.As(err, &panicked) {
		return mux.Fail
	}
	return mux.Retry // SourceStatus says why, and when
}

// Run publishes until ctx ends. Then it publishes what it has received, and releases its units: that takes at most
// Config.Replica.Grace. It also ends, with an error that wraps engine.ErrFailed, if the log can't be used any more. Run
// may be called once.
func (r *Relay) Run(ctx context.Context) error {
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var all sync.WaitGroup
	defer all.Wait()
	defer end(nil)
	for _, w := range r.wanted {
		all.Go(func() { w.run(inner) })
		all.Go(func() { w.finish(inner, r.log) })
	}
	all.Go(func() { r.publisher.run(inner) })
	all.Go(func() { r.members.beat(inner) })
	all.Go(func() { r.expire(inner) })
	all.Go(func() {
		for ev, err := range r.sources.Events(inner) {
			if err != nil {
				end(err)
				return
			}
			r.publisher.add(ev)
		}
	})
	all.Go(func() {
		select {
		case err := <-r.log.Failed():
			end(err)
		case <-inner.Done():
		}
	})
	r.rounds.run(ctx, inner)
	if inner.Err() != nil {
		return context.Cause(inner)
	}
	last, cancel := context.WithTimeoutCause(inner, r.config.Replica.Grace.Duration,
		fmt.Errorf("replica.grace (%v) has passed", r.config.Replica.Grace.Duration))
	defer cancel()
	return r.rounds.leave(last)
}

// expire removes what is left of deleted objects until ctx ends. One replica does.
func (r *Relay) expire(ctx context.Context) {
	keep := r.config.Log.KeepDeleted.Duration
	for {
		wait(ctx, min(keep/4, time.Hour))
		if ctx.Err() != nil {
			return
		}
		if !r.members.mayExpire() {
			continue
		}
		if err := r.log.Expire(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
			r.logger.Warn("deleted objects are not removed from the log; trying again later", "err", err)
		}
	}
}

// Status returns what this replica does.
func (r *Relay) Status() engine.Member {
	m := r.members.me()
	m.Units, m.Waiting = r.units.status()
	m.Problems = r.rounds.lastProblems()
	if err := r.publisher.problem(); err != nil {
		m.Refused = err.Error()
	}
	return m
}

// Ready returns nil if the engine accepts messages, as far as this replica and the others know, something is selected,
// the replica knows what it should own, and all of that is synced and not behind by more than a lease, or is published
// by another replica that has not released it yet. So a Deployment can replace replicas by those with another
// configuration, which wait until the others have ended. A cluster whose API server has not answered yet does not
// count, if another one's has.
func (r *Relay) Ready() error {
	if !r.rounds.settled() {
		return fmt.Errorf("the replica has not shared its work yet%s", because(r.rounds.lastProblems()))
	}
	if wanted, problems, _ := wantedUnits(r.wanted); len(wanted) == 0 && len(problems) > 0 {
		return fmt.Errorf("nothing is published%s", because(problems))
	}
	m := r.Status() // not before: a round may end in between, and what it takes must be seen
	if err := r.publisher.problem(); err != nil {
		return fmt.Errorf("the engine does not accept messages: %w", err)
	}
	if err := r.members.problem(r.publisher.idleFor(m.Lease)); err != nil {
		return err
	}
	for _, u := range m.Waiting {
		if u.State != stateHeld {
			return fmt.Errorf("%s is not taken: %s", u.Unit, u.Problem)
		}
	}
	for _, u := range m.Units {
		if !u.Synced {
			return errors.New(strings.TrimSuffix(fmt.Sprintf("%s is not synced: %s", u.Unit, u.Problem), ": "))
		}
		if u.Lag > m.Lease {
			return fmt.Errorf("%s is behind by %v, more than the lease of %v", u.Unit, u.Lag.Round(time.Second),
				m.Lease)
		}
	}
	return nil
}

func because(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return ": " + strings.Join(problems, "; ")
}

// Healthy reports whether Run makes progress. An engine or an API server that is down does not make it unhealthy.
func (r *Relay) Healthy() error {
	if last := r.rounds.lastBegan(); time.Since(last) > healthyRounds*r.config.Replica.Lease.Duration {
		return fmt.Errorf("the last round began at %s", last.Format(time.RFC3339))
	}
	return nil
}

const healthyRounds = 10 // leases that a round may take: taking many units takes time

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
