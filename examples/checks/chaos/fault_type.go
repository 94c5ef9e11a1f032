package main

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

func schemaChange(ctx context.Context, w *world, _ *rand.Rand) error {
	d := w.definitions.changing("schema")
	d.extra = !d.extra
	return w.change(ctx, d)
}

// change applies a CRD. If the watch cache is on, the API server ends the watches of the old one a second later.
func (w *world) change(ctx context.Context, d *definition) error {
	err := d.apply(ctx, w.servers[0].client())
	pause(ctx, 1200*time.Millisecond)
	return err
}

func recreate(ctx context.Context, w *world, r *rand.Rand) error {
	d := w.definitions.changing("recreated")
	if err := d.remove(ctx, w.servers[0].client()); err != nil {
		return err
	}
	pause(ctx, between(r, 0, 2*time.Second))
	return d.apply(ctx, w.servers[0].client())
}

// unserved stops serving a version that is not the only one.
func unserved(ctx context.Context, w *world, r *rand.Rand) error {
	d := w.definitions.changing("versions")
	d.unserved = []string{d.info.Versions[r.IntN(len(d.info.Versions))]}
	if err := d.apply(ctx, w.servers[0].client()); err != nil {
		return err
	}
	pause(ctx, between(r, 500*time.Millisecond, 3*time.Second))
	d.unserved = nil
	return d.apply(ctx, w.servers[0].client())
}

func storageChange(ctx context.Context, w *world, _ *rand.Rand) error {
	d := w.definitions.changing("versions")
	for _, version := range d.info.Versions {
		if version != d.storage {
			d.storage = version
			break
		}
	}
	return w.change(ctx, d)
}

func noRights(ctx context.Context, w *world, r *rand.Rand) error { return w.restrict(ctx, r, rights{}) }

func namespaceRights(ctx context.Context, w *world, r *rand.Rand) error {
	return w.restrict(ctx, r, rights{Namespaces: namespaces[:1+r.IntN(len(namespaces))]})
}

func listRights(ctx context.Context, w *world, r *rand.Rand) error {
	return w.restrict(ctx, r, rights{Cluster: true, NoWatch: true})
}

// restrict changes the rights of the limited user for a while, and ends the open watches, which would go on otherwise.
func (w *world) restrict(ctx context.Context, r *rand.Rand, to rights) error {
	if err := w.servers[0].allow(to); err != nil {
		return err
	}
	w.proxy.orderAll(frameOrder{})
	pause(ctx, between(r, time.Second, 4*time.Second))
	return w.servers[0].allow(allRights)
}

func pauseClients(ctx context.Context, w *world, r *rand.Rand) error {
	return w.pauseProcesses(ctx, r, func() error { return nil })
}

func pauseWhileCompacting(ctx context.Context, w *world, r *rand.Rand) error {
	return w.pauseProcesses(ctx, r, func() error { return w.database.compact(ctx) })
}

// pauseProcesses stops the registered processes for a while. Without any it returns at once.
func (w *world) pauseProcesses(ctx context.Context, r *rand.Rand, then func() error) error {
	if w.processes.signal(syscall.SIGSTOP) == 0 {
		return nil
	}
	defer w.processes.signal(syscall.SIGCONT)
	pause(ctx, between(r, time.Second, 4*time.Second))
	return then()
}
