package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// restart ends watches cleanly, as the API server does when it is stopped.
func restart(ctx context.Context, w *world, r *rand.Rand) error {
	return w.restart(ctx, r, w.servers[0].stop)
}

func kill(ctx context.Context, w *world, r *rand.Rand) error {
	return w.restart(ctx, r, w.servers[0].kill)
}

func watchCache(ctx context.Context, w *world, r *rand.Rand) error {
	for _, s := range w.servers {
		s.order.WatchCache = !s.order.WatchCache
	}
	return w.restart(ctx, r, w.servers[0].stop)
}

// restart ends the first server and starts it again.
func (w *world) restart(ctx context.Context, r *rand.Rand, end func()) error {
	end()
	w.hide()
	pause(ctx, between(r, 0, time.Second))
	return w.startServer(ctx)
}

// startServer starts the first server and lets clients and writers use it.
func (w *world) startServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := w.servers[0].start(ctx); err != nil {
		return err
	}
	if err := w.servers[0].await(ctx); err != nil {
		return err
	}
	w.open(0)
	return nil
}

// withTwo runs f while there are two servers, and clients are spread over both.
func (w *world) withTwo(ctx context.Context, f func(second *server)) error {
	second := w.servers[1]
	if err := second.start(ctx); err != nil {
		return err
	}
	defer second.stop()
	w.open(0, 1)
	w.proxy.reset(everyConn)
	pause(ctx, time.Second)
	f(second)
	w.open(0)
	w.proxy.reset(everyConn)
	return nil
}

// twoPaused pauses one server. Writers use the other one. Then all connections are cut, and clients may move to the
// server that was paused.
func twoPaused(ctx context.Context, w *world, r *rand.Rand) error {
	return w.withTwo(ctx, func(second *server) {
		w.write(0)
		second.pause()
		pause(ctx, between(r, 500*time.Millisecond, 2*time.Second))
		w.proxy.reset(everyConn)
		pause(ctx, between(r, 0, time.Second))
		second.resume()
		pause(ctx, between(r, 0, time.Second))
	})
}

// twoLagging lets the second server receive what etcd sends only after a while. Writers use the other one. Connections
// are cut several times, so that clients move from one to the other.
func twoLagging(ctx context.Context, w *world, r *rand.Rand) error {
	return w.withTwo(ctx, func(*server) {
		w.write(0)
		w.database.relays[1].lag(between(r, 200*time.Millisecond, 1500*time.Millisecond))
		for range 3 {
			pause(ctx, between(r, 300*time.Millisecond, time.Second))
			w.proxy.reset(everyConn)
		}
		w.database.relays[1].lag(0)
	})
}

// etcdRestart may also copy the data, for a later restore.
func etcdRestart(ctx context.Context, w *world, r *rand.Rand) error {
	if err := w.database.restart(ctx, between(r, 200*time.Millisecond, 2*time.Second)); err != nil {
		return err
	}
	return w.servers[0].await(ctx)
}

// etcdRestore begins with a new copy if the last one has been restored before.
func etcdRestore(ctx context.Context, w *world, r *rand.Rand) error {
	if last := w.database.restored; !last.IsZero() {
		pause(ctx, time.Until(last.Add(lookBack)))
		if err := w.copyDatabase(ctx); err != nil {
			return err
		}
		pause(ctx, between(r, time.Second, 3*time.Second))
	}
	if err := w.restore(ctx); err != nil {
		return err
	}
	if err := w.startServer(ctx); err != nil {
		return err
	}
	return w.definitions.apply(ctx, w.servers[0].client())
}

// etcdRestoreAhead lets the versions catch up while no client can connect.
func etcdRestoreAhead(ctx context.Context, w *world, _ *rand.Rand) error {
	before := w.database.etcd.KV().Rev()
	if err := w.restore(ctx); err != nil {
		return err
	}
	for w.database.etcd.KV().Rev() <= before {
		w.database.age()
	}
	if err := w.startServer(ctx); err != nil {
		return err
	}
	return w.definitions.apply(ctx, w.servers[0].client())
}

// restore restores etcd while no API server runs. The CRDs may be those of an earlier time.
func (w *world) restore(ctx context.Context) error {
	w.servers[0].kill()
	w.hide()
	if err := w.database.stop(ctx); err != nil {
		return err
	}
	if err := w.database.restore(); err != nil {
		return err
	}
	return w.database.start(ctx)
}

// compaction resets the connections, so that watches resume after it.
func compaction(ctx context.Context, w *world, _ *rand.Rand) error {
	w.proxy.reset(everyConn)
	return w.database.compact(ctx)
}

// compactionAway gives the writers time, so that the clients' versions expire.
func compactionAway(ctx context.Context, w *world, r *rand.Rand) error {
	w.hide()
	pause(ctx, between(r, 500*time.Millisecond, 2*time.Second))
	err := w.database.compact(ctx)
	w.open(0)
	return err
}
