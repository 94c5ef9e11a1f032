package mux_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// player is what random tests share: a server, what is done to it, a database that
// follows the events, and a log of all that.
type player struct {
	*testing.T
	*rand.Rand
	srv        *streamtest.Server
	resources  []gvr.Resource
	namespaces []string
	database   map[string]string // UID@VERSION by RESOURCE NAMESPACE/NAME

	mu  sync.Mutex
	log []string
}

func newPlayer(t *testing.T, seed, test uint64, resources []gvr.Resource, namespaces ...string) *player {
	return &player{T: t, Rand: rand.New(rand.NewPCG(seed, test)), srv: streamtest.NewServer(resources...),
		resources: resources, namespaces: namespaces, database: map[string]string{}}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (p *player) chance(percent int) bool { return p.IntN(100) < percent }

func (p *player) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// historyText is a history, one change a line.
func historyText(h streamtest.History) string {
	var b strings.Builder
	for _, c := range h.Changes {
		fmt.Fprintf(&b, "%s %s %s/%s(%s)@%s\n", c.At.Format("04:05.000"), c.Type,
			c.Object.GetNamespace(), c.Object.GetName(), c.Object.GetUID(), c.ResourceVersion)
	}
	return b.String()
}

// do does something to the server.
func (p *player) do(whats ...string) {
	for _, what := range whats {
		p.note("%s", what)
		if err := p.srv.Do(what); err != nil {
			p.Error(err)
		}
	}
}

// write changes an object, or none: what is not served can't be changed.
func (p *player) write(r *rand.Rand) {
	defer func() { _ = recover() }() // that is how Put says so
	res, namespace, name := pick(r, p.resources...), pick(r, p.namespaces...), string(rune('a'+r.IntN(4)))
	if r.IntN(3) == 0 {
		if _, err := p.srv.Delete(res, namespace, name); err != nil || r.IntN(3) > 0 {
			return
		}
	}
	p.srv.Put(res, namespace, name, "labels.colour="+pick(r, "red", "blue"), fmt.Sprint("spec.n=", r.IntN(1000)))
}

// writes writes up to some times.
func (p *player) writes(r *rand.Rand, most int) {
	for range r.IntN(most + 1) {
		p.write(r)
	}
}

// faults lets the server have up to some faults of these kinds.
func (p *player) faults(most int, kinds ...string) {
	for range p.IntN(most + 1) {
		n, in := 1+p.IntN(pick(p.Rand, 4, 40)), ""
		if p.chance(40) {
			n, in = 1+p.IntN(8), " in "+pick(p.Rand, p.namespaces...)
		}
		of := pick(p.Rand, p.resources...).GroupVersionResource.Resource
		trigger := pick(p.Rand, "list", "page", "probe", "watch", "initial", "any")
		fault := fmt.Sprintf("%s %s %d-%d%s: %s", of, trigger, n, n+p.IntN(3), in, pick(p.Rand, kinds...))
		p.note("%s", fault)
		if err := p.srv.Apply(fault); err != nil {
			p.Fatal(err)
		}
	}
}

func nameOf(resource string, o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", resource, o.GetNamespace(), o.GetName())
}

// enter does to the database what an event says. It returns the uid of the object that
// another one has replaced, if there was one.
func (p *player) enter(ev stream.Event) (replaced string) {
	if ev.Object == nil {
		return ""
	}
	name, uid := nameOf(ev.Resource.Resource, ev.Object), string(ev.Object.GetUID())
	was, _, _ := strings.Cut(p.database[name], "@")
	switch {
	case ev.Type != stream.Deleted:
		p.database[name] = uid + "@" + ev.ResourceVersion
		if was != uid {
			return was
		}
	case was == uid:
		delete(p.database, name)
	}
	return ""
}

// checkDatabase holds the database to what exists and is selected.
func (p *player) checkDatabase(selected func(*unstructured.Unstructured) bool) {
	want := map[string]string{}
	for _, r := range p.resources {
		h := p.srv.History(r, nil)
		for _, o := range h.At(len(h.Rewinds), "1000000000") {
			if selected == nil || selected(o) {
				want[nameOf(r.Resource, o)] = string(o.GetUID()) + "@" + o.GetResourceVersion()
			}
		}
	}
	if !maps.Equal(want, p.database) {
		p.Errorf("the database has %v\nwant %v", p.database, want)
	}
}

// mortal is a Store of a program that may be killed.
type mortal struct {
	checkpoint.Store
	mu   sync.Mutex
	dead bool
}

func (m *mortal) Commit(ctx context.Context, d []checkpoint.Delta) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return &checkpoint.FencedError{Store: "the store", Holder: "the next run"}
	}
	return m.Store.Commit(ctx, d)
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// position is what a store keeps of a resource.
func position(t *testing.T, store checkpoint.Store, r gvr.Resource) *checkpoint.Position {
	t.Helper()
	c, err := store.Load(t.Context(), r.GroupResource().String())
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return nil
	}
	return &c.Position
}
