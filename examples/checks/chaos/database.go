package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/lease"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// database is the etcd of the API servers. It runs in this process. Its methods are called by one goroutine at a time.
type database struct {
	dir    string
	truth  *truth
	etcd   *devserver.Etcd // nil while it does not run
	unread func()          // stops reading its history
	relays []*relay

	copied   int64     // revision of the copy
	restored time.Time // when the copy was used; zero if it was not
}

// openDatabase starts etcd, and as many sockets as there are API servers.
func openDatabase(ctx context.Context, dir string, servers int) (*database, error) {
	d := &database{dir: dir, truth: newTruth()}
	// The path of a socket must be short.
	sockets, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return nil, err
	}
	for i := range servers {
		r, err := startRelay(filepath.Join(sockets, string(rune('a'+i))))
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.relays = append(d.relays, r)
	}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *database) start(ctx context.Context) error {
	var err error
	if d.etcd, err = devserver.StartEtcd(ctx, d.dir); err != nil {
		return err
	}
	socket := d.etcd.Socket()
	for _, r := range d.relays {
		r.target.Store(&socket)
	}
	d.unread, err = d.truth.follow(d.etcd.KV())
	return err
}

// stop stops etcd under the API servers, after the truth has all of its history.
func (d *database) stop(ctx context.Context) error {
	if d.etcd == nil {
		return nil
	}
	for _, r := range d.relays {
		r.cut()
	}
	err := d.truth.await(ctx, d.etcd.KV().Rev())
	if d.unread != nil {
		d.unread()
	}
	d.etcd.Stop()
	d.etcd = nil
	return err
}

// compact discards all revisions before the current one. The truth has them.
func (d *database) compact(ctx context.Context) error {
	if err := d.truth.await(ctx, d.etcd.KV().Rev()); err != nil {
		return err
	}
	return d.etcd.Compact(ctx)
}

const (
	// aged is by how much the revision is raised after a copy.
	aged = 5000
	// lookBack is how long after a restore the revision is not raised: until all clients have been back.
	lookBack = 40 * time.Second
)

// restart stops etcd and starts it after a while. Unless the last restore is too recent, it makes a new copy.
func (d *database) restart(ctx context.Context, down time.Duration) error {
	if time.Since(d.restored) > lookBack {
		return d.copy(ctx, down)
	}
	if err := d.stop(ctx); err != nil {
		return err
	}
	pause(ctx, down)
	return d.start(ctx)
}

// copy stops etcd, copies its data, and starts it after a while. Then it raises etcd's revision, as if much had been
// written. When the copy is restored, all clients that have seen something since then have a version far above it: a
// client can't know of a restore when the versions have caught up.
func (d *database) copy(ctx context.Context, down time.Duration) error {
	if err := d.stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(d.copyDir()); err != nil {
		return err
	}
	d.truth.mu.Lock()
	d.copied, d.restored = d.truth.seen, time.Time{}
	d.truth.mu.Unlock()
	if err := os.CopyFS(d.copyDir(), os.DirFS(d.dataDir())); err != nil {
		return err
	}
	pause(ctx, down)
	if err := d.start(ctx); err != nil {
		return err
	}
	d.age()
	return nil
}

// age raises the revision, without etcd's log, which would take seconds.
func (d *database) age() {
	for range aged {
		d.etcd.KV().Put([]byte("chaos"), nil, lease.NoLease)
	}
}

// restore replaces the data of an etcd that does not run by the copy. A new epoch begins.
func (d *database) restore() error {
	if err := os.RemoveAll(d.dataDir()); err != nil {
		return err
	}
	if err := os.CopyFS(d.dataDir(), os.DirFS(d.copyDir())); err != nil {
		return err
	}
	d.truth.rewind(d.copied)
	d.restored = time.Now()
	return nil
}

func (d *database) dataDir() string { return filepath.Join(d.dir, "etcd") }

func (d *database) copyDir() string { return filepath.Join(d.dir, "copy") }

func (d *database) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := d.stop(ctx)
	for _, r := range d.relays {
		r.stop()
		os.RemoveAll(filepath.Dir(r.path))
	}
	return err
}
