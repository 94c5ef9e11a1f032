package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// world is an API server, a NATS server and replicas of the relay, each a process, and a hostile API server in this
// process.
type world struct {
	options   options
	dir       string
	disk      *disk // of NATS; nil if none can be mounted
	apiserver *process
	nats      *process // nil if replicas run it
	ports     struct{ apiserver, nats int }
	client    dynamic.Interface
	cluster   string // the name of the real one
	hostile   *streamtest.Server
	served    *httptest.Server // the hostile one
	replicas  map[string]*replica
	sampler   *sampler
	started   int
	happened  happened
}

// happened is what the judges need to know.
type happened struct {
	kills    []kill
	hung     []string // replicas that did not end
	outages  []outage
	silent   []interval // an API server was
	excused  []interval // samples say nothing
	toHost   int        // how many faults were those of the replica that ran NATS
	peak     int64      // of the memory of a replica, in bytes
	greatest string     // which one
}

// kill is the end of a replica without a word.
type kill struct {
	replica string
	at      time.Time
}

// replica is a relay with proxies of its own.
type replica struct {
	process         *process
	apiserver, nats *proxy // nats is nil if replicas run NATS
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
	if w.disk, err = mountDisk(filepath.Join(w.dir, "nats")); err != nil {
		fmt.Println("no disk of its own for NATS, so it is never full:", err)
		w.disk = nil
	}
	if !w.options.embedded {
		if w.nats, err = startServer(w.dir, "nats", w.ports.nats, false); err != nil {
			return err
		}
	}
	w.hostile, w.served = startHostile()
	err = retry(ctx, "connect to the API server", func() error {
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
	w.sampler = &sampler{
		status:   func(ctx context.Context) *exec.Cmd { return w.command(ctx, "status", "-o", "json") },
		replicas: map[string]*probe{},
	}
	for range w.options.number {
		if err == nil {
			err = w.startReplica()
		}
	}
	return err
}

// natsURL returns where NATS is now.
func (w *world) natsURL() (string, error) {
	if w.options.embedded {
		return jetstream.FindServer(filepath.Join(w.dir, "nats"))
	}
	return fmt.Sprintf("nats://127.0.0.1:%d", w.ports.nats), nil
}

// command returns a command of the relay that reads its log, with the kubeconfig of the real cluster.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	where := []string{"--nats", fmt.Sprintf("nats://127.0.0.1:%d", w.ports.nats)}
	if w.options.embedded {
		where = []string{"--dir", filepath.Join(w.dir, "nats")}
	}
	cmd := exec.CommandContext(ctx, w.options.relay, slices.Concat(args, where)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(w.dir, "apiserver", "kubeconfig"))
	return cmd
}

// verify runs relay verify for the real cluster.
func (w *world) verify(ctx context.Context) error {
	cmd := w.command(ctx, "verify", "--config", w.config(), "--context", w.cluster)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.2000s", err, out)
	}
	return nil
}

// host returns the replica that runs NATS, or nothing: the one that has locked the folder.
func (w *world) host() string {
	var lock syscall.Stat_t
	if !w.options.embedded || syscall.Stat(filepath.Join(w.dir, "nats", "lock"), &lock) != nil {
		return ""
	}
	data, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(data)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 00:2f:5678 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" || !strings.HasSuffix(f[5], fmt.Sprintf(":%d", lock.Ino)) {
			continue
		}
		for id, r := range w.replicas {
			if fmt.Sprint(r.process.Process.Pid) == f[4] {
				return id
			}
		}
	}
	return ""
}

