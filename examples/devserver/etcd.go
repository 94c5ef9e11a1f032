package devserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// maxSocketPath is the longest path of a Unix socket that all systems accept: macOS has room for 104 bytes, Linux for
// 108, both including a final zero.
const maxSocketPath = 103

// Etcd is a running etcd with one member. It listens only on a Unix socket. Several API servers can use it, also those
// of other processes: see Options.Etcd.
type Etcd struct {
	etcd      *embed.Etcd
	socket    string
	socketDir string // removed by Stop, unless empty
}

// StartEtcd starts an etcd that stores its data in the folder "etcd" in dir, and returns once it is ready. Only one
// etcd at a time may use the folder; while none does, the folder may be copied or replaced. ctx bounds only the start.
//
// etcd logs like an API server of this process: see the package comment.
func StartEtcd(ctx context.Context, dir string) (*Etcd, error) {
	takeLogsOver()
	e := &Etcd{}
	data := filepath.Join(dir, "etcd")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(data, 0o700); err != nil { // the socket in it needs no authentication
		return nil, err
	}
	if err := e.chooseSocket(data); err != nil {
		return nil, err
	}
	var err error
	if e.etcd, err = openEtcd(etcdConfig(data, e.socket)); err != nil {
		e.Stop()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
		return e, nil
	case err = <-e.etcd.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.Stop()
	return nil, fmt.Errorf("wait for etcd: %w", err)
}

// openEtcd starts etcd. It turns the panic of an etcd that can't read its files into an error: without fsync, a crash
// of the machine may damage them.
func openEtcd(c *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, dataError(c.Dir, p)
		}
	}()
	// etcd opens the database in its own goroutine, where a panic can't be recovered: check it here first.
	if err := checkDatabase(filepath.Join(c.Dir, "member", "snap", "db")); err != nil {
		return nil, dataError(c.Dir, err)
	}
	if e, err = embed.StartEtcd(c); err != nil {
		return nil, dataError(c.Dir, err)
	}
	return e, nil
}

func dataError(dir string, cause any) error {
	return fmt.Errorf("etcd can't use the data in %s (%v): if it is damaged, remove it and start again", dir, cause)
}

// checkDatabase reads the whole database. It panics or returns an error if the database is damaged.
func checkDatabase(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil // etcd creates it
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
}

// chooseSocket places the socket in the data folder, or in a temporary folder if the path would be too long.
func (e *Etcd) chooseSocket(data string) error {
	if e.socket = filepath.Join(data, "sock"); len(e.socket) <= maxSocketPath {
		return nil
	}
	var err error
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		if e.socketDir, err = os.MkdirTemp(parent, "gvrwatch-etcd-"); err != nil {
			continue
		}
		if e.socket = filepath.Join(e.socketDir, "sock"); len(e.socket) <= maxSocketPath {
			return nil
		}
		err = errors.Join(fmt.Errorf("no path short enough for a Unix socket: %s", e.socket), os.Remove(e.socketDir))
	}
	return err
}

func etcdConfig(data, socket string) *embed.Config {
	c := embed.NewConfig()
	c.Dir = data
	client := url.URL{Scheme: "unix", Path: socket}
	c.ListenClientUrls = []url.URL{client}
	c.AdvertiseClientUrls = []url.URL{client}
	// The only member has no peers. The membership requires a peer address, but nothing listens there.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.EnableGRPCGateway = false
	// The only member always wins the election: a short timeout makes etcd ready sooner.
	c.TickMs, c.ElectionMs = 10, 100
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger)
	return c
}

// Socket returns the path of the Unix socket. Whoever can open it needs no authentication.
func (e *Etcd) Socket() string { return e.socket }

// KV returns etcd's keys with all their revisions since the last compaction.
func (e *Etcd) KV() mvcc.WatchableKV { return e.etcd.Server.KV() }

// Compact makes etcd discard all revisions before the current one, as an API server does every five minutes. See
// [Server.Compact].
func (e *Etcd) Compact(ctx context.Context) error {
	_, err := e.etcd.Server.Compact(ctx, &etcdserverpb.CompactionRequest{
		Revision: e.etcd.Server.KV().Rev(),
		Physical: true,
	})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) { // ErrCompacted: no writes since the last compaction
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// Stop stops etcd. It waits up to 5 s until all clients have disconnected, and then disconnects them.
func (e *Etcd) Stop() {
	if e.etcd != nil {
		e.etcd.Close()
	}
	if e.socketDir != "" {
		os.RemoveAll(e.socketDir)
	}
}
