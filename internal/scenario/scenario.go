// Package scenario holds what random tests of several packages share: a scripted server, random changes of it, a
// database that applies events, and a store that can be killed.
package scenario

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

// Scenario is one random run: a server, a database that applies the events of its objects, and a log.
type Scenario struct {
	*testing.T
	*rand.Rand
	Server     *streamtest.Server
	Resources  []gvr.Resource
	Namespaces []string
	Log        []string // after the run

	database map[string]string // UID@VERSION by RESOURCE NAMESPACE/NAME
	mu       sync.Mutex        // guards Log
}

// New returns a Scenario for one seed of a test, with a server of these resources.
func New(t *testing.T, seed, test uint64, resources []gvr.Resource, namespaces ...string) *Scenario {
	return &Scenario{
		T: t, Rand: rand.New(rand.NewPCG(seed, test)), Server: streamtest.NewServer(resources...),
		Resources: resources, Namespaces: namespaces, database: map[string]string{},
	}
}

// Pick returns one of the values.
func Pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// Chance returns true in so many percent of the calls.
func (s *Scenario) Chance(percent int) bool { return s.IntN(100) < percent }

// Note adds a line to the log.
func (s *Scenario) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Log = append(s.Log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// HistoryText returns a history, one change a line.
func HistoryText(h streamtest.History) string {
	var b strings.Builder
	for _, c := range h.Changes {
		fmt.Fprintf(&b, "%s %s %s/%s(%s)@%s\n", c.At.Format("04:05.000"), c.Type,
			c.Object.GetNamespace(), c.Object.GetName(), c.Object.GetUID(), c.ResourceVersion)
	}
	return b.String()
}

// Do sends commands to the server.
func (s *Scenario) Do(whats ...string) {
	for _, what := range whats {
		s.Note("%s", what)
		if err := s.Server.Do(what); err != nil {
			s.Error(err)
		}
	}
}

// write writes or deletes an object, unless its resource is not served.
func (s *Scenario) write(r *rand.Rand) {
	defer func() { _ = recover() }() // Put panics if the resource is not served
	res, namespace, name := Pick(r, s.Resources...), Pick(r, s.Namespaces...), string(rune('a'+r.IntN(4)))
	if r.IntN(3) == 0 {
		if _, err := s.Server.Delete(res, namespace, name); err != nil || r.IntN(3) > 0 {
			return
		}
	}
	s.Server.Put(res, namespace, name, "labels.colour="+Pick(r, "red", "blue"), fmt.Sprint("spec.n=", r.IntN(1000)))
}

// Writes changes up to most objects.
func (s *Scenario) Writes(r *rand.Rand, most int) {
	for range r.IntN(most + 1) {
		s.write(r)
	}
}

// Faults gives the server up to most faults of these kinds.
func (s *Scenario) Faults(most int, kinds ...string) {
	for range s.IntN(most + 1) {
		n, in := 1+s.IntN(Pick(s.Rand, 4, 40)), ""
		if s.Chance(40) {
			n, in = 1+s.IntN(8), " in "+Pick(s.Rand, s.Namespaces...)
		}
		of := Pick(s.Rand, s.Resources...).GroupVersionResource.Resource
		trigger := Pick(s.Rand, "list", "page", "probe", "watch", "initial", "any")
		fault := fmt.Sprintf("%s %s %d-%d%s: %s", of, trigger, n, n+s.IntN(3), in, Pick(s.Rand, kinds...))
		s.Note("%s", fault)
		if err := s.Server.Apply(fault); err != nil {
			s.Fatal(err)
		}
	}
}

// NameOf returns RESOURCE NAMESPACE/NAME.
func NameOf(resource string, o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", resource, o.GetNamespace(), o.GetName())
}

// Apply applies an event to the database. It returns the uid of the object that another one of the same name has
// replaced, or "".
func (s *Scenario) Apply(ev stream.Event) (replaced string) {
	if ev.Object == nil {
		return ""
	}
	name, uid := NameOf(ev.Resource.Resource, ev.Object), string(ev.Object.GetUID())
	was, _, _ := strings.Cut(s.database[name], "@")
	switch {
	case ev.Type != stream.Deleted:
		s.database[name] = uid + "@" + ev.ResourceVersion
		if was != uid {
			return was
		}
	case was == uid:
		delete(s.database, name)
	}
	return ""
}

// CheckDatabase compares the database with the objects that exist and are selected. Nil selects all.
func (s *Scenario) CheckDatabase(selected func(*unstructured.Unstructured) bool) {
	want := map[string]string{}
	for _, r := range s.Resources {
		h := s.Server.History(r, nil)
		for _, o := range h.At(len(h.Rewinds), "1000000000") {
			if selected == nil || selected(o) {
				want[NameOf(r.Resource, o)] = string(o.GetUID()) + "@" + o.GetResourceVersion()
			}
		}
	}
	if !maps.Equal(want, s.database) {
		s.Errorf("the database has %v\nwant %v", s.database, want)
	}
}

// Killable is the Store of a program that may be killed.
type Killable struct {
	checkpoint.Store
	mu   sync.Mutex
	dead bool
}

func (m *Killable) Commit(ctx context.Context, d []checkpoint.Delta) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return &checkpoint.FencedError{Store: "the store", Holder: "the next run"}
	}
	return m.Store.Commit(ctx, d)
}

// Kill makes every later Commit fail.
func (m *Killable) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// IsDead reports whether Kill has been called.
func (m *Killable) IsDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// PositionIn returns the position of a resource in a store, or nil.
func PositionIn(t *testing.T, store checkpoint.Store, r gvr.Resource) *checkpoint.Position {
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

// PositionsOnly is a Store that keeps no objects, as a ConfigMap.
type PositionsOnly struct{ *checkpoint.Memory }

// PositionsOnly implements the interface that says so.
func (PositionsOnly) PositionsOnly() {}

// NewTracker returns a Tracker of a store.
func NewTracker(t *testing.T, store checkpoint.Store) *checkpoint.Tracker {
	t.Helper()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}
