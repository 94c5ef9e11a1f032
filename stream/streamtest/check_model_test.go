package streamtest

import (
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
	epoch   int
	uid     int
	content int
	// present has, for each epoch, what had happened as that epoch has it.
	present [][]Change

	opts    CheckOptions
	clients []*modelClient
	events  []stream.Event
	marks   []bool // of each event: told while its source was live
}

type modelKnown struct {
	uid, rv string
	hidden  bool
}

type modelClient struct {
	*model
	ns      string
	listing bool // a snapshot is being read
	open    bool // SYNCED is due
	first   bool // of the first snapshot
	unknown bool
	started int // the version of an After
	epoch   int
	pos     int // in present[epoch]
	cursor  int
	known   map[types.NamespacedName]modelKnown
}

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 7)), present: [][]Change{nil}}
	m.version = 1 + m.IntN(3)
	for range m.IntN(12) {
		m.write()
	}
	if m.IntN(3) == 0 {
		m.opts.Selected = func(u *unstructured.Unstructured) bool {
			n, _, _ := unstructured.NestedInt64(u.Object, "spec", "n")
			return n%3 != 0
		}
	}
	m.opts.IndexNone = m.IntN(5) == 0
	m.opts.Settled = true
	namespaces := []string{""}
	if m.IntN(4) == 0 {
		m.opts.Namespaces = []string{"x", "y"}
		namespaces = m.opts.Namespaces
	}
	start := m.IntN(7)
	resume := &Resume{}
	for _, ns := range namespaces {
		c := &modelClient{model: m, ns: ns, first: true, open: true, listing: true, known: map[types.NamespacedName]modelKnown{}}
		m.clients = append(m.clients, c)
		if start < 5 {
			continue
		}
		c.first, c.open, c.listing = false, false, false
		c.pos, c.cursor, c.started = len(m.present[0]), m.version, m.version
		c.unknown = start == 5
		if start == 6 {
			c.known = c.state()
			resume.ResourceVersion = strconv.Itoa(m.version)
			for key, k := range c.known {
				if !k.hidden {
					resume.Objects = append(resume.Objects, KnownObject{key, types.UID(k.uid), k.rv})
				}
			}
		}
	}
	switch start {
	case 4:
		m.opts.Now = true
	case 5:
		m.opts.After = strconv.Itoa(m.version)
	case 6:
		m.opts.From = resume
	}
	return m
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

func (m *model) objects(epoch, pos int) map[types.NamespacedName]*unstructured.Unstructured {
	all := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, c := range m.present[epoch][:pos] {
		if all[keyOf(c.Object)] = c.Object; c.Type == watch.Deleted {
			delete(all, keyOf(c.Object))
		}
	}
	return all
}

func (m *model) write() {
	key := types.NamespacedName{Namespace: []string{"x", "y"}[m.IntN(2)], Name: string(rune('a' + m.IntN(4)))}
	now := m.objects(m.epoch, len(m.present[m.epoch]))[key]
	m.version++
	rv := strconv.Itoa(m.version)
	c := Change{Type: watch.Modified, ResourceVersion: rv, Epoch: m.epoch}
	switch {
	case now == nil:
		c.Type = watch.Added
		m.uid++
		c.Object = objectAt(key.Namespace, key.Name, fmt.Sprintf("u%d", m.uid), rv, 0)
	default:
		c.Object = now.DeepCopy()
		c.Object.SetResourceVersion(rv)
		if m.IntN(3) == 0 {
			c.Type = watch.Deleted
		}
	}
	if c.Type != watch.Deleted {
		m.content++
		_ = unstructured.SetNestedField(c.Object.Object, int64(m.content), "spec", "n")
	}
	m.h.Changes = append(m.h.Changes, c)
	m.present[m.epoch] = append(m.present[m.epoch], c)
}

