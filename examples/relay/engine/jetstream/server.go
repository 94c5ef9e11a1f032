package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// ErrInUse is wrapped by the error of StartServer if a server with the folder runs. FindServer returns its URL.
var ErrInUse = errors.New("the folder is in use by a running server")

// Server is an embedded NATS server with JetStream.
type Server struct {
	server *server.Server
	lock   *flock.Flock
	url    string
}

const addressFile = "nats.json"

// address is what the file has, which only the owner can read.
type address struct {
	URL string `json:"url"`
}

// StartServer starts a server on loopback that keeps its files in dir, and returns when it is ready. Its clients need
// the token in its URL. It has the port of the last server with the same folder, if that is free.
func StartServer(ctx context.Context, dir string, logger *slog.Logger) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if locked, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	} else if !locked {
		return nil, fmt.Errorf("start NATS: %w: %s", ErrInUse, dir)
	}
	s, err := start(ctx, dir, logger)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start NATS: %w", err), lock.Unlock())
	}
	s.lock = lock
	return s, nil
}

func start(ctx context.Context, dir string, logger *slog.Logger) (*Server, error) {
	port, token := -1, rand.Text()
	if old, err := FindServer(dir); err == nil {
		if u, err := url.Parse(old); err == nil {
			port, _ = strconv.Atoi(u.Port())
			token = u.User.Username()
		}
	}
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", max(port, 0))); err != nil {
		port = -1
	} else {
		l.Close()
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "gvrwatch-relay", Host: "127.0.0.1", Port: port, Authorization: token, JetStream: true,
		StoreDir: filepath.Join(dir, "jetstream"), SyncInterval: 10 * time.Second, MaxPayload: 8 << 20, NoSigs: true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, err
	}
	s.SetLoggerV2(&natsLogger{logger}, false, false, false)
	s.Start()
	for !s.ReadyForConnections(100 * time.Millisecond) {
		if ctx.Err() != nil || !s.Running() {
			s.Shutdown()
			return nil, errors.New("the server does not become ready")
		}
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, errors.New("JetStream did not start")
	}
	u := url.URL{Scheme: "nats", User: url.User(token), Host: s.Addr().String()}
	data, err := json.Marshal(address{u.String()})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, addressFile), data, 0o600)
	}
	if err != nil {
		s.Shutdown()
		return nil, err
	}
	return &Server{server: s, url: u.String()}, nil
}

// FindServer returns the URL of the server that runs, or ran last, with a folder.
func FindServer(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, addressFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("no relay has run with the folder %s", dir)
	}
	if err != nil {
		return "", fmt.Errorf("find NATS: %w", err)
	}
	var a address
	if err := json.Unmarshal(data, &a); err != nil || a.URL == "" {
		return "", fmt.Errorf("find NATS: %s is damaged", filepath.Join(dir, addressFile))
	}
	return a.URL, nil
}

// URL returns the server's URL, with the token.
func (s *Server) URL() string { return s.url }

// Stop stops the server and waits for its end.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
	_ = s.lock.Unlock()
}

// natsLogger passes the server's log lines to a Logger.
type natsLogger struct{ to *slog.Logger }

func (n *natsLogger) line(level slog.Level, format string, args []any) {
	n.to.Log(context.Background(), level, "nats: "+fmt.Sprintf(format, args...))
}

func (n *natsLogger) Noticef(f string, a ...any) { n.line(slog.LevelDebug, f, a) }
func (n *natsLogger) Warnf(f string, a ...any)   { n.line(slog.LevelWarn, f, a) }
func (n *natsLogger) Errorf(f string, a ...any)  { n.line(slog.LevelError, f, a) }
func (n *natsLogger) Fatalf(f string, a ...any)  { n.line(slog.LevelError, f, a) }
func (n *natsLogger) Debugf(f string, a ...any)  { n.line(slog.LevelDebug, f, a) }
func (n *natsLogger) Tracef(f string, a ...any)  { n.line(slog.LevelDebug, f, a) }
