package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// serveOrder makes the test binary run as an API server that can be killed. It is JSON in the environment variable
// serveVariable.
type serveOrder struct {
	Dir  string
	Port int
}

const serveVariable = "GVRWATCH_E2E_SERVE"

// serve runs until it receives SIGTERM.
func serve(order string) error {
	var o serveOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := devserver.Start(ctx, &devserver.Options{Dir: o.Dir, Port: o.Port})
	if err != nil {
		return err
	}
	fmt.Println(s.Port(), s.Kubeconfig())
	<-ctx.Done()
	return s.Stop()
}

// child is a server in a process of its own.
type child struct {
	t     *testing.T
	order serveOrder
	cmd   *exec.Cmd
	cfg   *rest.Config
}

func startChild(t *testing.T) *child {
	t.Helper()
	c := &child{t: t, order: serveOrder{Dir: t.TempDir()}}
	c.start()
	t.Cleanup(c.stop)
	return c
}

func (c *child) start() {
	c.t.Helper()
	order, err := json.Marshal(c.order)
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), serveVariable+"="+string(order))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var kubeconfig string
	if _, err := fmt.Fscan(out, &c.order.Port, &kubeconfig); err != nil {
		c.t.Fatal(err)
	}
	if c.cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		c.t.Fatal(err)
	}
	c.cfg.QPS = -1
}

func (c *child) stop() {
	c.cmd.Process.Signal(syscall.SIGTERM)
	c.cmd.Wait()
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// requestLog records when requests were sent, and counts them by kind.
type requestLog struct {
	mu    sync.Mutex
	at    []time.Time
	kinds map[string]int
}

func (r *requestLog) wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			kind := "list"
			switch v := q.URL.Query(); {
			case v.Get("sendInitialEvents") == "true":
				kind = "watch with initial events"
			case v.Get("watch") == "true":
				kind = "watch"
			case v.Get("limit") == "1":
				kind = "probe"
			}
			r.mu.Lock()
			r.at = append(r.at, time.Now())
			r.kinds[kind]++
			r.mu.Unlock()
			return next.RoundTrip(q)
		})
	})
	return cfg
}

