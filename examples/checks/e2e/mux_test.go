package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// faultInjector makes the requests of some resources fail or hang.
type faultInjector struct {
	mu      sync.Mutex
	kind    string // "" (none), "500" or "hanging"
	plurals []string
	changed chan struct{} // closed at the next change, which makes hanging requests fail
}

func newFaultInjector() *faultInjector { return &faultInjector{changed: make(chan struct{})} }

func (tr *faultInjector) set(kind string, plurals ...string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.kind, tr.plurals = kind, plurals
	close(tr.changed)
	tr.changed = make(chan struct{})
}

func (tr *faultInjector) wrap(cfg *rest.Config) *rest.Config {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return faultTransport{next, tr} })
	return cfg
}

type faultTransport struct {
	next http.RoundTripper
	*faultInjector
}

func (t faultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	kind, changed := t.kind, t.changed
	if !slices.Contains(t.plurals, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]) {
		kind = ""
	}
	t.mu.Unlock()
	switch kind {
	case "500":
		return &http.Response{
			StatusCode: 500, Status: "500 Internal Server Error", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: http.NoBody, Request: r,
		}, nil
	case "hanging":
		select {
		case <-changed:
			return nil, errors.New("the request hung")
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	return t.next.RoundTrip(r)
}

func TestFaultsOfOneTypeDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	rights := &permissions{cluster: true, crds: true}
	srv := startServer(t, &devserver.Options{Allow: rights.allow})
	group := unique("trouble") + ".example.com"
	types := map[string]*workload{}
	for _, kind := range []string{"Good", "Fine", "Bad"} {
		types[kind] = startWorkload(t, srv, devserver.CRD{Group: group, Kind: kind, Namespaced: true}, "a", "b")
	}
	tr := newFaultInjector()
	sel := follow.Selection{Resources: []string{"*." + group}}
	f := followOn(t, tr.wrap(srv.LimitedConfig()), sel, &follow.Options{
		Source: shortWatches,
	})
	for _, s := range types {
		f.awaitSynced(s.source, 0)
		s.writer.start(20)
	}
	for _, s := range types {
		s.awaitVersion(f, "v1")
	}
	for _, what := range []string{"none", "403", "500", "hanging"} {
		began := time.Now()
		switch what {
		case "403":
			rights.deny("bads")
		case "500", "hanging":
			tr.set(what, "bads")
		}
		var delays []time.Duration
		bad := 0
		f.await("four seconds, and 50 writes to the others", func() bool {
			delays = nil
			for _, kind := range []string{"Good", "Fine"} {
				delays = append(delays, types[kind].writer.delays(began, f.events[types[kind].source])...)
			}
			bad = len(types["Bad"].writer.delays(began.Add(2*time.Second), f.events[types["Bad"].source]))
			return time.Since(began) > 4*time.Second && len(delays) >= 50
		})
		rights.deny()
		tr.set("")
		slices.Sort(delays)
		worst := delays[len(delays)-1]
		t.Logf("fault %s: the delays of %d writes to the others were %v (median), %v (p99), %v (maximum); "+
			"%d writes to bads were delivered after the first 2 s",
			what, len(delays), delays[len(delays)/2], delays[len(delays)*99/100], worst, bad)
		if worst > maxAttachTime {
			t.Errorf("fault %s: a write to the others was delivered after %v, want at most %v",
				what, worst, maxAttachTime)
		}
		if (what != "none") != (bad == 0) {
			t.Errorf("fault %s: %d writes to bads were delivered during it", what, bad)
		}
		t.Logf("bads resumed %v after the fault", types["Bad"].awaitVersion(f, "v1"))
	}
	for _, s := range types {
		s.finish(true, map[string]*follower{s.source: f})
	}
}

func TestHangingTypesDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	// More types hang than may read their snapshots at the same time.
	srv := startServer(t, nil)
	group := unique("hanging") + ".example.com"
	d := &definitions{t, newCluster(t, srv.Config()).client}
	var hanging []string
	for i := range 4 {
		crd := devserver.CRD{Group: group, Kind: fmt.Sprint("Bad", i), Namespaced: true}
		d.create(crd)
		hanging = append(hanging, crd.Resource().Resource)
	}
	good := devserver.CRD{Group: group, Kind: "Good", Namespaced: true}
	tr := newFaultInjector()
	tr.set("hanging", hanging...)
	sel := follow.Selection{Resources: []string{"*." + group}}
	f := followOn(t, tr.wrap(srv.Config()), sel, &follow.Options{Mux: mux.Options{ConcurrentSnapshots: 2}})
	f.await("the hanging types to be listed", func() bool {
		listing := 0
		for _, s := range f.mux.Status().Sources {
			if s.State == stream.Listing {
				listing++
			}
		}
		return listing == len(hanging)
	})
	began := d.create(good)
	_, synced := f.awaitSynced(sourceOf(good), 0)
	took := synced.at.Sub(began)
	t.Logf("SYNCED %v after the first list with 200, two snapshots at a time, beside %d types that hang", took,
		len(hanging))
	if took > 10*time.Second {
		t.Errorf("SYNCED took %v beside types that hang, want at most 10s", took)
	}
}

