package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/stream"
)

// writer applies the events of one run to a Store. It is the only one that publishes.
//
// It publishes each event of a watch. It publishes a snapshot as a whole, when that is complete: until then, readers
// see the state before, which is old but was true.
type writer struct {
	store  *Store
	drafts []draft // in the order of the shards
	synced bool
	gaps   int
	syncs  int
	ended  error
}

// draft is the next version of a shard.
type draft struct {
	next    shard
	editor  editor
	held    bool // a snapshot is being delivered: do not publish the trees
	changed bool // something is not published
}

// newWriter returns a writer for a run, which begins with a snapshot.
func newWriter(s *Store) *writer {
	st := s.state.Load()
	w := &writer{store: s, gaps: st.gaps, syncs: st.syncs, drafts: make([]draft, len(st.shards))}
	for i, old := range st.shards {
		empty := shard{namespace: old.namespace, version: old.version, indexes: make([]*node, len(s.indexes))}
		w.drafts[i] = draft{next: empty, editor: editor{seed: s.seed}, held: true, changed: true}
	}
	if st.ended != nil {
		w.publish()
	}
	return w
}

// end publishes that the run has ended.
func (w *writer) end(err error) {
	w.unsync()
	w.ended = cmp.Or(err, stream.ErrUnmet)
	w.publish()
}

func (w *writer) unsync() {
	if w.synced {
		w.synced = false
		w.gaps++
	}
}

// handle applies an event.
func (w *writer) handle(ev stream.Event) error {
	d := w.draft(ev.Namespace)
	switch ev.Type {
	case stream.Added, stream.Modified:
		if err := w.put(d, ev); err != nil {
			return err
		}
		d.reach(ev)
	case stream.Deleted:
		w.remove(d, ev)
		d.reach(ev)
	case stream.Gap:
		w.unsync()
		d.held = true
		if ev.Gap.Reason == stream.GapRewound {
			d.next.version = "" // versions from before the GAP may mean another state now
		}
	case stream.Bookmark: // the snapshot of the namespace is complete, even if SYNCED waits for that of another one
		d.held, d.next.version = false, ev.ResourceVersion
	case stream.Synced:
		w.sync(ev)
	}
	if !d.held || ev.Type == stream.Gap {
		w.publish()
	}
	return nil
}

// draft returns the draft of a watched namespace.
func (w *writer) draft(namespace string) *draft {
	i, _ := slices.BinarySearchFunc(w.drafts, namespace, func(d draft, n string) int {
		return strings.Compare(d.next.namespace, n)
	})
	return &w.drafts[i] // the first one for SYNCED of several namespaces
}

// reach notes the version of an event of the watch.
func (d *draft) reach(ev stream.Event) {
	if !d.held && !ev.Inferred && ev.ResourceVersion != "" {
		d.next.version = ev.ResourceVersion
	}
}

// sync handles SYNCED, which has a version only if one namespace is watched, or the cluster.
func (w *writer) sync(ev stream.Event) {
	w.synced = true
	w.syncs++
	if len(w.drafts) == 1 {
		w.drafts[0].held, w.drafts[0].next.version = false, ev.ResourceVersion
		return
	}
	for _, status := range w.store.stream.Status().Namespaces {
		d := w.draft(status.Namespace)
		d.held, d.next.version = false, status.ResourceVersion
	}
}

// publish publishes all drafts that are not held.
func (w *writer) publish() {
	old := w.store.state.Load()
	st := &state{shards: slices.Clone(old.shards), synced: w.synced, gaps: w.gaps, syncs: w.syncs, ended: w.ended,
		replaced: make(chan struct{})}
	for i := range w.drafts {
		d := &w.drafts[i]
		if !d.held && d.changed {
			st.shards[i] = d.next
			st.shards[i].indexes = slices.Clone(d.next.indexes)
			d.editor.freeze()
			d.changed = false
		}
		st.shards[i].version = d.next.version
	}
	w.store.publish(st)
}

