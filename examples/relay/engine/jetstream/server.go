package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// Server keeps an embedded NATS server with JetStream running. The processes of a machine that start one with the same
// folder share it: one of them runs it, and when that process ends, another one does.
type Server struct {
	dir    string
	logger *slog.Logger
	cancel context.CancelFunc
	ended  chan struct{}
}

const (
	takeOverInterval = 250 * time.Millisecond
	restartPause     = 5 * time.Second // after a server could not write, or did not start
)

// StartServer runs a server on loopback that keeps its files in dir, and returns when it is ready, or another process
// runs one. Then it waits for the end of that one, until Stop is called. Use Connection.Dir to reach it: the port and
// the token that its clients need are other ones each time it starts.
func StartServer(ctx context.Context, dir string, logger *slog.Logger) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{dir: dir, logger: logger, cancel: cancel, ended: make(chan struct{})}
	h, err := s.host(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	go s.keep(running, h)
	return s, nil
}

// Stop ends the server, if this process runs it, and waits for its end.
func (s *Server) Stop() {
	s.cancel()
	<-s.ended
}

// keep runs a server until ctx ends, while no other process does. h is the one that runs, or nil.
func (s *Server) keep(ctx context.Context, h *host) {
	defer close(s.ended)
	for {
		if h == nil {
			sleep(ctx, takeOverInterval)
		} else {
			select {
			case <-ctx.Done():
			case cause := <-h.broken:
				s.logger.Warn("NATS can't write its files; starting it again", "in", restartPause, "err", cause)
				sleep(ctx, restartPause)
			}
			h.stop()
		}
		if ctx.Err() != nil {
			return
		}
		took := h == nil
		var err error
		if h, err = s.host(ctx); err != nil {
			s.logger.Error("NATS does not start; trying again", "in", restartPause, "dir", s.dir, "err", err)
			sleep(ctx, restartPause)
		} else if h != nil && took {
			s.logger.Info("this process runs NATS now: the one that did has ended", "dir", s.dir)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// host is a server that this process runs.
type host struct {
	server *server.Server
	dir    string
	lock   *flock.Flock
	broken chan error // has the cause if the server can't store messages any more
}

// host starts a server. It returns nil if another process runs one.
func (s *Server) host(ctx context.Context) (*host, error) {
	lock := flock.New(filepath.Join(s.dir, lockFile))
	if locked, err := lock.TryLock(); err != nil || !locked {
		return nil, err
	}
	h := &host{dir: s.dir, lock: lock, broken: make(chan error, 1)}
	// Whoever finds the lock held and an address must find that of the server that holds it.
	err := os.Remove(filepath.Join(s.dir, addressFile))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = h.start(ctx, s.logger)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return h, nil
}

func (h *host) start(ctx context.Context, logger *slog.Logger) error {
	if err := hasSpace(h.dir); err != nil {
		return fmt.Errorf("the folder has no space for NATS: %w", err)
	}
	token := rand.Text()
	s, err := server.NewServer(&server.Options{
		ServerName: "gvrwatch-relay", Host: "127.0.0.1", Port: -1, Authorization: token, JetStream: true,
		StoreDir: filepath.Join(h.dir, "jetstream"), SyncInterval: 10 * time.Second, MaxPayload: 8 << 20, NoSigs: true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return err
	}
	s.SetLoggerV2(&natsLogger{to: logger, broken: h.broken}, false, false, false)
	h.server = s
	s.Start()
	for !s.ReadyForConnections(100 * time.Millisecond) {
		if ctx.Err() != nil || !s.Running() {
			h.shutdown()
			return errors.New("the server does not become ready")
		}
	}
	if !s.JetStreamEnabled() {
		h.shutdown()
		return errors.New("JetStream did not start")
	}
	u := url.URL{Scheme: "nats", User: url.User(token), Host: s.Addr().String()}
	if err := writeAddress(h.dir, u.String()); err != nil {
		h.shutdown()
		return err
	}
	return nil
}

// hasSpace returns an error if a file of a MiB can't be written: a server that starts on a full disk leaves out streams
// that it can't recover.
func hasSpace(dir string) error {
	name := filepath.Join(dir, "space")
	return errors.Join(os.WriteFile(name, make([]byte, 1<<20), 0o600), os.Remove(name))
}

func (h *host) stop() {
	_ = os.Remove(filepath.Join(h.dir, addressFile)) // or the next server does
	h.shutdown()
	_ = h.lock.Unlock()
}

func (h *host) shutdown() {
	h.server.Shutdown()
	h.server.WaitForShutdown()
}

// natsLogger passes the server's log lines to a Logger.
type natsLogger struct {
	to     *slog.Logger
	broken chan<- error
	once   sync.Once
}

// What nats-server logs when a stream takes no more messages until the server starts again, also if there is space
// again (filestore.go and jetstream.go).
var unwritable = []string{"critical write error", "resource limits exceeded for server", "will be DISABLED"}

func (n *natsLogger) line(level slog.Level, format string, args []any) string {
	text := fmt.Sprintf(format, args...)
	n.to.Log(context.Background(), level, "nats: "+text)
	return text
}

func (n *natsLogger) Errorf(f string, a ...any) {
	line := n.line(slog.LevelError, f, a)
	for _, text := range unwritable {
		if strings.Contains(strings.ToLower(line), strings.ToLower(text)) {
			n.once.Do(func() { n.broken <- errors.New(line) })
		}
	}
}

func (n *natsLogger) Noticef(f string, a ...any) { n.line(slog.LevelDebug, f, a) }
func (n *natsLogger) Warnf(f string, a ...any)   { n.line(slog.LevelWarn, f, a) }
func (n *natsLogger) Fatalf(f string, a ...any)  { n.line(slog.LevelError, f, a) }
func (n *natsLogger) Debugf(f string, a ...any)  { n.line(slog.LevelDebug, f, a) }
func (n *natsLogger) Tracef(f string, a ...any)  { n.line(slog.LevelDebug, f, a) }
