package main

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault breaks something for a time. It returns when that is healed.
type fault struct {
	name   string
	weight int
	run    func(ctx context.Context, w *world, r *rand.Rand) error
}

var faults = []fault{
	{"replica killed", 4, func(ctx context.Context, w *world, r *rand.Rand) error {
		w.endReplica(w.pick(r), syscall.SIGKILL)
		pause(ctx, 5*w.options.lease/2) // the others take its units
		return w.startReplica()
	}},
	{"replica stopped (SIGSTOP)", 4, func(ctx context.Context, w *world, r *rand.Rand) error {
		one := w.replicas[w.pick(r)].process
		if err := one.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		pause(ctx, some(r, 3*w.options.lease))
		return one.Process.Signal(syscall.SIGCONT)
	}},
	{"replica restarted", 2, func(ctx context.Context, w *world, r *rand.Rand) error {
		w.endReplica(w.pick(r), syscall.SIGTERM)
		pause(ctx, some(r, w.options.lease))
		return w.startReplica()
	}},
	{"NATS restarted", 2, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartNATS(ctx, syscall.SIGTERM, some(r, 2*w.options.lease))
	}},
	{"NATS killed", 2, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartNATS(ctx, syscall.SIGKILL, some(r, 2*w.options.lease))
	}},
	{"API server restarted", 2, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartAPIServer(ctx, syscall.SIGTERM, some(r, w.options.lease), false)
	}},
	{"API server killed, compaction", 3, func(ctx context.Context, w *world, r *rand.Rand) error {
		return w.restartAPIServer(ctx, syscall.SIGKILL, some(r, w.options.lease), true)
	}},
	{"partition: replica, NATS", 3, func(ctx context.Context, w *world, r *rand.Rand) error {
		p := w.replicas[w.pick(r)].nats
		p.partition()
		pause(ctx, some(r, 3*w.options.lease))
		p.heal(r.IntN(2) == 0)
		return nil
	}},
	{"partition: replica, API server", 3, func(ctx context.Context, w *world, r *rand.Rand) error {
		p := w.replicas[w.pick(r)].apiserver
		p.partition()
		pause(ctx, some(r, 3*w.options.lease))
		p.heal(r.IntN(2) == 0)
		return nil
	}},
	{"partition and API server restarted, compaction", 2, func(ctx context.Context, w *world, r *rand.Rand) error {
		p := w.replicas[w.pick(r)].nats
		p.partition()
		defer p.heal(true)
		return w.restartAPIServer(ctx, syscall.SIGTERM, some(r, w.options.lease), true)
	}},
	{"replica stopped and NATS killed", 2, func(ctx context.Context, w *world, r *rand.Rand) error {
		one := w.replicas[w.pick(r)].process
		if err := one.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := w.restartNATS(ctx, syscall.SIGKILL, some(r, w.options.lease))
		pause(ctx, some(r, 2*w.options.lease))
		_ = one.Process.Signal(syscall.SIGCONT)
		return err
	}},
}

// choose returns a fault, by weight.
func choose(r *rand.Rand) fault {
	sum := 0
	for _, f := range faults {
		sum += f.weight
	}
	n := r.IntN(sum)
	for _, f := range faults {
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

func (w *world) restartNATS(ctx context.Context, s syscall.Signal, down time.Duration) (err error) {
	w.nats.end(s)
	pause(ctx, down)
	w.nats, err = startServer(w.dir, "nats", w.ports.nats, false)
	return err
}

func (w *world) restartAPIServer(ctx context.Context, s syscall.Signal, down time.Duration, compact bool) (err error) {
	w.apiserver.end(s)
	pause(ctx, down)
	w.apiserver, err = startServer(w.dir, "apiserver", w.ports.apiserver, compact)
	return err
}
