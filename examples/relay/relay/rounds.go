package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

const concurrentTakes = 8 // and releases

// rounds make this replica own what it should, one round after the other.
type rounds struct {
	lease   time.Duration
	wanted  []*wanted // of each cluster
	members *membership
	claims  *claims
	units   *units
	wake    signal // the next round should begin at once

	mu       sync.Mutex
	problems []string
	known    bool      // a round has ended in which it was known what is wanted
	began    time.Time // of the last round
}

// run does rounds until ctx or inner ends. Then no unit is being taken any more.
func (r *rounds) run(ctx, inner context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer r.units.wait()
	defer stop()
	defer context.AfterFunc(inner, stop)()
	for ctx.Err() == nil {
		r.round(ctx)
		r.pause(ctx)
	}
}

// pause waits for the next round, or until there is something to do.
func (r *rounds) pause(ctx context.Context) {
	t := time.NewTimer(r.lease / 5)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

// round finds out who else there is, releases the units that others should own, and begins to take those that this
// replica should own, until running ends. What is not released within a lease, the next round repeats.
func (r *rounds) round(running context.Context) {
	ctx, end := context.WithTimeout(running, r.lease)
	defer end()
	r.units.dropLost()
	wanted, problems, known := wantedUnits(r.wanted)
	asked, cancel := r.members.ask(ctx)
	members, err := r.members.read(asked)
	if err != nil && asked.Err() != nil {
		err = context.Cause(asked)
	}
	cancel()
	if err == nil {
		err = r.claims.find(running) // once, and of as many units as there are
	}
	if err == nil && r.members.wasSilent() {
		err = r.units.dropTaken(running)
	}
	r.members.trust(&r.members.unread, "the engine does not say who shares the work; trying again", err)
	if err != nil {
		// What this replica owns it keeps: if others take it, its batches are refused.
		r.begin(append(problems, fmt.Sprintf("the engine does not say who shares the work: %v", err)))
		return
	}
	share := r.members.observe(members)
	r.units.cancel(wanted, share.mine)
	release, take := r.units.plan(wanted, share.mine)
	r.begin(append(problems, r.members.problems(take, share.others)...))
	var disown []engine.Unit
	for _, u := range r.claims.all() {
		if s := wanted[u.String()]; (s == nil || !share.mine(s.Unit)) && !r.units.isTaking(u) {
			disown = append(disown, u)
		}
	}
	each(disown, func(u engine.Unit) { r.claims.disown(ctx, u) })
	r.units.releaseAll(ctx, release)
	r.units.start(running, take)
	r.finish(known)
	if len(release) > 0 {
		r.members.join(ctx) // others see at once what they may take
	}
}

func (r *rounds) begin(problems []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.problems = time.Now(), problems
}

func (r *rounds) finish(known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
}

// leave releases everything.
func (r *rounds) leave(ctx context.Context) error {
	r.members.leave(ctx)
	r.units.releaseAll(ctx, r.units.all())
	for _, u := range r.claims.all() {
		r.claims.disown(ctx, u)
	}
	if left := len(r.units.all()); left > 0 {
		return fmt.Errorf("%d units are not released; others take them after the lease: %w", left, context.Cause(ctx))
	}
	return r.members.end(ctx)
}

// lastProblems returns what could not be found out in the last round.
func (r *rounds) lastProblems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.problems)
}

// settled reports whether the last round that ended knew what is wanted.
func (r *rounds) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known
}

// lastBegan returns when the last round began.
func (r *rounds) lastBegan() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.began
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

// signal has a value if there may be something to do.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