// retry calls f until it succeeds, for half a minute.
func retry(ctx context.Context, what string, f func() error) error {
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
	where := []string{"--dir", filepath.Join(w.dir, "nats")}
	if !w.options.embedded {
		if r.nats, err = startProxy(fmt.Sprintf("127.0.0.1:%d", w.ports.nats)); err != nil {
			return err
		}
		where = []string{"--nats", "nats://" + r.nats.address()}
	}
	k, err := clientcmd.LoadFromFile(filepath.Join(w.dir, "apiserver", "kubeconfig"))
	if err != nil {
		return err
	}
	for _, c := range k.Clusters {
		c.Server = "https://" + r.apiserver.address()
	}
	w.cluster = k.CurrentContext
	k.Clusters[hostileCluster] = &api.Cluster{Server: w.served.URL}
	k.Contexts[hostileCluster] = &api.Context{Cluster: hostileCluster}
	kubeconfig := filepath.Join(w.dir, id+".kubeconfig")
	if err := clientcmd.WriteToFile(*k, kubeconfig); err != nil {
		return err
	}
	// The path of the kubeconfig is not in the file: replicas with another configuration share no units.
	cfg := relay.Config{
		Clusters:  []relay.Cluster{{Context: w.cluster}, {Context: hostileCluster}},
		Selection: relay.Selection{Resources: []string{"*.chaos.example.com"}},
		Rules:     []relay.Rule{{Resource: "*.chaos.example.com", Redact: []string{"$..password"}}},
		Log:       relay.Log{History: 1 << 20, KeepDeleted: metav1.Duration{Duration: 24 * time.Hour}},
		Replica: relay.Replica{
			Lease: metav1.Duration{Duration: w.options.lease}, Grace: metav1.Duration{Duration: 20 * time.Second},
		},
		Listen: "127.0.0.1:0", LogLevel: "debug",
	}
	data, err := yaml.Marshal(cfg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.config(), data, 0o600); err != nil {
		return err
	}
	log := filepath.Join(w.dir, id+".log")
	args := []string{"KUBECONFIG=" + kubeconfig, w.options.relay, "--config", w.config(), "--replica-id", id}
	if r.process, err = startProcess(log, "env", slices.Concat(args, where)...); err != nil {
		return err
	}
	w.replicas[id] = r
	w.sampler.add(id, log)
	return nil
}

func (w *world) config() string { return filepath.Join(w.dir, "relay.yaml") }

// pick returns a replica: in a third of the cases that which runs NATS, if one does.
func (w *world) pick(r *rand.Rand) string {
	ids := slices.Sorted(maps.Keys(w.replicas))
	chosen, host := ids[r.IntN(len(ids))], w.host()
	if r.IntN(3) == 0 && host != "" {
		chosen = host
	}
	if chosen == host {
		w.happened.toHost++
	}
	return chosen
}

func (w *world) endReplica(id string, s syscall.Signal) {
	r := w.replicas[id]
	if s == syscall.SIGKILL {
		w.happened.kills = append(w.happened.kills, kill{id, time.Now()})
	}
	if peak := r.process.peak(); peak > w.happened.peak {
		w.happened.peak, w.happened.greatest = peak, id
	}
	w.sampler.remove(id)
	if !r.process.end(s) {
		w.happened.hung = append(w.happened.hung, id+" has not ended after "+s.String())
	}
	r.apiserver.listener.Close()
	if r.nats != nil {
		r.nats.listener.Close()
	}
	delete(w.replicas, id)
}

// stop ends all processes by a signal.
func (w *world) stop(s syscall.Signal) {
	for _, id := range slices.Sorted(maps.Keys(w.replicas)) {
		w.endReplica(id, s)
	}
	for _, p := range []*process{w.nats, w.apiserver} {
		if p != nil {
			p.end(s)
		}
	}
	if w.served != nil {
		w.served.Close()
		w.hostile.Close()
		w.served = nil
	}
}

// logs returns what the replicas have logged.
func (w *world) logs() (all [][]byte, err error) {
	for i := range w.started {
		data, err := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("r%d.log", i+1)))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// panicked returns the replicas whose output says so.
func (w *world) panicked() (found []string, err error) {
	logs, err := w.logs()
	for i, data := range logs {
		if bytes.Contains(data, []byte("panic: ")) || bytes.Contains(data, []byte("fatal error: ")) {
			found = append(found, fmt.Sprintf("r%d has panicked", i+1))
		}
	}
	return found, err
}
