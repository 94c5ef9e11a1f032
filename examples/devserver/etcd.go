package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// maxSocketPath is the longest path of a Unix socket that every system takes:
// macOS has room for 104 bytes, Linux for 108, both with a final zero.
const maxSocketPath = 103

// etcdServer is an etcd of one member that listens on a Unix socket alone.
type etcdServer struct {
	etcd      *embed.Etcd
	socket    string
	socketDir string // to be removed, if not empty

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func startEtcd(ctx context.Context, dir string) (*etcdServer, error) {
	e := &etcdServer{conns: map[net.Conn]bool{}}
	data := filepath.Join(dir, "etcd")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(data, 0o700); err != nil { // the socket in it asks for no password
		return nil, err
	}
	if err := e.chooseSocket(data); err != nil {
		return nil, err
	}
	var err error
	if e.etcd, err = openEtcd(etcdConfig(data, e.socket)); err != nil {
		e.close()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
		return e, nil
	case err = <-e.etcd.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.close()
	return nil, fmt.Errorf("wait for etcd: %w", err)
}

// openEtcd starts etcd, which panics where it can't read its own files. That is
// no rare case: without fsync, the end of the machine may leave them damaged.
func openEtcd(c *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, dataError(c.Dir, p)
		}
	}()
	// The database is opened in a goroutine of etcd's, whose panic nobody can catch.
	if err := checkDatabase(filepath.Join(c.Dir, "member", "snap", "db")); err != nil {
		return nil, dataError(c.Dir, err)
	}
	if e, err = embed.StartEtcd(c); err != nil {
		return nil, dataError(c.Dir, err)
	}
	return e, nil
}

func dataError(dir string, cause any) error {
	return fmt.Errorf("etcd can't work with the data in %s (%v): if it is damaged, remove it to start anew", dir, cause)
}

// checkDatabase reads all of the database, and panics or fails if it is damaged.
func checkDatabase(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil // etcd makes a new one
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

// chooseSocket puts the socket in the data folder, or, if its path is too long
// for that, in a temporary folder.
func (e *etcdServer) chooseSocket(data string) error {
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
	// The single member has no peers. It keeps the address it is known by in the
	// cluster's membership, but nothing listens there.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.EnableGRPCGateway = false
	// Nobody contests the election: the shorter it is, the sooner etcd is ready.
	c.TickMs, c.ElectionMs = 10, 100
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger)
	return c
}

// dial connects to etcd, whatever the address. It remembers the connection,
// because etcd's close waits for clients to hang up.
func (e *etcdServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", e.socket)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	tracked := &trackedConn{Conn: conn, etcd: e}
	e.conns[tracked] = true
	return tracked, nil
}

type trackedConn struct {
	net.Conn
	etcd *etcdServer
}

func (c *trackedConn) Close() error {
	c.etcd.mu.Lock()
	delete(c.etcd.conns, c)
	c.etcd.mu.Unlock()
	return c.Conn.Close()
}

func (e *etcdServer) compact(ctx context.Context) error {
	_, err := e.etcd.Server.Compact(ctx, &etcdserverpb.CompactionRequest{
		Revision: e.etcd.Server.KV().Rev(),
		Physical: true,
	})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) { // nothing was written since the last one
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

func (e *etcdServer) close() {
	e.mu.Lock()
	e.closed = true
	for conn := range e.conns {
		conn.(*trackedConn).Conn.Close()
	}
	e.mu.Unlock()
	if e.etcd != nil {
		e.etcd.Close()
	}
	if e.socketDir != "" {
		os.RemoveAll(e.socketDir)
	}
}
