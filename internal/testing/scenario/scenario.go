// Package scenario has what the random tests of several packages share: a scripted server, random changes and faults of
// it, a database that applies events, and a Store of a program that can be killed.
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
	"github.com/gvrwatch/gvrwatch/internal/friend"
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
	Log        []string // complete once the run has ended

	database map[string]string // from RESOURCE NAMESPACE/NAME to UID@VERSION
	mu       sync.Mutex        // guards Log
}

// New returns a Scenario for a seed, with a server that serves the resources. Each test has its own number.
func New(t *testing.T, seed, test uint64, resources []gvr.Resource, namespaces ...string) *Scenario {
	return &Scenario{
		T: t, Rand: rand.New(rand.NewPCG(seed, test)),
		Server:    streamtest.NewServer(resources...).AllFaults(friend.Access{}),
		Resources: resources, Namespaces: namespaces, database: map[string]string{},
	}
}

// Pick returns one of the values.
func Pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// Chance returns true for the given percentage of calls.
func (s *Scenario) Chance(percent int) bool { return s.IntN(100) < percent }

// Note adds a line to the log.
func (s *Scenario) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Log = append(s.Log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// HistoryText returns a history as text, with a line for each change.
func HistoryText(h streamtest.History) string {
	var b strings.Builder
	for _, c := range h.Changes {
		fmt.Fprintf(&b, "%s %s %s/%s(%s)@%s\n", c.At.Format("04:05.000"), c.Type,
			c.Object.GetNamespace(), c.Object.GetName(), c.Object.GetUID(), c.ResourceVersion)
	}
	return b.String()
}

// Do sends commands to the server.
func (s *Scenario) Do(commands ...string) {
	for _, command := range commands {
		s.Note("%s", command)
		if err := s.Server.Do(command); err != nil {
			s.Error(err)
		}
	}
}

// write creates, changes or deletes a random object, unless its resource is not served.
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

// Writes makes up to most random changes.
func (s *Scenario) Writes(r *rand.Rand, most int) {
	for range r.IntN(most + 1) {
		s.write(r)
	}
}

// Faults adds up to most random faults of these kinds to the server.
func (s *Scenario) Faults(most int, kinds ...string) {
	for range s.IntN(most + 1) {
		n, where := 1+s.IntN(Pick(s.Rand, 4, 40)), ""
		if s.Chance(40) {
			n, where = 1+s.IntN(8), " in "+Pick(s.Rand, s.Namespaces...)
		}
		resource := Pick(s.Rand, s.Resources...).GroupVersionResource.Resource
		trigger := Pick(s.Rand, "list", "page", "probe", "watch", "initial", "any")
		fault := fmt.Sprintf("%s %s %d-%d%s: %s", resource, trigger, n, n+s.IntN(3), where, Pick(s.Rand, kinds...))
		if err := s.Server.Apply(fault); err == nil {
			s.Note("%s", fault)
		} else if !strings.Contains(err.Error(), "can never happen") {
			s.Fatal(err)
		}
	}
}

// Objects is Full or Raw.
func (s *Scenario) Objects() stream.ObjectsMode {
	return []stream.ObjectsMode{stream.Full, stream.Raw}[s.IntN(2)]
}

// Decoded returns an event whose object is decoded.
func (s *Scenario) Decoded(ev stream.Event) stream.Event {
	if ev.JSON == nil {
		return ev
	}
	o, err := ev.Decode()
	if err != nil {
		s.Error(err)
	}
	ev.Object, ev.JSON = o, nil
	return ev
}

// NameOf returns the key of an object in the database: RESOURCE NAMESPACE/NAME.
func NameOf(resource string, o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", resource, o.GetNamespace(), o.GetName())
}

// Apply applies an event to the database. If the object replaces another one of the same name, Apply returns the uid of
// that one, else "".
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

// CheckDatabase fails the test unless the database has exactly the objects of the server that are selected. If selected
// is nil, all are.
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

// Killable is the Store of a program that can be killed.
type Killable struct {
	checkpoint.Store
	mu   sync.Mutex
	dead bool
}

// Commit commits to the Store, or returns a *checkpoint.FencedError after Kill.
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

// PositionsOnly is a Store that keeps positions and no objects, as the Store of package configmap.
type PositionsOnly struct {
	*checkpoint.Memory // for its methods
}

// PositionsOnly marks a Store that keeps no objects.
func (PositionsOnly) PositionsOnly() {}

// NewTracker returns a Tracker for a store.
func NewTracker(t *testing.T, store checkpoint.Store) *checkpoint.Tracker {
	t.Helper()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}
