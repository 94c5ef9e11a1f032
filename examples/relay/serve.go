package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// running is what runs already, for metrics and health.
type running struct {
	log   atomic.Pointer[jetstream.Log]
	relay atomic.Pointer[relay.Relay]
}

func (r *running) connected() bool {
	log := r.log.Load()
	return log != nil && log.Connected()
}

func (r *running) status() engine.Member {
	if relay := r.relay.Load(); relay != nil {
		return relay.Status()
	}
	return engine.Member{}
}

func (r *running) ready() error {
	if relay := r.relay.Load(); relay != nil {
		return relay.Ready()
	}
	return errors.New("the relay waits for NATS")
}

func (r *running) healthy() error {
	if relay := r.relay.Load(); relay != nil {
		return relay.Healthy()
	}
	return nil
}

// startError returns the error of what a relay needs before it can run. A signal is a normal end.
func startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return failure{err}
}

// serve runs a relay until ctx ends. access are the flags with which other commands find the log.
func serve(ctx context.Context, cfg relay.Config, dev bool, access string, errOut io.Writer) error {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // Complete has checked it
	logger := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	// What the relay needs lives longer than ctx: when that ends, it publishes what it has received.
	var now running
	m := newMetrics(&cfg, &now)
	if cfg.Listen != "" {
		// Before NATS is there, so that a Pod that waits for it is alive.
		stop, err := listen(cfg.Listen, m, &now, logger)
		if err != nil {
			return failure{err}
		}
		defer stop()
	}
	if cfg.NATS.URL == "" {
		server, err := jetstream.StartServer(ctx, cfg.NATS.Dir, logger)
		if err != nil {
			return startError(ctx, err)
		}
		defer server.Stop()
	}
	log, err := jetstream.Connect(ctx, natsOptions(&cfg, logger))
	if err != nil {
		return startError(ctx, err)
	}
	defer log.Close()
	now.log.Store(log)
	opts := relay.Options{Logger: logger, Observer: m.observer()}
	if dev {
		dir := "" // temporary
		if cfg.NATS.Dir != "" {
			dir = filepath.Join(cfg.NATS.Dir, "dev")
		}
		c, stop, err := startDev(ctx, dir, logger)
		if err != nil {
			return startError(ctx, err)
		}
		defer stop()
		opts.Connections = []*relay.Connection{c}
	}
	r, err := relay.New(cfg, log, log, opts)
	if err != nil {
		return failure{err}
	}
	now.relay.Store(r)
	announce(logger, &cfg, access)
	if err := r.Run(ctx); err != nil {
		return failure{err}
	}
	logger.Info("all units are released")
	return nil
}

func announce(logger *slog.Logger, cfg *relay.Config, access string) {
	selected := slices.Concat(cfg.Selection.Resources, cfg.Selection.Categories)
	where := redactURLs(cfg.NATS.URL)
	if where == "" {
		where = cfg.NATS.Dir
	}
	logger.Info("relay", "replica", cfg.Replica.ID, "resources", strings.Join(selected, ","), "stream", cfg.Log.Stream,
		"in", where)
	logger.Info("in another shell", "messages", "relay tail"+access, "objects", "relay view TYPE"+access,
		"state", "relay status"+access)
}

// sameLog returns the flags of cmd with which another command finds the same log.
func sameLog(cmd *cobra.Command) string {
	var text strings.Builder
	cmd.Flags().Visit(func(f *pflag.Flag) {
		names := []string{"config", "nats", "creds", "ca", "cert", "key", "dir", "stream", "prefix"}
		if slices.Contains(names, f.Name) {
			value := f.Value.String()
			if f.Name == "nats" {
				value = redactURLs(value)
			}
			fmt.Fprintf(&text, " --%s %s", f.Name, quote(value))
		}
	})
	return text.String()
}

// quote returns s as one word of a shell.
func quote(s string) string {
	if strings.Trim(s, plain) == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:,@"

// redactURLs hides what lets somebody in: users and passwords, and tokens.
func redactURLs(list string) string { return userinfo.ReplaceAllString(list, "${1}xxxxx@") }

var userinfo = regexp.MustCompile(`(^|,|://)[^,/]*@`)

// listen serves metrics and health until stop is called.
func listen(address string, m *metrics, now *running, logger *slog.Logger) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("invalid listen %q: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.handler())
	for path, check := range map[string]func() error{"/readyz": now.ready, "/healthz": now.healthy} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("metrics and health are not served any more", "err", err)
		}
	}()
	logger.Info("serving /metrics, /readyz and /healthz", "address", l.Addr().String())
	return func() { _ = srv.Close(); <-done }, nil
}
