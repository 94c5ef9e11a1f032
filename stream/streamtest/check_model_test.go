package streamtest_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// model is a server with clients that keep every promise, by rules as simple as possible. Check is tested against it.
type model struct {
	*rand.Rand
	h       streamtest.History
	version int
	uid     int
	present [][]streamtest.Change // for each epoch, its changes and those before it that no rewind has undone
	opts    streamtest.CheckOptions
	clients []*modelClient
	events  []stream.Event
	live    []bool // of each event: delivered while its source was live
}

type modelClient struct {
	*model
	ns      string
	unknown bool // objects that existed at the start are not known
	known   state
	snapshot
	place
}

type snapshot struct {
	listing bool // it is being read
	open    bool // SYNCED is due
	first   bool // it is the first one
	since   int  // unknown objects that did not change since this version are not delivered
}

type place struct {
	epoch  int
	pos    int // in present[epoch]
	cursor int
}

// state is what exists at one time, and ref one state of an object.
type (
	state map[types.NamespacedName]ref
	ref   struct {
		uid types.UID
		rv  string
	}
)

func refOf(o *unstructured.Unstructured) ref { return ref{o.GetUID(), o.GetResourceVersion()} }

func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func older(a, b string) bool {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x < y
}

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 7)), present: [][]streamtest.Change{nil}}
	m.version = 1 + m.IntN(3)
	for range m.IntN(12) {
		m.write()
	}
	switch m.IntN(5) {
	case 1, 2:
		m.opts.Selected = func(u *unstructured.Unstructured) bool {
			n, _, _ := unstructured.NestedInt64(u.Object, "spec", "n")
			return n%3 != 0
		}
	}
	if m.IntN(4) == 0 {
		m.opts.Namespaces = []string{"x", "y"}
	}
	return m
}

// start starts the clients in a random way.
func (m *model) start() {
	switch m.IntN(7) {
	case 4:
		m.opts.Now = true
	case 5:
		m.opts.After = strconv.Itoa(m.version)
	case 6:
		m.opts.From = &checkpoint.Position{ResourceVersions: map[string]string{}}
		for _, ns := range m.namespaces() {
			m.opts.From.ResourceVersions[ns] = strconv.Itoa(m.version)
		}
		for key, o := range m.objects() {
			if m.selects(o) {
				m.opts.From.Objects = append(m.opts.From.Objects, checkpoint.Object{
					Namespace: key.Namespace, Name: key.Name, UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()})
			}
		}
	}
	m.opts.Complete = true
	m.opts.UntilSynced = !m.opts.Now && m.opts.After == "" && m.IntN(3) == 0
	resumes := m.opts.After != "" || m.opts.From != nil
	for _, ns := range m.namespaces() {
		c := &modelClient{model: m, ns: ns, known: state{}}
		c.unknown = resumes && m.opts.From == nil
		m.clients = append(m.clients, c)
		c.listing, c.first, c.open = !resumes || m.opts.UntilSynced, !resumes, !resumes || m.opts.UntilSynced
		if c.epoch, c.cursor = len(m.present)-1, m.version; resumes {
			c.pos = len(m.present[c.epoch])
		}
		if m.opts.From != nil {
			for _, o := range m.opts.From.Objects {
				if c.ns == "" || c.ns == o.Namespace {
					c.known[o.NamespacedName()] = ref{o.UID, o.ResourceVersion}
				}
			}
		}
	}
}

func (m *model) namespaces() []string {
	if len(m.opts.Namespaces) == 0 {
		return []string{""}
	}
	return m.opts.Namespaces
}

func (m *model) selects(o *unstructured.Unstructured) bool {
	return m.opts.Selected == nil || m.opts.Selected(o)
}

func (m *model) run(steps int) {
	for range steps {
		switch n := m.IntN(20); {
		case n < 7:
			m.write()
		case n < 8:
			m.version++ // another resource
		case n < 9 && m.IntN(3) == 0:
			m.rewind()
		default:
			m.clients[m.IntN(len(m.clients))].act()
		}
	}
	for range 3 {
		for _, c := range m.clients {
			c.finish()
		}
	}
}

