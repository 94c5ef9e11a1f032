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

// maxSocketPath is the longest path of a Unix socket that all systems accept: macOS has room for 104 bytes, Linux for
// 108, both including a final zero.
const maxSocketPath = 103

// etcdServer is an etcd with one member. It listens only on a Unix socket.
type etcdServer struct {
	etcd      *embed.Etcd
	socket    string
	socketDir string // removed by close, unless empty

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
	if err := os.Chmod(data, 0o700); err != nil { // the socket in it needs no authentication
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

// dial connects to etcd and ignores the address. It records the connection so that close can close it: etcd waits for
// its clients to disconnect.
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
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) { // ErrCompacted: no writes since the last compaction
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
