package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// world is what is being broken: etcd, API servers, a proxy in front of them, and writers. It derives what it does from
// a seed, but not how long that takes.
type world struct {
	seed        uint64
	dir         string
	log         *slog.Logger
	database    *database
	servers     [2]*server // the second one runs only during some faults
	proxy       *proxy
	definitions definitions
	faults      selection
	failed      error // of the harness; set by run
	writable    writable
	processes   processes
}

// writable are direct clients of the servers that run.
type writable struct {
	mu      sync.Mutex
	clients []dynamic.Interface
}

func (w *writable) set(clients []dynamic.Interface) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = clients
}

func (w *writable) get() []dynamic.Interface {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clients
}

// processes are those that faults may pause.
type processes struct {
	mu   sync.Mutex
	pids map[int]bool
}

// register permits a fault to pause a process, until remove is called. It must be called before the process is waited
// for.
func (p *processes) register(pid int) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pids[pid] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pids, pid)
	}
}

// signal sends a signal to all of them, and returns how many there are.
func (p *processes) signal(signal syscall.Signal) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.pids {
		syscall.Kill(pid, signal)
	}
	return len(p.pids)
}

// startTimeout bounds the start of a server.
const startTimeout = 30 * time.Second

// allRights is what the limited user may do between faults.
var allRights = rights{Cluster: true}

// startWorld returns once the servers are ready and the CRDs are served. It keeps its files in dir.
func startWorld(ctx context.Context, seed uint64, dir string, log *slog.Logger) (*world, error) {
	w := &world{seed: seed, dir: dir, log: log, definitions: newDefinitions()}
	w.processes.pids = map[int]bool{}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the world: %w", err), w.close())
	}
	return w, nil
}

func (w *world) start(ctx context.Context) error {
	var err error
	if w.database, err = openDatabase(ctx, w.dir, len(w.servers)); err != nil {
		return err
	}
	cache := w.seed%2 == 0
	for i := range w.servers {
		dir := filepath.Join(w.dir, fmt.Sprint("apiserver-", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		w.servers[i] = &server{order: serveOrder{
			Dir: dir, Etcd: w.database.relays[i].path, WatchCache: cache, Rights: allRights,
		}}
	}
	if err := w.servers[0].start(ctx); err != nil {
		return err
	}
	if err := w.servers[1].adopt(w.servers[0]); err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(w.servers[0].pemFile(), w.servers[0].pemFile())
	if err != nil {
		return err
	}
	if w.proxy, err = startProxy(certificate); err != nil {
		return err
	}
	if err := w.renewTokens()(); err != nil {
		return err
	}
	w.open(0)
	if err := w.definitions.apply(ctx, w.servers[0].client()); err != nil {
		return err
	}
	// Creating an object takes 2 s while its CRD is younger than that.
	if err := w.createAll(ctx, "first"); err != nil {
		return err
	}
	return w.copyDatabase(ctx)
}

// copyDatabase copies etcd's data, for a fault that restores it.
func (w *world) copyDatabase(ctx context.Context) error {
	if err := w.database.copy(ctx, 0); err != nil {
		return err
	}
	return w.servers[0].await(ctx)
}

// createAll creates an object of each type, in each namespace.
func (w *world) createAll(ctx context.Context, name string) error {
	for _, d := range w.definitions {
		in := []string{""}
		if d.info.Namespaced {
			in = namespaces
		}
		for _, namespace := range in {
			err := retry(ctx, "create "+name+" of "+d.info.resource(), func() error {
				one := &writer{info: d.info, clients: w.writable.get}
				objects, err := one.objects(namespace)
				if err != nil {
					return err
				}
				if _, err := objects.Get(ctx, name, metav1.GetOptions{}); err == nil {
					return nil
				}
				return one.create(ctx, objects, name, true)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// open directs clients and writers to servers.
func (w *world) open(servers ...int) {
	var backends []backend
	for _, i := range servers {
		backends = append(backends, w.servers[i].backend())
	}
	w.write(servers...)
	w.proxy.use(backends...)
}

// write directs only writers to servers.
func (w *world) write(servers ...int) {
	var clients []dynamic.Interface
	for _, i := range servers {
		clients = append(clients, dynamic.NewForConfigOrDie(w.servers[i].config()))
	}
	w.writable.set(clients)
}

// hide resets all connections and refuses new ones. Writers still reach the servers.
func (w *world) hide() {
	w.proxy.use()
	w.proxy.reset(everyConn)
}

// renewTokens makes the servers refuse the clients' bearer tokens. publish writes the new ones to the clients' files.
func (w *world) renewTokens() (publish func() error) {
	users := map[string]user{rand.Text(): adminUser, rand.Text(): limitedUser}
	w.proxy.accept(users)
	return func() error {
		for token, who := range users {
			file := who.tokenFile(w.dir)
			if err := os.WriteFile(file+".new", []byte(token), 0o600); err != nil {
				return err
			}
			if err := os.Rename(file+".new", file); err != nil {
				return err
			}
		}
		return nil
	}
}

// config is the configuration of an administrator, through the proxy. Its token is in a file, because it changes.
func (w *world) config(http2 bool) *rest.Config { return w.clientConfig(adminUser, http2) }

// limited is the configuration of a user whose rights change, through the proxy.
func (w *world) limited(http2 bool) *rest.Config { return w.clientConfig(limitedUser, http2) }

func (w *world) clientConfig(who user, http2 bool) *rest.Config {
	listener := w.proxy.http1
	if http2 {
		listener = w.proxy.http2
	}
	return &rest.Config{
		Host:            "https://" + listener.Addr().String(),
		BearerTokenFile: who.tokenFile(w.dir),
		TLSClientConfig: rest.TLSClientConfig{CAData: w.servers[0].certificate()},
		QPS:             -1,
	}
}

// failure returns why the harness failed, if it did. Then nothing that was recorded says anything about clients.
func (w *world) failure() error { return errors.Join(w.failed, w.database.truth.failure()) }

func (w *world) stop() {
	if err := w.close(); err != nil {
		w.log.Error("stop the world", "error", err)
	}
}

func (w *world) close() error {
	if w.proxy != nil {
		w.proxy.stop()
	}
	for _, s := range w.servers {
		if s != nil {
			s.kill()
		}
	}
	if w.database != nil {
		return w.database.close()
	}
	return nil
}