func (m *model) objects() map[types.NamespacedName]*unstructured.Unstructured {
	all := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, c := range m.present[len(m.present)-1] {
		if all[keyOf(c.Object)] = c.Object; c.Type == watch.Deleted {
			delete(all, keyOf(c.Object))
		}
	}
	return all
}

func (m *model) write() {
	epoch := len(m.present) - 1
	key := types.NamespacedName{Namespace: []string{"x", "y"}[m.IntN(2)], Name: string(rune('a' + m.IntN(4)))}
	now := m.objects()[key]
	m.version++
	rv := strconv.Itoa(m.version)
	c := streamtest.Change{Type: watch.Modified, ResourceVersion: rv, Epoch: epoch}
	if now == nil {
		c.Type = watch.Added
		m.uid++
		now = oracle.Object(key.Namespace, key.Name, fmt.Sprintf("u%d", m.uid), rv, 0)
	}
	c.Object = now.DeepCopy()
	c.Object.SetResourceVersion(rv)
	if c.Type == watch.Modified && m.IntN(3) == 0 {
		c.Type = watch.Deleted
	} else {
		_ = unstructured.SetNestedField(c.Object.Object, int64(len(m.h.Changes)), "spec", "n")
	}
	m.h.Changes = append(m.h.Changes, c)
	m.present[epoch] = append(m.present[epoch], c)
}

func (m *model) rewind() {
	t := m.present[len(m.present)-1]
	if len(t) < 2 {
		return
	}
	keep := len(t) - 1 - m.IntN(min(5, len(t)-1))
	m.version, _ = strconv.Atoi(t[keep-1].ResourceVersion)
	m.h.Rewinds = append(m.h.Rewinds, streamtest.Change{ResourceVersion: t[keep-1].ResourceVersion})
	m.present = append(m.present, slices.Clone(t[:keep]))
}

func (c *modelClient) emit(ev stream.Event) {
	c.events, c.live = append(c.events, ev), append(c.live, !c.open)
}

func (c *modelClient) object(kind stream.Type, o *unstructured.Unstructured, inferred bool) {
	c.emit(stream.Event{Type: kind, Namespace: c.ns, Object: o.DeepCopy(), ResourceVersion: o.GetResourceVersion(),
		Inferred: inferred})
}

// state returns what exists for the client.
func (c *modelClient) state() state {
	all := state{}
	for key, o := range c.objects() {
		if (c.ns == "" || key.Namespace == c.ns) && c.selects(o) {
			all[key] = refOf(o)
		}
	}
	return all
}

// act is one step of a client: it reads the next event, loses the watch, or continues the snapshot.
func (c *modelClient) act() {
	switch {
	case c.listing:
		c.list(c.IntN(3) > 0)
	case c.opts.UntilSynced: // it has ended
	case !c.follow() || c.IntN(25) == 0:
		c.gap()
	case c.pos < len(c.present[c.epoch]):
		c.next()
	case !c.open && c.IntN(4) == 0:
		c.cursor = c.version
		c.emit(stream.Event{Type: stream.Bookmark, Namespace: c.ns, ResourceVersion: strconv.Itoa(c.version)})
	}
}

// follow moves the client to later epochs that undid nothing the client has read. It reports whether the client is in
// the present epoch then.
func (c *modelClient) follow() bool {
	for ; c.epoch < len(c.present)-1; c.epoch++ {
		to, _ := strconv.Atoi(c.h.Rewinds[c.epoch].ResourceVersion)
		if c.cursor > to {
			return false
		}
	}
	return true
}

