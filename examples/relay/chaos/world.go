package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// world is an API server, a NATS server and replicas of the relay, each a process.
type world struct {
	options   options
	dir       string
	apiserver *process
	nats      *process
	ports     struct{ apiserver, nats int }
	client    dynamic.Interface
	replicas  map[string]*replica
	started   int
	kills     []kill
	hung      []string // replicas that did not end
}

// kill is the end of a replica without a word.
type kill struct {
	replica string
	at      time.Time
}

// replica is a relay with proxies of its own.
type replica struct {
	process         *process
	apiserver, nats *proxy
	stopped         bool // by SIGSTOP
}

func (w *world) start(ctx context.Context) (err error) {
	for _, port := range []*int{&w.ports.apiserver, &w.ports.nats} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*port = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	if w.apiserver, err = startServer(w.dir, "apiserver", w.ports.apiserver, false); err != nil {
		return err
	}
	if w.nats, err = startServer(w.dir, "nats", w.ports.nats, false); err != nil {
		return err
	}
	err = w.retry(ctx, "connect to the API server", func() error {
		cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.dir, "apiserver", "kubeconfig"))
		if err != nil {
			return err
		}
		cfg.QPS, cfg.Timeout = -1, 10*time.Second
		if w.client, err = dynamic.NewForConfig(cfg); err != nil {
			return err
		}
		_, err = w.client.Resource(crds[0].Resource()).List(ctx, metav1.ListOptions{})
		if err != nil && strings.Contains(err.Error(), "could not find") {
			return devserver.CreateCRDs(ctx, w.client, crds...)
		}
		return err
	})
	for range w.options.number {
		if err == nil {
			err = w.startReplica()
		}
	}
	return err
}

// retry calls f until it succeeds, for half a minute.
func (w *world) retry(ctx context.Context, what string, f func() error) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *world) startReplica() error {
	w.started++
	id := fmt.Sprintf("r%d", w.started)
	r := &replica{}
	var err error
	if r.apiserver, err = startProxy(fmt.Sprintf("127.0.0.1:%d", w.ports.apiserver)); err != nil {
		return err
	}
	if r.nats, err = startProxy(fmt.Sprintf("127.0.0.1:%d", w.ports.nats)); err != nil {
		return err
	}
	k, err := clientcmd.LoadFromFile(filepath.Join(w.dir, "apiserver", "kubeconfig"))
	if err != nil {
		return err
	}
	for _, c := range k.Clusters {
		c.Server = "https://" + r.apiserver.address()
	}
	kubeconfig := filepath.Join(w.dir, id+".kubeconfig")
	if err := clientcmd.WriteToFile(*k, kubeconfig); err != nil {
		return err
	}
	// The path of the kubeconfig is not in the file: replicas with another configuration share no units.
	cfg := relay.Config{
		Selection: relay.Selection{Resources: []string{"*.chaos.example.com"}},
		Log:       relay.Log{History: 1 << 20, KeepDeleted: metav1.Duration{Duration: 24 * time.Hour}},
		Replica: relay.Replica{
			Lease: metav1.Duration{Duration: w.options.lease}, Grace: metav1.Duration{Duration: 20 * time.Second},
		},
		LogLevel: "debug",
	}
	data, err := yaml.Marshal(cfg)
	if err != nil {
		return err
	}
	file := filepath.Join(w.dir, "relay.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	r.process, err = startProcess(filepath.Join(w.dir, id+".log"), "env", "KUBECONFIG="+kubeconfig, w.options.relay,
		"--config", file, "--replica-id", id, "--nats", "nats://"+r.nats.address())
	w.replicas[id] = r
	return err
}

// pick returns a replica that is not stopped.
func (w *world) pick(r *rand.Rand) string {
	ids := slices.Sorted(maps.Keys(w.replicas))
	ids = slices.DeleteFunc(ids, func(id string) bool { return w.replicas[id].stopped })
	return ids[r.IntN(len(ids))]
}

