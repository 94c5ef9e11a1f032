package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

// cluster is three NATS servers.
type cluster struct {
	t       *testing.T
	options []*server.Options
	running []*server.Server
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, running: make([]*server.Server, 3)}
	ports := freePorts(t, 6)
	var routes []*url.URL
	for i := range c.running {
		routes = append(routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(ports[i])})
	}
	for i := range c.running {
		c.options = append(c.options, &server.Options{
			ServerName: fmt.Sprintf("nats-%d", i), Host: "127.0.0.1", Port: ports[3+i], JetStream: true,
			StoreDir: t.TempDir(), NoSigs: true, NoLog: true, Routes: routes,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]},
		})
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.running {
			c.stop(i)
		}
	})
	c.await("a leader", func() bool {
		for _, s := range c.running {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == 3
			}
		}
		return false
	})
	return c
}

// freePorts returns ports that nobody listens on.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *cluster) start(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i])
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		c.t.Fatal("a server does not become ready")
	}
	c.running[i] = s
}

func (c *cluster) stop(i int) {
	c.running[i].Shutdown()
	c.running[i].WaitForShutdown()
}

func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	for began := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			c.t.Fatalf("no %s within a minute", what)
		}
	}
}

func (c *cluster) url() string {
	var all []string
	for _, o := range c.options {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return strings.Join(all, ",")
}

// TestCluster: while each server of a cluster is restarted, that which leads the stream first, each batch is published
// once.
func TestCluster(t *testing.T) {
	c := startCluster(t)
	log := connectWith(t, jetstream.Options{
		Connection: jetstream.Connection{URL: c.url()}, Create: jetstream.Create{Copies: 3},
	})
	conn, err := nats.Connect(c.url(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	// leader returns the server that leads the stream, or -1 until all copies are current.
	leader := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := js.Stream(ctx, "K8S")
		if err != nil || s.CachedInfo().Cluster == nil || len(s.CachedInfo().Cluster.Replicas) != 2 {
			return -1
		}
		for _, p := range s.CachedInfo().Cluster.Replicas {
			if !p.Current || p.Offline {
				return -1
			}
		}
		for i, o := range c.options {
			if o.ServerName == s.CachedInfo().Cluster.Leader {
				return i
			}
		}
		return -1
	}

	end, ended := make(chan struct{}), make(chan error)
	var want []engine.Message
	go func() {
		revision := uint64(0)
		for n := uint64(1); ; n++ {
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
			messages := []engine.Message{
				object(engine.Modified, "a", fmt.Sprintf("u%d", n/10), fmt.Sprint(2*n)),
				object(engine.Modified, "b", fmt.Sprintf("v%d", n/10), fmt.Sprint(2*n+1)),
			}
			want = append(want, messages...)
			var err error
			if revision, err = publishOnce(t.Context(), log, revision, n, messages); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range c.running {
		i := -1
		c.await("stream with three copies", func() bool { i = leader(); return i >= 0 })
		c.stop(i)
		c.await("other leader", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			s, err := js.Stream(ctx, "K8S")
			if err != nil || s.CachedInfo().Cluster == nil {
				return false
			}
			now := s.CachedInfo().Cluster.Leader
			return now != "" && now != c.options[i].ServerName
		})
		c.start(i)
	}
	c.await("stream with three copies", func() bool { return leader() >= 0 })
	close(end)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	// A server that has just come back may leave a read without an answer. The relay reads again then.
	var all, states []engine.Message
	c.await("tail", func() bool {
		all = nil
		for m, err := range log.Tail(t.Context(), engine.TailOptions{All: true, UntilEnd: true}) {
			if err != nil {
				return false
			}
			all = append(all, m)
		}
		return true
	})
	c.await("last states", func() (read bool) {
		states, err = log.Objects(t.Context(), pods, false)
		return err == nil
	})
	if diff := cmp.Diff(want, all, ignorePlace); diff != "" {
		t.Errorf("%d messages are published: -want +got:\n%s", len(want), diff)
	}
	last := map[string]string{}
	for _, m := range want {
		last[m.UID] = m.ResourceVersion
	}
	got := map[string]string{}
	for _, m := range states {
		got[m.UID] = m.ResourceVersion
	}
	if diff := cmp.Diff(last, got); diff != "" {
		t.Errorf("the last states: -want +got:\n%s", diff)
	}
}

// publishOnce publishes a batch, as the relay does: when it is refused, it may have been published by an earlier try.
func publishOnce(
	ctx context.Context, log engine.Log, revision, commit uint64, messages []engine.Message,
) (uint64, error) {
	part := engine.Part{
		Unit: pods, Revision: revision, Position: engine.Position{Owner: "me", Epoch: 1, Commit: commit},
		Messages: messages,
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, time.Second)
		revisions, err := log.Publish(try, []engine.Part{part})
		cancel()
		if err == nil {
			return revisions[0], nil
		}
		if errors.Is(err, engine.ErrFenced) {
			e, err := log.Position(ctx, pods)
			if err == nil && e.Position.Commit == commit {
				return e.Revision, nil
			}
			if err == nil && e.Revision != revision {
				return 0, fmt.Errorf("batch %d: the position has revision %d and %+v", commit, e.Revision, e.Position)
			}
		}
		if time.Since(began) > time.Minute {
			return 0, fmt.Errorf("batch %d: %w", commit, err)
		}
	}
}

// TestDirectGets: any copy answers direct gets, so a reader need not ask the leader. A Log does not use them: it reads
// what it has just written, through each server.
func TestDirectGets(t *testing.T) {
	c := startCluster(t)
	var logs []*jetstream.Log
	for url := range strings.SplitSeq(c.url(), ",") {
		logs = append(logs, connectWith(t, jetstream.Options{
			Connection: jetstream.Connection{URL: url}, Create: jetstream.Create{Copies: 3},
		}))
	}
	revision := uint64(0)
	for n := range uint64(400) {
		m := object(engine.Modified, "a", "u", fmt.Sprint(n+1))
		var err error
		if revision, err = publishOnce(t.Context(), logs[0], revision, n+1, []engine.Message{m}); err != nil {
			t.Fatal(err)
		}
		for i, log := range logs {
			e, err := log.Position(t.Context(), pods)
			if err != nil || e.Revision != revision || e.Position.Commit != n+1 {
				t.Fatalf("server %d: %+v, %v, want revision %d of commit %d", i, e, err, revision, n+1)
			}
		}
		all := objects(t, logs[n%3], pods, false)
		if len(all) != 1 || all[0].ResourceVersion != fmt.Sprint(n+1) {
			t.Fatalf("server %d: the objects are %+v, want version %d", n%3, all, n+1)
		}
	}
	conn, err := nats.Connect(c.url())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.await("copy with the last message", func() bool {
		m, err := conn.Request("$JS.API.DIRECT.GET.K8S.k8s.prod_eu.core.pods.a.u", nil, time.Second)
		return err == nil && string(m.Data) == "u@400"
	})
}
