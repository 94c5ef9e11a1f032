package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault breaks something for a time. It returns when that is healed.
type fault struct {
	name   string
	weight int
	needs  need
	run    func(ctx context.Context, w *world, r *rand.Rand) error
}

// need is what a fault can't do without.
type need int

const (
	nothing need = iota
	aServer      // NATS in a process of its own, with a proxy for each replica
	aDisk        // the data of NATS on a disk of its own
)

var faults = []fault{
	{"replica killed", 4, nothing, func(ctx context.Context, w *world, r *rand.Rand) error {
		w.endReplica(w.pick(r), syscall.SIGKILL)
		pause(ctx, 5*w.options.lease/2) // the others take its units
		return w.startReplica()
	}},
	{"replica stopped (SIGSTOP)", 4, nothing, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.stopped(w.pick(r), func() error {
			pause(ctx, some(r, 3*w.options.lease))
			return nil
		})
	}},
	{"replica restarted", 2, nothing, func(ctx context.Context, w *world, r *rand.Rand) error {
		w.endReplica(w.pick(r), syscall.SIGTERM)
		pause(ctx, some(r, w.options.lease))
		return w.startReplica()
	}},
	{"NATS restarted", 2, aServer, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartNATS(ctx, syscall.SIGTERM, down(r, w.options.lease))
	}},
	{"NATS killed", 2, aServer, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartNATS(ctx, syscall.SIGKILL, down(r, w.options.lease))
	}},
	{"NATS slowed", 2, aServer, func(ctx context.Context, w *world, r *rand.Rand) error {
		rate := 50_000 + r.IntN(150_000)
		for _, one := range w.replicas {
			one.nats.slow(rate)
			defer one.nats.slow(0)
		}
		pause(ctx, 4*w.options.lease)
		return nil
	}},
	{"NATS's disk full", 2, aDisk, func(ctx context.Context, w *world, _ *rand.Rand) error {
		from := time.Now()
		if err := w.disk.fill(); err != nil {
			return err
		}
		pause(ctx, 4*w.options.lease)
		w.outage("NATS's disk is full", "", from)
		if err := w.disk.free(); err != nil || w.options.embedded {
			return err // the replica that runs NATS starts it again
		}
		return w.restartNATS(ctx, syscall.SIGTERM, 0)
	}},
	{"API server restarted", 2, nothing, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartAPIServer(ctx, syscall.SIGTERM, some(r, w.options.lease), false)
	}},
	{"API server killed, compaction", 3, nothing, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartAPIServer(ctx, syscall.SIGKILL, some(r, w.options.lease), true)
	}},
	{"partition: replica, NATS", 3, aServer, func(ctx context.Context, w *world, r *rand.Rand) error {
		id, from := w.pick(r), time.Now()
		p := w.replicas[id].nats
		p.partition()
		pause(ctx, down(r, w.options.lease))
		w.outage("partition", id, from)
		p.heal(r.IntN(2) == 0)
		return nil
	}},
	{"partition: replica, API server", 3, nothing, func(ctx context.Context, w *world, r *rand.Rand) error {
		from := time.Now()
		p := w.replicas[w.pick(r)].apiserver
		p.partition()
		pause(ctx, some(r, 3*w.options.lease))
		p.heal(r.IntN(2) == 0)
		w.happened.silent = append(w.happened.silent, interval{from, time.Now()})
		return nil
	}},
	{"partition and API server restarted, compaction", 2, aServer, partitionAndCompaction},
	{"replica stopped and NATS killed", 2, aServer, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.stopped(w.pick(r), func() error {
			err := w.restartNATS(ctx, syscall.SIGKILL, some(r, w.options.lease))
			pause(ctx, some(r, 2*w.options.lease))
			return err
		})
	}},
}

// possible returns the faults that have what they need.
func possible(embedded, hasDisk bool) []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return f.needs == aServer && embedded || f.needs == aDisk && !hasDisk
	})
}

// plan returns which faults occur, one after the other: first each of all once, so that a short run meets most of them,
// then what chance chooses, by weight.
func plan(all []fault, r *rand.Rand) func() fault {
	first := slices.Clone(all)
	r.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	return func() fault {
		if len(first) > 0 {
			f := first[0]
			first = first[1:]
			return f
		}
		return choose(all, r)
	}
}

// choose returns a fault, by weight.
func choose(all []fault, r *rand.Rand) fault {
	sum := 0
	for _, f := range all {
		sum += f.weight
	}
	n := r.IntN(sum)
	for _, f := range all {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("unreachable")
}

// some returns a random part of a duration.
func some(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func partitionAndCompaction(ctx context.Context, w *world, r *rand.Rand) error {
	id, from := w.pick(r), time.Now()
	p := w.replicas[id].nats
	p.partition()
	err := w.restartAPIServer(ctx, syscall.SIGTERM, some(r, w.options.lease), true)
	w.outage("partition", id, from)
	p.heal(true)
	return err
}

// down returns how long NATS can't be used: half the time, long enough to judge what is said of that.
func down(r *rand.Rand, lease time.Duration) time.Duration {
	if r.IntN(2) == 0 {
		return 4 * lease
	}
	return some(r, 2*lease)
}

// outage records that NATS could not be used until now, by one replica or by all.
func (w *world) outage(what, replica string, from time.Time) {
	w.happened.outages = append(w.happened.outages, outage{interval{from, time.Now()}, what, replica})
}

// stopped stops a replica while f runs. If NATS runs in it, nobody can use that.
func (w *world) stopped(id string, f func() error) error {
	one, hosts, from := w.replicas[id].process, w.host() == id, time.Now()
	w.sampler.stopped(id, true)
	if err := one.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := f()
	if hosts {
		w.outage("the replica that runs NATS is stopped", "", from)
		// What the others have sent meanwhile arrives late, as if it were of now.
		w.happened.excused = append(w.happened.excused, interval{from, time.Now().Add(w.options.lease)})
	}
	_ = one.Process.Signal(syscall.SIGCONT)
	w.sampler.stopped(id, false)
	return err
}

func (w *world) restartNATS(ctx context.Context, s syscall.Signal, down time.Duration) (err error) {
	w.nats.end(s)
	from := time.Now()
	pause(ctx, down)
	w.outage("NATS has ended", "", from)
	w.nats, err = startServer(w.dir, "nats", w.ports.nats, false)
	return err
}

func (w *world) restartAPIServer(ctx context.Context, s syscall.Signal, down time.Duration, compact bool) (err error) {
	from := time.Now()
	w.apiserver.end(s)
	pause(ctx, down)
	w.apiserver, err = startServer(w.dir, "apiserver", w.ports.apiserver, compact)
	w.happened.silent = append(w.happened.silent, interval{from, time.Now()})
	return err
}