// libraryGoroutines returns the stacks of the goroutines that run code of this library's packages.
func libraryGoroutines() []string {
	buffer := make([]byte, 1<<24)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var found []string
	for _, g := range strings.Split(string(buffer), "\n\n") {
		for _, p := range []string{"mux", "stream", "discovery", "checkpoint"} {
			if strings.Contains(g, "github.com/gvrwatch/gvrwatch/"+p+".") {
				found = append(found, g)
				break
			}
		}
	}
	return found
}

// awaitWatches waits until client-go has at most n open watches. Other goroutines can't be counted, because the server
// runs in the same process.
func awaitWatches(t *testing.T, n int) {
	t.Helper()
	if !poll(t.Context(), 20*time.Second, func() bool { return watches() <= n }) {
		t.Errorf("%d watches are open, want at most %d as before", watches(), n)
	}
}

// watches returns the number of client-go's open watches.
func watches() int {
	buffer := make([]byte, 1<<24)
	buffer = buffer[:runtime.Stack(buffer, true)]
	return strings.Count(string(buffer), "created by k8s.io/apimachinery/pkg/watch.NewStreamWatcher")
}

func TestNoGoroutineIsLeft(t *testing.T) {
	boom := errors.New("boom")
	rights := &permissions{cluster: true}
	srv := startServer(t, &devserver.Options{Allow: rights.allow})
	group := unique("left") + ".example.com"
	d := &definitions{t, newCluster(t, srv.Config()).client}
	for i := range 5 {
		d.create(devserver.CRD{Group: group, Kind: fmt.Sprint("Kind", i), Namespaced: true})
	}
	for _, test := range []struct {
		name string
		// body is called for each event once all sources are synced. If it returns false, the loop breaks.
		body    func(m *mux.Mux, cancel context.CancelCauseFunc) bool
		source  func(gvr.Resource) (stream.Options, stream.Run)
		wantErr error
	}{
		{name: "break", body: func(*mux.Mux, context.CancelCauseFunc) bool { return false }},
		{name: "Stop", body: func(m *mux.Mux, _ context.CancelCauseFunc) bool { m.Stop(); return true }},
		{name: "Drain", body: func(m *mux.Mux, _ context.CancelCauseFunc) bool { m.Drain(); return true }},
		{name: "the context ends", body: func(_ *mux.Mux, cancel context.CancelCauseFunc) bool {
			cancel(boom)
			return true
		}, wantErr: boom},
		{name: "panic", body: func(*mux.Mux, context.CancelCauseFunc) bool { panic(boom) }, wantErr: boom},
		{name: "a source fails", source: func(r gvr.Resource) (o stream.Options, run stream.Run) {
			if r.Kind == "Kind3" {
				o.Requests.PageSize = -1
			}
			return o, run
		}, wantErr: errSource},
	} {
		for _, byNamespace := range []bool{false, true} {
			name := test.name + ", across the cluster"
			if byNamespace {
				name = test.name + ", by namespaces"
			}
			t.Run(name, func(t *testing.T) {
				rights.set(!byNamespace, "a", "b")
				// Only the second run counts, because the first one makes the server create its watch caches.
				var before int
				for round := range 2 {
					transports := &closer{}
					before = watches()
					err := runUntilSynced(t, transports.wrap(srv.LimitedConfig()), group, test.source, test.body)
					if left := libraryGoroutines(); len(left) > 0 {
						t.Fatalf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
					}
					if !errors.Is(err, test.wantErr) {
						t.Errorf("the run ended with %v, want %v", err, test.wantErr)
					}
					transports.close()
					if round > 0 {
						awaitWatches(t, before)
					}
				}
			})
		}
	}
}

// errSource stands for any [*mux.SourceError].
var errSource = errors.New("a source failed")

// runUntilSynced follows a group, calls body for each event once all sources are synced, and returns the error of the
// run.
func runUntilSynced(
	t *testing.T, cfg *rest.Config, group string,
	source func(gvr.Resource) (stream.Options, stream.Run), body func(*mux.Mux, context.CancelCauseFunc) bool,
) (err error) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	sel := follow.Selection{Resources: []string{"*." + group}, CandidateNamespaces: []string{"a", "b"}}
	m := newFollow(t, cfg, sel, follow.Options{Source: source})
	defer func() {
		if p := recover(); p != nil {
			err = p.(error)
		}
	}()
	synced := map[string]bool{}
	for ev, rangeErr := range m.Events(ctx) {
		var failed *mux.SourceError
		if errors.As(rangeErr, &failed) {
			return errSource
		}
		if rangeErr != nil {
			return rangeErr
		}
		if ev.Type == stream.Synced {
			synced[mux.SourceOf(ev)] = true
		}
		if len(synced) == 5 && m.Status().AllSynced && !body(m, cancel) {
			break
		}
	}
	return nil
}

// closer closes the idle connections of clients.
type closer struct {
	mu  sync.Mutex
	all []http.RoundTripper
}

func (c *closer) wrap(cfg *rest.Config) *rest.Config {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, next)
		return next
	})
	return cfg
}

func (c *closer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.all {
		if i, ok := t.(interface{ CloseIdleConnections() }); ok {
			i.CloseIdleConnections()
		}
	}
}
