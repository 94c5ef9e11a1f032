package mux

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

const latestSeeds = seedtest.Default(1500)

// TestLatestModel pushes what a Stream could deliver, of one or two namespaces, into a latestQueue, and pops at random.
// At each SYNCED and at the end the receiver knows what the Stream had delivered by then, at each BOOKMARK that or
// something newer. An object that the receiver knows is never ADDED, one that it does not know never MODIFIED or
// DELETED.
func TestLatestModel(t *testing.T) {
	for seed := range latestSeeds.All(t) {
		m := newModel(seed)
		if err := m.run(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(m.log, "\n"))
		}
	}
}

// objectState is one state of an object.
type objectState struct{ uid, rv string }

// known are objects by name.
type known map[string]objectState

// modelNamespace is a namespace.
type modelNamespace struct {
	name   string
	server known // what exists
	pushed known // what a receiver of all events knows
	synced bool
	inGap  bool
}

type model struct {
	*rand.Rand
	queue      *latestQueue
	namespaces []*modelNamespace
	rv, uid    int
	pushed     []map[string]known // what had been pushed at each push, by namespace
	receiver   map[string]known
	log        []string
}

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 3)), receiver: map[string]known{}}
	m.queue = newLatestQueue(&coalescing{})
	for i := range 1 + m.IntN(2) {
		name := fmt.Sprint(i)
		m.namespaces = append(m.namespaces, &modelNamespace{name: name, server: known{}, pushed: known{}, synced: true})
		m.receiver[name] = known{}
	}
	return m
}

func (m *model) run() error {
	eager := m.IntN(6) // how often the queue is popped
	for range 60 {
		for m.full() {
			if err := m.pop(); err != nil {
				return err
			}
		}
		l := m.namespaces[m.IntN(len(m.namespaces))]
		switch n := m.IntN(20); {
		case l.inGap || n == 0:
			m.gap(l)
		case n == 1:
			m.push(stream.Event{Type: stream.Bookmark, Namespace: l.name, ResourceVersion: fmt.Sprint(m.rv)})
		default:
			m.change(l, true)
		}
		for m.IntN(6) < eager && m.queue.load().items > 0 {
			if err := m.pop(); err != nil {
				return err
			}
		}
	}
	for m.queue.load().items > 0 {
		if err := m.pop(); err != nil {
			return err
		}
	}
	for _, l := range m.namespaces {
		if got := m.receiver[l.name]; !maps.Equal(l.pushed, got) {
			return fmt.Errorf("at the end the receiver knows %v in %s, want %v", got, l.name, l.pushed)
		}
	}
	return nil
}

// push pushes an event. Its Source is the number of the push.
func (m *model) push(ev stream.Event) {
	ev.Envelope(friend.Access{}).Source = fmt.Sprint(len(m.pushed))
	now := map[string]known{}
	for _, l := range m.namespaces {
		now[l.name] = maps.Clone(l.pushed)
	}
	m.pushed = append(m.pushed, now)
	m.note("push", ev)
	m.queue.push(item{event: ev, size: 1})
}

// full reports whether a GAP or a SYNCED would not fit.
func (m *model) full() bool {
	for _, l := range m.namespaces {
		if !m.queue.fits(stream.Gap, l.name) {
			return true
		}
	}
	return !m.queue.fits(stream.Synced, "")
}

func (m *model) note(what string, ev stream.Event) {
	text := fmt.Sprintf("%s %s %s/", what, ev.Type, ev.Namespace)
	if ev.Object != nil {
		text += fmt.Sprintf("%s(%s)", ev.Object.GetName(), ev.Object.GetUID())
	}
	if ev.Gap != nil {
		text += fmt.Sprint(ev.Gap.Reason)
	}
	m.log = append(m.log, text+"@"+ev.ResourceVersion)
}

// emit pushes an event of an object.
func (m *model) emit(l *modelNamespace, kind stream.Type, name string, v objectState) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetName(name)
	u.SetNamespace("n" + l.name)
	u.SetUID(types.UID(v.uid))
	u.SetResourceVersion(v.rv)
	if kind == stream.Deleted {
		delete(l.pushed, name)
	} else {
		l.pushed[name] = v
	}
	m.push(stream.Event{Type: kind, Namespace: l.name, Object: u, ResourceVersion: v.rv})
}

