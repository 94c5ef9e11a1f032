package recording

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Changes makes the runs of a recording one history, in which each event says what has changed since the events before
// it. A run that begins with a snapshot repeats what was known: an object in the state that was known is left out, in
// another one it is MODIFIED, and one that is missing at SYNCED is DELETED, all inferred. That needs the selection of
// the run before. After a run with another selection, or one that has only later changes, nothing is known of the
// objects before it. Entries of all other types pass.
//
// It keeps the identity of each object in memory, not the object.
func Changes(entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		h := history{objects: map[string]map[types.NamespacedName]*known{}}
		for e, err := range entries {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, change := range h.changes(e) {
				if !yield(change, nil) {
					return
				}
			}
		}
	}
}

// history is what is known of the objects of a recording.
type history struct {
	run     *Header
	objects map[string]map[types.NamespacedName]*known // by resource
}

type known struct {
	uid     types.UID
	version string
	seen    bool // in the run
}

func (h *history) changes(e Entry) []Entry {
	switch {
	case e.Run != nil:
		e.Forgets = h.begin(e.Run)
	case e.Event.Type == stream.Synced:
		return append(h.missing(e), e)
	case hasObject(e.Event.Type):
		return h.change(e)
	}
	return []Entry{e}
}

// begin begins a run. It reports whether nothing is known any more.
func (h *history) begin(run *Header) (forgets bool) {
	before := h.run
	h.run = run
	switch {
	case before == nil:
	case run.Start == Later, !reflect.DeepEqual(before.Selection, run.Selection):
		clear(h.objects)
		return true
	case run.Start == Snapshot:
		for _, objects := range h.objects {
			for _, k := range objects {
				k.seen = false
			}
		}
	}
	return before == nil
}

func (h *history) change(e Entry) []Entry {
	ev := &e.Event
	objects := h.objects[ev.Resource.String()]
	if objects == nil {
		objects = map[types.NamespacedName]*known{}
		h.objects[ev.Resource.String()] = objects
	}
	m := ev.Meta()
	name, uid := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, m.GetUID()
	before := objects[name]
	var all []Entry
	if before != nil && before.uid != uid { // another object of that name
		if ev.Type != stream.Deleted {
			all = append(all, e.deleted(name, before))
			delete(objects, name)
		}
		before = nil
	}
	switch {
	case ev.Type == stream.Deleted:
		if known := objects[name]; known != nil && known.uid == uid {
			delete(objects, name)
		}
		return append(all, e)
	case before == nil:
		objects[name] = &known{uid, ev.ResourceVersion, true}
		return append(all, e)
	case ev.Type == stream.Added && before.version == ev.ResourceVersion && before.version != "":
		before.seen = true
		return all
	case ev.Type == stream.Added:
		ev.Type, ev.Inferred = stream.Modified, true
	}
	before.version, before.seen = ev.ResourceVersion, true
	return append(all, e)
}

// missing returns what a snapshot that is complete lacks.
func (h *history) missing(synced Entry) (all []Entry) {
	objects, of := h.objects[synced.Event.Resource.String()], synced.Event.Namespace
	names := slices.SortedFunc(maps.Keys(objects), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names {
		if k := objects[name]; !k.seen && (of == "" || of == name.Namespace) {
			all = append(all, synced.deleted(name, k))
			delete(objects, name)
		}
	}
	return all
}

// deleted returns the inferred removal of an object, at the time and of the resource of an entry.
func (e Entry) deleted(name types.NamespacedName, k *known) Entry {
	ev := e.Event
	return Entry{Time: e.Time, Event: stream.Event{
		Type: stream.Deleted, Resource: ev.Resource, Namespace: ev.Namespace, Inferred: true,
		JSON: identity(ev.Resource, name, k), ResourceVersion: k.version,
	}}
}

func identity(r gvr.Resource, name types.NamespacedName, k *known) json.RawMessage {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(r.GroupVersionKind())
	o.SetNamespace(name.Namespace)
	o.SetName(name.Name)
	o.SetUID(k.uid)
	o.SetResourceVersion(k.version)
	b, _ := json.Marshal(o.Object) // strings only
	return b
}
