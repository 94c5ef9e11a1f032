package streamtest

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

	"github.com/gvrwatch/gvrwatch/stream"
)

// model is a server and clients of it that keep every promise, by rules as plain
// as they can be: it is what the checker is checked against.
type model struct {
	*rand.Rand
	h       History
	version int
	uid     int
	present [][]Change // for each epoch, what had happened as that epoch has it
	opts    CheckOptions
	clients []*modelClient
	events  []stream.Event
	live    []bool // of each event: delivered while its source was live
}

type modelClient struct {
	*model
	ns      string
	listing bool // a snapshot is being read
	open    bool // SYNCED is due
	first   bool // of the first snapshot
	unknown bool // what existed at the start
	epoch   int
	pos     int // in present[epoch]
	cursor  int
	since   int // what has not changed since, and is not known, is not delivered
	known   state
}

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 7)), present: [][]Change{nil}}
	m.version = 1 + m.IntN(3)
	for range m.IntN(12) {
		m.write()
	}
	switch m.IntN(5) {
	case 0:
		m.opts.IndexNone = true
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

// beginAnywhere begins the clients in any way.
func (m *model) beginAnywhere() {
	switch m.IntN(7) {
	case 4:
		m.opts.Now = true
	case 5:
		m.opts.After = strconv.Itoa(m.version)
	case 6:
		m.opts.From = &Resume{ResourceVersion: strconv.Itoa(m.version)}
		for key, o := range m.objects() {
			if m.selects(o) && !m.opts.IndexNone {
				m.opts.From.Objects = append(m.opts.From.Objects, KnownObject{key, o.GetUID(), o.GetResourceVersion()})
			}
		}
	}
	m.opts.Settled = true
	for _, ns := range m.opts.namespaces() {
		c := &modelClient{model: m, ns: ns, known: state{}, epoch: len(m.present) - 1}
		m.clients = append(m.clients, c)
		start := m.opts.startVersion(ns)
		c.listing = start == ""
		c.first, c.open = c.listing, c.listing
		c.unknown = m.opts.partial()
		if c.cursor = m.version; start != "" {
			c.cursor, _ = strconv.Atoi(start)
		}
		c.pos = timelines(m.h, "", &CheckOptions{})[c.epoch].position(start)
		if m.opts.From != nil && !m.opts.IndexNone {
			for _, o := range m.opts.From.Objects {
				if c.ns == "" || c.ns == o.Namespace {
					c.known[o.NamespacedName] = ref{o.UID, o.ResourceVersion}
				}
			}
		}
	}
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
	c := Change{Type: watch.Modified, ResourceVersion: rv, Epoch: epoch}
	if now == nil {
		c.Type = watch.Added
		m.uid++
		now = objectAt(key.Namespace, key.Name, fmt.Sprintf("u%d", m.uid), rv, 0)
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
	m.h.Rewinds = append(m.h.Rewinds, Rewind{To: t[keep-1].ResourceVersion})
	m.present = append(m.present, slices.Clone(t[:keep]))
}

func (c *modelClient) emit(ev stream.Event) {
	c.events, c.live = append(c.events, ev), append(c.live, !c.open)
}

func (c *modelClient) object(kind stream.Type, o *unstructured.Unstructured, inferred bool) {
	c.emit(stream.Event{Type: kind, Namespace: c.ns, Object: o.DeepCopy(), ResourceVersion: o.GetResourceVersion(), Inferred: inferred})
}

// state is what exists for the client.
func (c *modelClient) state() state {
	all := state{}
	for key, o := range c.objects() {
		if (c.ns == "" || key.Namespace == c.ns) && c.selects(o) {
			all[key] = refOf(o)
		}
	}
	return all
}

// act is one step of a client: read the next event, lose the watch, or go on with
// the snapshot.
func (c *modelClient) act() {
	switch {
	case c.listing:
		c.list(c.IntN(3) > 0)
	case !c.follow() || c.IntN(25) == 0:
		c.gap()
	case c.pos < len(c.present[c.epoch]):
		c.next()
	case !c.open && c.IntN(4) == 0:
		c.cursor = c.version
		c.emit(stream.Event{Type: stream.Bookmark, Namespace: c.ns, ResourceVersion: strconv.Itoa(c.version)})
	}
}

// follow goes over to a later epoch if nothing that it undid was read, and says
// whether the client is in the present one then.
func (c *modelClient) follow() bool {
	for ; c.epoch < len(c.present)-1; c.epoch++ {
		to, _ := strconv.Atoi(c.h.Rewinds[c.epoch].To)
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
	g := &stream.GapDetails{Reason: reasons[2*c.IntN(3)], From: strconv.Itoa(c.cursor)}
	c.since = c.cursor
	if c.version < c.cursor {
		g.Reason, c.since = stream.GapRewound, 0
	} else if c.IntN(2) == 0 {
		g.To = strconv.Itoa(c.version)
	}
	g.HistoryLost = c.opts.IndexNone || c.unknown
	if c.opts.IndexNone {
		clear(c.known)
		c.unknown = false
	}
	c.open = true
	c.emit(stream.Event{Type: stream.Gap, Namespace: c.ns, Gap: g})
	c.listing, c.first, c.cursor = true, false, c.version
}

// list reads a snapshot, whole or not.
func (c *modelClient) list(whole bool) {
	if c.version < c.cursor || c.opts.IndexNone && len(c.known) > 0 {
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
		unsaid := c.first && c.opts.Now || c.unknown && !known && rv <= c.since && c.epoch == len(c.present)-1
		c.put(key, now[key], objects[key], unsaid)
	}
	if !whole {
		return
	}
	for _, key := range sortedKeys(c.known) {
		if _, ok := now[key]; !ok {
			c.gone(key)
		}
	}
	if c.IntN(5) == 0 {
		return // the watch could not be opened
	}
	c.listing, c.unknown, c.epoch, c.pos = false, false, len(c.present)-1, len(c.present[len(c.present)-1])
	c.synced()
}

func sortedKeys(s state) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
}

func (c *modelClient) gone(key types.NamespacedName) {
	was := c.known[key]
	delete(c.known, key)
	if !(c.first && c.opts.Now) {
		c.object(stream.Deleted, identityAt(key.Namespace, key.Name, string(was.uid), was.rv), true)
	}
}

func (c *modelClient) put(key types.NamespacedName, now ref, o *unstructured.Unstructured, unsaid bool) {
	if was, ok := c.known[key]; ok && was.uid != now.uid {
		c.gone(key)
	}
	was, ok := c.known[key]
	c.known[key] = now
	switch {
	case unsaid:
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

// finish delivers all that is left.
func (c *modelClient) finish() {
	for c.listing || !c.follow() || c.pos < len(c.present[c.epoch]) {
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

// coalesced is the recording as mux.Latest may have left it, by a consumer that takes
// events at random times.
func (m *model) coalesced() []stream.Event {
	var q latestQueue
	for _, ev := range m.events {
		for m.IntN(3) == 0 {
			q.pop()
		}
		q.push(ev)
	}
	return append(q.popped, q.waiting...)
}

// latestQueue is the shortest that does what mux.Latest says.
type latestQueue struct {
	waiting, popped []stream.Event
}

func (q *latestQueue) pop() bool {
	if len(q.waiting) == 0 {
		return false
	}
	q.popped, q.waiting = append(q.popped, q.waiting[0]), q.waiting[1:]
	return true
}

func (q *latestQueue) push(ev stream.Event) {
	if ev.Type == stream.Bookmark {
		q.waiting = slices.DeleteFunc(q.waiting, func(old stream.Event) bool {
			return old.Type == stream.Bookmark && old.Namespace == ev.Namespace
		})
	}
	i := len(q.waiting) - 1 // of the last one of its object since the last GAP or SYNCED
	for i >= 0 && ev.Object != nil && (q.waiting[i].Namespace != ev.Namespace || q.waiting[i].Object == nil || !sameObject(q.waiting[i], ev)) {
		if old := q.waiting[i]; old.Type == stream.Synced || old.Type == stream.Gap && old.Namespace == ev.Namespace {
			i = 0
		}
		i--
	}
	switch {
	case ev.Object == nil || i < 0 || q.waiting[i].Type == stream.Deleted:
		q.waiting = append(q.waiting, ev)
	case q.waiting[i].Type == stream.Added && ev.Type == stream.Deleted:
		q.waiting = slices.Delete(q.waiting, i, i+1)
	default:
		was := q.waiting[i]
		q.waiting[i] = ev
		q.waiting[i].Coalesced = was.Coalesced + 1
		if ev.Type != stream.Deleted {
			q.waiting[i].Type = was.Type
		}
	}
}

func sameObject(a, b stream.Event) bool {
	return keyOf(a.Object) == keyOf(b.Object) && a.Object.GetUID() == b.Object.GetUID()
}

func objectAt(ns, name, uid, rv string, n int64) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "uid": uid, "resourceVersion": rv}
	if ns != "" {
		metadata["namespace"] = ns
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Robot",
		"metadata": metadata, "spec": map[string]any{"n": n}}}
}

func identityAt(ns, name, uid, rv string) *unstructured.Unstructured {
	u := objectAt(ns, name, uid, rv, 0)
	delete(u.Object, "spec")
	return u
}