func (m *model) rewind() {
	t := m.present[m.epoch]
	if len(t) < 2 {
		return
	}
	keep := len(t) - 1 - m.IntN(min(5, len(t)-1))
	m.version, _ = strconv.Atoi(t[keep-1].ResourceVersion)
	m.h.Rewinds = append(m.h.Rewinds, Rewind{To: t[keep-1].ResourceVersion})
	m.epoch++
	m.present = append(m.present, slices.Clone(t[:keep]))
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

func (c *modelClient) emit(kind stream.Type, o *unstructured.Unstructured, inferred bool) {
	c.events = append(c.events, stream.Event{Type: kind, Namespace: c.ns, Object: o.DeepCopy(),
		ResourceVersion: o.GetResourceVersion(), Inferred: inferred})
	c.marks = append(c.marks, !c.open)
}

func (c *modelClient) state() map[types.NamespacedName]modelKnown {
	all := map[types.NamespacedName]modelKnown{}
	for key, o := range c.objects(c.model.epoch, len(c.present[c.model.epoch])) {
		if c.ns == "" || key.Namespace == c.ns {
			all[key] = modelKnown{string(o.GetUID()), o.GetResourceVersion(), !c.opts.selected(o)}
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
	case !c.follow():
		c.gap()
	case c.IntN(25) == 0:
		c.gap()
	case c.pos < len(c.present[c.epoch]):
		c.live(c.present[c.epoch][c.pos])
	case !c.open && c.IntN(4) == 0:
		c.cursor = c.version
		c.events = append(c.events, stream.Event{Type: stream.Bookmark, Namespace: c.ns, ResourceVersion: strconv.Itoa(c.version)})
		c.marks = append(c.marks, true)
	}
}

// follow goes over to a later epoch if nothing that it undid was read, and says
// whether the client is in the present one then.
func (c *modelClient) follow() bool {
	for ; c.epoch < c.model.epoch; c.epoch++ {
		to, _ := strconv.Atoi(c.h.Rewinds[c.epoch].To)
		if c.cursor > to {
			return false
		}
	}
	return true
}

func (c *modelClient) gap() {
	g := &stream.GapDetails{Reason: stream.GapExpired, From: strconv.Itoa(c.cursor)}
	if c.version < c.cursor {
		g.Reason = stream.GapRewound
	} else if c.IntN(2) == 0 {
		g.To = strconv.Itoa(c.version)
	}
	g.HistoryLost = c.opts.IndexNone || c.unknown
	if c.opts.IndexNone {
		clear(c.known)
	}
	c.listing, c.open, c.first = true, true, false
	c.events = append(c.events, stream.Event{Type: stream.Gap, Namespace: c.ns, Gap: g})
	c.marks = append(c.marks, false)
	c.cursor = c.version
}

// list reads a snapshot, whole or not.
func (c *modelClient) list(whole bool) {
	if c.version < c.cursor || c.opts.IndexNone && len(c.known) > 0 {
		c.gap()
	}
	c.cursor = c.version
	objects := c.objects(c.model.epoch, len(c.present[c.model.epoch]))
	now := c.state()
	keys := slices.SortedFunc(maps.Keys(now), func(a, b types.NamespacedName) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	if !whole {
		if len(keys) > 0 {
			keys = keys[:c.IntN(len(keys))]
		}
	}
	for _, key := range keys {
		c.put(key, now[key], objects[key])
	}
	if !whole {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.known), func(a, b types.NamespacedName) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	}) {
		if _, ok := now[key]; !ok {
			c.gone(key)
		}
	}
	if c.IntN(5) == 0 {
		return // the watch could not be opened
	}
	c.listing, c.unknown, c.epoch, c.pos = false, false, c.model.epoch, len(c.present[c.model.epoch])
	c.synced()
}

func (c *modelClient) gone(key types.NamespacedName) {
	k := c.known[key]
	delete(c.known, key)
	if !k.hidden && !(c.first && c.opts.Now) {
		c.emit(stream.Deleted, identityAt(key.Namespace, key.Name, k.uid, k.rv), true)
	}
}

func (c *modelClient) put(key types.NamespacedName, now modelKnown, o *unstructured.Unstructured) {
	was, ok := c.known[key]
	if ok && was.uid != now.uid {
		c.gone(key)
		ok = false
	}
	c.known[key] = now
	rv, _ := strconv.Atoi(now.rv)
	switch shown := ok && !was.hidden; {
	case c.first && c.opts.Now:
	case shown && now.hidden:
		c.emit(stream.Deleted, identityAt(key.Namespace, key.Name, was.uid, was.rv), true)
	case now.hidden:
	case shown && was.rv != now.rv:
		c.emit(stream.Modified, o, true)
	case !shown && c.unknown && rv <= c.started && c.epoch == c.model.epoch && c.IntN(2) == 0:
	case !shown:
		c.emit(stream.Added, o, !c.first)
	}
}

func (m *model) synced() {
	rv := ""
	for _, c := range m.clients {
		if c.listing {
			return
		}
		if rv = strconv.Itoa(m.version); len(m.clients) > 1 {
			rv = ""
		}
	}
	for _, c := range m.clients {
		c.open, c.first = false, false
	}
	m.events = append(m.events, stream.Event{Type: stream.Synced, ResourceVersion: rv})
	m.marks = append(m.marks, false)
}

func (c *modelClient) live(ch Change) {
	c.pos++
	o, key := ch.Object, keyOf(ch.Object)
	c.cursor, _ = strconv.Atoi(ch.ResourceVersion)
	if c.ns != "" && key.Namespace != c.ns {
		return
	}
	was, ok := c.known[key]
	kind, passes := stream.Type(ch.Type), c.opts.selected(o)
	none := c.opts.IndexNone || !ok && c.unknown
	switch {
	case none && passes:
	case none:
		if ch.Type != watch.Added && c.opts.Selected != nil && c.IntN(2) == 0 {
			c.emit(stream.Deleted, o, false)
		}
		kind = ""
	case ch.Type == watch.Deleted && !(ok && !was.hidden):
		kind = ""
	case ch.Type == watch.Deleted:
	case passes && ok && !was.hidden:
		kind = stream.Modified
	case passes:
		kind = stream.Added
	case ok && !was.hidden:
		kind = stream.Deleted
	default:
		kind = ""
	}
	if c.known[key] = (modelKnown{string(o.GetUID()), ch.ResourceVersion, !passes}); ch.Type == watch.Deleted {
		delete(c.known, key)
	}
	if kind != "" {
		c.emit(kind, o, false)
	}
}

// finish tells all that is left to tell.
func (c *modelClient) finish() {
	for c.listing || !c.follow() || c.pos < len(c.present[c.epoch]) {
		switch {
		case c.listing:
			c.list(true)
		case !c.follow():
			c.gap()
		default:
			c.live(c.present[c.epoch][c.pos])
		}
	}
}