func (c *modelClient) gap() {
	if c.first && c.listing && c.opts.Now { // nothing has been delivered
		c.cursor = c.version
		return
	}
	reason := []stream.GapReason{stream.GapExpired, stream.GapPoison, stream.GapRestarted}[c.IntN(3)]
	g := &stream.GapDetails{Reason: reason, From: strconv.Itoa(c.cursor)}
	c.since = c.cursor
	if c.version < c.cursor {
		g.Reason, c.since = stream.GapRewound, 0
	} else if c.IntN(2) == 0 {
		g.To = strconv.Itoa(c.version)
	}
	g.HistoryLost = c.unknown
	c.open = true
	c.emit(stream.Event{Type: stream.Gap, Namespace: c.ns, Gap: g})
	c.listing, c.first, c.cursor = true, false, c.version
}

// list reads a snapshot, or a part of it.
func (c *modelClient) list(whole bool) {
	if c.version < c.cursor {
		c.gap()
	}
	c.cursor = c.version
	objects, now := c.objects(), c.state()
	keys := sortedKeys(now)
	if !whole && len(keys) > 0 {
		keys = keys[:c.IntN(len(keys))]
	}
	for _, key := range keys {
		rv, _ := strconv.Atoi(now[key].rv)
		_, known := c.known[key]
		silent := c.first && c.opts.Now || c.unknown && !known && rv <= c.since && c.epoch == len(c.present)-1
		c.put(key, now[key], objects[key], silent)
	}
	if !whole {
		return
	}
	for _, key := range sortedKeys(c.known) {
		if _, ok := now[key]; !ok {
			c.remove(key)
		}
	}
	if c.IntN(5) == 0 {
		return // the watch fails to open
	}
	c.listing, c.unknown, c.epoch, c.pos = false, false, len(c.present)-1, len(c.present[len(c.present)-1])
	c.synced()
}

func sortedKeys(s state) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s),
		func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
}

func (c *modelClient) remove(key types.NamespacedName) {
	was := c.known[key]
	delete(c.known, key)
	if !(c.first && c.opts.Now) {
		c.object(stream.Deleted, oracle.Identity(key.Namespace, key.Name, string(was.uid), was.rv), true)
	}
}

func (c *modelClient) put(key types.NamespacedName, now ref, o *unstructured.Unstructured, silent bool) {
	if was, ok := c.known[key]; ok && was.uid != now.uid {
		c.remove(key)
	}
	was, ok := c.known[key]
	c.known[key] = now
	switch {
	case silent:
	case ok && was.rv != now.rv:
		c.object(stream.Modified, o, true)
	case !ok:
		c.object(stream.Added, o, !c.first)
	}
}

func (c *modelClient) synced() {
	for _, other := range c.clients {
		if other.listing {
			return
		}
	}
	for _, c := range c.clients {
		c.open, c.first = false, false
	}
	ev := stream.Event{Type: stream.Synced, ResourceVersion: strconv.Itoa(c.version)}
	if len(c.clients) > 1 {
		ev.ResourceVersion = ""
	}
	c.open = true // for emit
	c.emit(ev)
	c.open = false
}

// next reads the next change from the watch.
func (c *modelClient) next() {
	ch := c.present[c.epoch][c.pos]
	o, key, now := ch.Object, keyOf(ch.Object), refOf(ch.Object)
	c.pos++
	c.cursor, _ = strconv.Atoi(ch.ResourceVersion)
	was, ok := c.known[key]
	exists := c.selects(o) && ch.Type != watch.Deleted
	switch {
	case c.ns != "" && key.Namespace != c.ns, ok && was.uid == now.uid && !older(was.rv, now.rv):
	case exists:
		kind := stream.Added
		if ok || c.unknown && ch.Type == watch.Modified && c.opts.Selected == nil {
			kind = stream.Modified
		}
		c.known[key] = now
		c.object(kind, o, false)
	case ok && was.uid == now.uid, c.unknown && !ok && c.selects(o):
		delete(c.known, key)
		c.object(stream.Deleted, o, false)
	}
}

// finish delivers everything that is left.
func (c *modelClient) finish() {
	for c.listing || !c.opts.UntilSynced && (!c.follow() || c.pos < len(c.present[c.epoch])) {
		switch {
		case c.listing:
			c.list(true)
		case !c.follow():
			c.gap()
		default:
			c.next()
		}
	}
}