func (w *world) endReplica(id string, s syscall.Signal) {
	if s == syscall.SIGKILL {
		w.kills = append(w.kills, kill{id, time.Now()})
	}
	if !w.replicas[id].process.end(s) {
		w.hung = append(w.hung, id+" has not ended after "+s.String())
	}
	w.replicas[id].apiserver.listener.Close()
	w.replicas[id].nats.listener.Close()
	delete(w.replicas, id)
}

// stop ends all processes.
func (w *world) stop() {
	for _, id := range slices.Sorted(maps.Keys(w.replicas)) {
		w.endReplica(id, syscall.SIGTERM)
	}
	for _, p := range []*process{w.nats, w.apiserver} {
		if p != nil {
			p.end(syscall.SIGTERM)
		}
	}
}

// panicked returns the replicas whose output says so.
func (w *world) panicked() ([]string, error) {
	var found []string
	for i := range w.started {
		data, err := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("r%d.log", i+1)))
		if err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("panic: ")) || bytes.Contains(data, []byte("fatal error: ")) {
			found = append(found, fmt.Sprintf("r%d has panicked", i+1))
		}
	}
	return found, nil
}

// view returns the objects that the log says exist.
func (w *world) view(ctx context.Context) (map[string]string, error) {
	log, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	entries, err := log.Positions(ctx, engine.Unit{})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range entries {
		objects, err := log.Objects(ctx, e.Unit, false)
		if err != nil {
			return nil, err
		}
		for _, m := range objects {
			if m.Type != engine.Deleted {
				all[m.UID] = m.ResourceVersion
			}
		}
	}
	return all, nil
}

func (w *world) connect(ctx context.Context) (*jetstream.Log, error) {
	return jetstream.Connect(ctx, jetstream.Options{
		Connection: jetstream.Connection{URL: fmt.Sprintf("nats://127.0.0.1:%d", w.ports.nats)}, ReadOnly: true,
	})
}

// readLog returns all messages and positions, in their order.
func (w *world) readLog(ctx context.Context) ([]record, error) {
	log, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var all []record
	for m, err := range log.Tail(ctx, engine.TailOptions{UntilEnd: true, All: true}) {
		if err != nil {
			return nil, err
		}
		ev, err := message.Decode(m.Data)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", m.Revision, err)
		}
		m.Data = nil
		all = append(all, record{message: &m, epoch: ev.Epoch, time: m.Time})
	}
	positions, err := positions(ctx, fmt.Sprintf("nats://127.0.0.1:%d", w.ports.nats))
	all = append(all, positions...)
	slices.SortFunc(all, func(a, b record) int { return int(a.revision()) - int(b.revision()) })
	return all, err
}

func (r record) revision() uint64 {
	if r.message != nil {
		return r.message.Revision
	}
	return r.position.Revision
}

// positions returns all positions that ever were: an engine.Log yields the last ones only.
func positions(ctx context.Context, url string) ([]record, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		return nil, err
	}
	c, err := js.OrderedConsumer(ctx, "K8S", natsjs.OrderedConsumerConfig{FilterSubjects: []string{"k8s-position.>"}})
	if err != nil {
		return nil, err
	}
	left := c.CachedInfo().NumPending
	it, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	var all []record
	for ; left > 0; left-- {
		m, err := it.Next(natsjs.NextMaxWait(10 * time.Second))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		tokens := strings.Split(m.Subject(), ".")
		if err != nil || len(tokens) != 5 {
			return nil, errors.Join(err, fmt.Errorf("subject %q", m.Subject()))
		}
		e := &engine.Entry{
			Unit: engine.Unit{
				Cluster: tokens[1], Group: strings.ReplaceAll(tokens[2], "_", "."), Resource: tokens[3],
			},
			Revision: meta.Sequence.Stream,
		}
		if err := json.Unmarshal(m.Data(), &e.Position); err != nil {
			return nil, err
		}
		all = append(all, record{position: e, time: meta.Timestamp})
	}
	return all, nil
}