func (m *model) next() string {
	m.rv++
	return fmt.Sprint(m.rv)
}

// change changes an object at the server. With emit it pushes the event.
func (m *model) change(l *modelNamespace, emit bool) {
	name := fmt.Sprint("o", m.IntN(3))
	was, ok := l.server[name]
	kind, v := stream.Modified, objectState{was.uid, m.next()}
	switch {
	case !ok:
		m.uid++
		kind, v = stream.Added, objectState{fmt.Sprint("u", m.uid), v.rv}
	case m.IntN(3) == 0:
		kind = stream.Deleted
	case m.IntN(4) == 0 && emit: // it leaves a selector and returns
		m.emit(l, stream.Deleted, name, v)
		kind, v = stream.Added, objectState{was.uid, m.next()}
	}
	if kind == stream.Deleted {
		delete(l.server, name)
	} else {
		l.server[name] = v
	}
	if emit {
		m.emit(l, kind, name, v)
	}
}

// gap drops some changes and pushes the differences, not always all of them.
func (m *model) gap(l *modelNamespace) {
	reason := []stream.GapReason{stream.GapExpired, stream.GapRewound, stream.GapPoison}[m.IntN(3)]
	if l.inGap {
		reason = stream.GapRewound
	}
	for range m.IntN(4) {
		m.change(l, false)
	}
	l.synced, l.inGap = false, true
	m.push(stream.Event{Type: stream.Gap, Namespace: l.name,
		Gap: &stream.GapDetails{Reason: reason, From: "1", To: fmt.Sprint(m.rv)}})
	for i := range 3 {
		if m.IntN(15) == 0 {
			return
		}
		name := fmt.Sprint("o", i)
		is, ok := l.server[name]
		was, had := l.pushed[name]
		if had && was.uid != is.uid {
			m.emit(l, stream.Deleted, name, was)
			had = false
		}
		switch {
		case ok && !had:
			m.emit(l, stream.Added, name, is)
		case ok && (was != is || reason == stream.GapRewound):
			m.emit(l, stream.Modified, name, is)
		}
	}
	l.inGap, l.synced = false, true
	for _, other := range m.namespaces {
		if !other.synced {
			return
		}
	}
	m.push(stream.Event{Type: stream.Synced, ResourceVersion: fmt.Sprint(m.rv)})
}

func (m *model) pop() error {
	var it item
	m.queue.pop(&it)
	ev := it.event
	m.note("                pop", ev)
	var at int
	if _, err := fmt.Sscan(SourceOf(ev), &at); err != nil {
		return err
	}
	knows := m.receiver[ev.Namespace]
	switch ev.Type {
	case stream.Gap:
		return nil
	case stream.Synced:
		for name, want := range m.pushed[at] {
			if !maps.Equal(want, m.receiver[name]) {
				return fmt.Errorf("at SYNCED the receiver knows %v in %s, want %v", m.receiver[name], name, want)
			}
		}
		return nil
	case stream.Bookmark:
		if name, ok := m.behind(knows, at, ev.Namespace); ok {
			return fmt.Errorf("at BOOKMARK the receiver knows %v, with %s older than in %v", knows, name,
				m.pushed[at][ev.Namespace])
		}
		return nil
	}
	name, v := ev.Object.GetName(), objectState{string(ev.Object.GetUID()), ev.ResourceVersion}
	was, ok := knows[name]
	switch {
	case ok && was.uid != v.uid:
		return fmt.Errorf("%s is known as another object", name)
	case ok && ev.Type == stream.Added:
		return fmt.Errorf("%s is ADDED and known", name)
	case !ok && ev.Type != stream.Added:
		return fmt.Errorf("%s is %s and not known", name, ev.Type)
	case ev.Type == stream.Deleted:
		delete(knows, name)
	default:
		knows[name] = v
	}
	return nil
}

// behind returns an object of which the receiver knows less than had been pushed at a push.
func (m *model) behind(knows known, at int, namespace string) (string, bool) {
	for name, want := range m.pushed[at][namespace] {
		fits := false
		for _, later := range m.pushed[at:] {
			now, ok := later[namespace][name]
			is, known := knows[name]
			fits = fits || ok == known && now == is
		}
		if !fits {
			return name, want.uid != ""
		}
	}
	return "", false
}
