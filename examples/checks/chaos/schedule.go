package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// faultPause is the time between two faults.
const faultPause = time.Second

// selection says which faults happen. The zero value means all but those marked byName.
type selection struct {
	only, without []string
}

// check returns an error if a name is unknown.
func (s selection) check() error {
	for _, name := range slices.Concat(s.only, s.without) {
		if !slices.ContainsFunc(faultKinds, func(k faultKind) bool { return k.name == name }) {
			return fmt.Errorf("unknown fault %q", name)
		}
	}
	return nil
}

func (s selection) kinds() []faultKind {
	return slices.DeleteFunc(slices.Clone(faultKinds), func(k faultKind) bool {
		if slices.Contains(s.without, k.name) {
			return true
		}
		return len(s.only) > 0 && !slices.Contains(s.only, k.name) || len(s.only) == 0 && k.byName
	})
}

// planned is a fault of the schedule. Its random numbers do not depend on the faults before it.
type planned struct {
	kind faultKind
	rand *rand.Rand
}

// plan returns the faults of a seed, in order, for ever: all kinds in a random order, then again in another.
func plan(seed uint64, kinds []faultKind) func() planned {
	order := rand.New(rand.NewPCG(seed, 1))
	var deck []faultKind
	n := uint64(0)
	return func() planned {
		if len(deck) == 0 {
			deck = slices.Clone(kinds)
			order.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		next := planned{deck[0], rand.New(rand.NewPCG(seed, 1000+n))}
		deck = deck[1:]
		n++
		return next
	}
}

// run writes and breaks for a while. Then it heals everything, writes a final object of every type, and returns when
// the truth has it. If the harness itself fails, it returns early: see failure.
func (w *world) run(ctx context.Context, d time.Duration) []fault {
	faults, err := w.breakFor(ctx, d)
	if err != nil {
		w.failed = err
		w.log.Error("the harness failed", "error", err)
	}
	return faults
}

func (w *world) breakFor(ctx context.Context, d time.Duration) ([]fault, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopWriters := w.startWriters(ctx)
	defer stopWriters()
	var faults []fault
	next := plan(w.seed, w.faults.kinds())
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		pause(ctx, faultPause)
		if time.Now().After(end) || len(w.faults.kinds()) == 0 {
			continue
		}
		f, err := w.cause(ctx, next())
		if err != nil {
			return faults, err
		}
		faults = append(faults, f)
	}
	if ctx.Err() != nil {
		return faults, context.Cause(ctx)
	}
	pause(ctx, faultPause)
	stopWriters()
	return faults, w.finish(ctx)
}

// cause causes a fault, and returns when it has ended.
func (w *world) cause(ctx context.Context, p planned) (fault, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	f := fault{Name: p.kind.name, From: time.Now()}
	w.log.Info("fault begins", "fault", p.kind.name, "what", p.kind.what)
	err := p.kind.cause(ctx, w, p.rand)
	f.To = time.Now()
	w.log.Info("fault ended", "fault", p.kind.name, "took", f.To.Sub(f.From).Round(time.Millisecond))
	if err != nil {
		return f, fmt.Errorf("fault %s: %w", p.kind.name, err)
	}
	return f, nil
}

// startWriters starts a writer for each type.
func (w *world) startWriters(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var writers sync.WaitGroup
	var all []*writer
	for i, info := range w.definitions.resources() {
		one := &writer{
			info: info, rand: rand.New(rand.NewPCG(w.seed, uint64(100+i))), clients: w.writable.get,
		}
		all = append(all, one)
		writers.Go(func() { one.run(ctx) })
	}
	return sync.OnceFunc(func() {
		cancel()
		writers.Wait()
		for _, one := range all {
			w.log.Info("writer", "resource", one.info.resource(), "tried", one.tried, "failed", one.failed)
		}
	})
}

// lastName is the name of the objects that are written when everything is healed.
const lastName = "last"

// finish writes the last objects and returns when the truth has them.
func (w *world) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.createAll(ctx, lastName); err != nil {
		return err
	}
	return w.database.truth.await(ctx, w.database.etcd.KV().Rev())
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