// reset returns the times and a summary of the requests, and starts again from zero.
func (r *requestLog) reset() (at []time.Time, kinds string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, r.at = r.at, nil
	for _, k := range slices.Sorted(maps.Keys(r.kinds)) {
		kinds += fmt.Sprintf(" %d %s,", r.kinds[k], k)
	}
	r.kinds = map[string]int{}
	return at, strings.Trim(kinds, " ,")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestManySources runs 200 sources (-soak multiplies that, up to a thousand) with a few objects each: ten namespaces of
// many CRDs, or many namespaces of one CRD. It kills their server and starts it again.
func TestManySources(t *testing.T) {
	t.Parallel()
	sources := min(200*seedtest.Soak(), 1000)
	for _, crds := range []int{sources / 10, 1} {
		t.Run(fmt.Sprintf("%d CRDs in %d namespaces", crds, sources/crds), func(t *testing.T) {
			t.Parallel()
			manySources(t, crds, sources/crds)
		})
	}
}

func manySources(t *testing.T, crds, namespaces int) {
	const objects = 3
	sources := crds * namespaces
	srv := startChild(t)
	client := dynamic.NewForConfigOrDie(srv.cfg)
	var kinds []devserver.CRD
	for i := range crds {
		kinds = append(kinds, devserver.CRD{Group: "scale.example.com", Kind: fmt.Sprint("Kind", i), Namespaced: true})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	if err := devserver.CreateCRDs(ctx, client, kinds...); err != nil {
		t.Fatal(err)
	}
	createObjects(t, srv.cfg, kinds, namespaces, 0, objects)
	t.Logf("created all objects in %v", time.Since(began))

	counted := &requestLog{kinds: map[string]int{}}
	watching, err := stream.NewClient(counted.wrap(srv.cfg), nil)
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	m, err := mux.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range kinds {
		for n := range namespaces {
			r := gvr.Resource{
				GroupVersionResource: crd.Resource(), Kind: crd.Kind, Namespaced: true,
				Verbs: []string{"list", "watch"},
			}
			s, err := stream.New(watching, r, &stream.Options{Namespaces: []string{fmt.Sprint("ns-", n)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Add(s, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := newFollower(t)
	f.run(m)
	f.await("all SYNCED", func() bool { return m.Status().AllSynced })
	took := time.Since(began)
	_, requests := counted.reset()
	t.Logf("all SYNCED after %v, %s", took, requests)
	if took > time.Minute {
		t.Errorf("SYNCED of all sources took %v, want at most a minute", took)
	}

	// Kill the server, and start it again.
	srv.kill()
	f.await("no source streaming", func() bool {
		return !slices.ContainsFunc(m.Status().Sources, func(s mux.SourceStatus) bool {
			return s.State == stream.Streaming
		})
	})
	back := time.Now()
	srv.start()
	up := time.Now()
	createObjects(t, srv.cfg, kinds[:1], namespaces, objects, objects+1) // one more of the first kind in each namespace
	f.await("the objects created after the restart", func() bool {
		n := 0
		for source, events := range f.events {
			if !strings.HasPrefix(source, kinds[0].Resource().GroupResource().String()+" ") {
				continue
			}
			for _, ev := range events {
				if ev.Object != nil && ev.Object.GetName() == fmt.Sprint("o-", objects) {
					n++
					break
				}
			}
		}
		return n == namespaces
	})
	t.Logf("the server was up %v after the restart; all new objects were delivered %v later",
		up.Sub(back), time.Since(up))
	f.await("all streaming", func() bool {
		return !slices.ContainsFunc(m.Status().Sources, func(s mux.SourceStatus) bool {
			return s.State != stream.Streaming
		})
	})
	t.Logf("all %d sources were streaming %v after the server was up", sources, time.Since(up))
	at, requests := counted.reset()
	seconds := map[int]int{}
	most := 0
	for _, a := range at {
		s := int(a.Sub(up).Seconds() + 1000)
		seconds[s]++
		most = max(most, seconds[s])
	}
	var each []string
	for _, s := range slices.Sorted(maps.Keys(seconds)) {
		each = append(each, fmt.Sprintf("%d: %d", s-1000, seconds[s]))
	}
	t.Logf("since the kill: %d requests (%s); in each second relative to when the server was up: %s",
		len(at), requests, strings.Join(each, ", "))
	if most > 5*sources {
		t.Errorf("%d requests in one second, want at most %d", most, 5*sources)
	}
	f.stop()
	for source := range f.events {
		checkSequence(t, f.eventsOf(source))
	}

	// Follow has one source for each CRD.
	counted.reset()
	began = time.Now()
	f = followOn(t, counted.wrap(srv.cfg), follow.Selection{Resources: []string{"*.scale.example.com"}}, nil)
	f.await("all followed", func() bool { return len(f.events) == crds && f.mux.Status().AllSynced })
	_, requests = counted.reset()
	t.Logf("Follow: %d types SYNCED after %v, %s", crds, time.Since(began), requests)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("Follow took %v, want at most a minute", took)
	}
}

// createObjects creates objects of each CRD in each of a number of namespaces. Their names have the numbers from first
// to end-1.
func createObjects(t *testing.T, cfg *rest.Config, kinds []devserver.CRD, namespaces, first, end int) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(cfg)
	work := make(chan func() error)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for do := range work {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, crd := range kinds {
		for n := range namespaces {
			for o := first; o < end; o++ {
				work <- func() error {
					objects := client.Resource(crd.Resource()).Namespace(fmt.Sprint("ns-", n))
					object := newObject(crd, fmt.Sprint("o-", o))
					_, err := objects.Create(t.Context(), object, metav1.CreateOptions{})
					return err
				}
			}
		}
	}
	close(work)
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