// put puts the object of an event into the trees.
func (w *writer) put(d *draft, ev stream.Event) error {
	m := ev.Meta()
	id := objects.Version{
		ID:              objects.ID{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID()},
		ResourceVersion: m.GetResourceVersion(),
	}
	object, err := jsonOf(ev)
	if err != nil {
		return fmt.Errorf("store: cannot encode %s/%s: %w", id.Namespace, id.Name, guard.Redact(err))
	}
	entries, err := w.entriesOf(ev, id)
	if err != nil {
		return err
	}
	var before []compact.Entry
	k := key{namespace: id.Namespace, name: id.Name}
	n := d.next.objects.get(k)
	if n != nil {
		before = n.record.Entries()
	} else {
		d.next.count++
	}
	r := w.pack(d, k, id, entries, object, n == nil)
	d.changed = true
	d.next.objects = d.editor.put(d.next.objects, "", r)
	for _, e := range before {
		if _, still := slices.BinarySearchFunc(entries, e, compact.Entry.Compare); !still {
			d.next.indexes[e.Index] = d.editor.remove(d.next.indexes[e.Index], key{e.Value, k.namespace, k.name})
		}
	}
	for _, e := range r.Entries() {
		d.next.indexes[e.Index] = d.editor.put(d.next.indexes[e.Index], e.Value, r)
	}
	return nil
}

// pack returns the record of an object. If a later run delivers an object again, that is the record which readers have.
func (w *writer) pack(d *draft, k key, id objects.Version, entries []compact.Entry, object []byte,
	isNew bool) compact.Record {
	if d.held && id.ResourceVersion != "" {
		for _, shard := range w.store.state.Load().in(d.next.namespace) {
			if n := shard.objects.get(k); n != nil && w.isSame(n.record, id, entries, object) {
				return n.record
			}
		}
	}
	encoding, payload := w.store.codec.Encode(object, isNew)
	return compact.Pack(id, entries, encoding, payload)
}

// isSame reports whether a record has all this.
func (w *writer) isSame(r compact.Record, id objects.Version, entries []compact.Entry, object []byte) (same bool) {
	if r.Identity() != id || !slices.Equal(r.Entries(), entries) {
		return false
	}
	_ = w.store.codec.With(r, func(json []byte) error {
		same = bytes.Equal(json, object)
		return nil
	})
	return same
}

// remove removes the object of an event from the trees. It cannot be another object of the same name, because the
// Stream delivers DELETED of the old one before ADDED of the new one.
func (w *writer) remove(d *draft, ev stream.Event) {
	m := ev.Meta()
	k := key{namespace: m.GetNamespace(), name: m.GetName()}
	n := d.next.objects.get(k)
	if n == nil {
		return
	}
	d.changed = true
	entries := n.record.Entries()
	for _, e := range entries {
		d.next.indexes[e.Index] = d.editor.remove(d.next.indexes[e.Index], key{e.Value, k.namespace, k.name})
	}
	d.next.objects = d.editor.remove(d.next.objects, k)
	d.next.count--
}

// entriesOf returns the values of all indexes for the object of an event.
func (w *writer) entriesOf(ev stream.Event, id objects.Version) (entries []compact.Entry, err error) {
	for i := range w.store.indexes {
		values, err := w.call(i, ev, id)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			entries = append(entries, compact.Entry{Index: i, Value: v})
		}
	}
	slices.SortFunc(entries, compact.Entry.Compare)
	return slices.Compact(entries), nil
}

// call calls the function of an index.
func (w *writer) call(index int, ev stream.Event, id objects.Version) (values []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, isError := p.(error)
			if !isError {
				cause = errors.New("its panic value is no error") // which may quote the object
			}
			err = fmt.Errorf("store: the function of index %q panicked for %s/%s: %w",
				w.store.names[index], id.Namespace, id.Name, guard.Redact(cause))
		}
	}()
	return w.store.indexes[index](ev), nil
}

// jsonOf returns the object of an event as JSON.
func jsonOf(ev stream.Event) ([]byte, error) {
	if ev.JSON != nil {
		return ev.JSON, nil
	}
	if text, err := compact.AppendJSON(nil, ev.Object.Object); err == nil {
		return text, nil
	}
	// A Transform may make objects of more types than JSON has.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(ev.Object.Object); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
