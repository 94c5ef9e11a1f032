package changes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Change is what an event has changed.
type Change struct {
	// Fields have changed since the last event of the object. They are empty for DELETED, and if Known is false.
	Fields []Field
	// By are the field managers that made the change, such as "kubelet (status)". It is empty if managedFields do not
	// say.
	By []string
	// Known reports that there was an event of the object before.
	Known bool
}

// Differ keeps the last state of each object: its JSON without managedFields, compressed. The zero value is not valid:
// use NewDiffer. It is not for concurrent use.
type Differ struct {
	objects map[string]state // by uid or, of an object without one, by resource and name
	buf     []byte           // of Compare
}

type state struct {
	object   []byte            // S2
	managers map[string]string // by name and subresource: when they wrote last
	received time.Time
}

// NewDiffer returns a Differ that knows no objects.
func NewDiffer() *Differ { return &Differ{objects: map[string]state{}} }

// Compare returns what ev, which has an object, has changed, and keeps its state for the next event. A DELETED is
// forgotten. It returns an error if the object can't be decoded; the state before is kept then.
func (d *Differ) Compare(ev stream.Event) (Change, error) { return d.CompareAt(ev, time.Now()) }

// CompareAt is Compare for an event that was received at a time.
func (d *Differ) CompareAt(ev stream.Event, received time.Time) (Change, error) {
	key := cmp.Or(string(ev.Meta().GetUID()), ev.Resource.String()+" "+ev.NamespacedName().String())
	before, known := d.objects[key]
	if ev.Type == stream.Deleted {
		delete(d.objects, key)
		return Change{Known: known}, nil
	}
	o, err := ev.Decode()
	if err != nil {
		return Change{}, err
	}
	entries, _, _ := unstructured.NestedSlice(o.Object, "metadata", "managedFields")
	after := state{managers: writtenBy(entries), received: received}
	c := Change{Known: known, By: lastOf(after.managers)}
	if known {
		c.By = changedBy(before, after)
		old, err := before.decode()
		if err != nil {
			return Change{}, err
		}
		secret := ev.Resource.Group == "" && ev.Resource.Resource == "secrets"
		c.Fields = compare(old, o.Object, secret || isSecret(old) || isSecret(o.Object))
	}
	b, err := json.Marshal(visible(o.Object))
	if err != nil {
		return Change{}, err
	}
	d.buf = s2.Encode(d.buf[:cap(d.buf)], b)
	after.object = bytes.Clone(d.buf) // Encode's is as large as what can't be compressed
	d.objects[strings.Clone(key)] = after
	return c, nil
}

func (s state) decode() (o map[string]any, err error) {
	b, err := s2.Decode(nil, s.object)
	if err != nil {
		return nil, err
	}
	err = utiljson.Unmarshal(b, &o)
	return o, err
}

// writtenBy returns when each manager wrote last.
func writtenBy(entries []any) map[string]string {
	managers := map[string]string{}
	for _, entry := range entries {
		m := managerOf(entry)
		e, _ := entry.(map[string]any)
		t, _ := e["time"].(string) // in a format that sorts
		if m != "" {
			// Strings that are kept must not be parts of the object.
			managers[strings.Clone(m)] = strings.Clone(max(managers[m], t))
		}
	}
	return managers
}

// managerOf returns the manager of an entry, and its subresource: "kubelet (status)".
func managerOf(entry any) string {
	e, _ := entry.(map[string]any)
	manager, _ := e["manager"].(string)
	if sub, _ := e["subresource"].(string); sub != "" {
		manager += " (" + sub + ")"
	}
	return manager
}

// changedBy returns the managers that are new or have a new time. A manager that has lost a field to another keeps its
// time. So does one that writes again within the second, because times have seconds: then the change is that of the
// last manager, if that is a single one. There are none if a manager has only removed what others wrote.
func changedBy(before, after state) (by []string) {
	for m, t := range after.managers {
		if was, ok := before.managers[m]; !ok || was != t {
			by = append(by, m)
		}
	}
	slices.Sort(by)
	if last := lastOf(after.managers); len(by) == 0 && len(last) == 1 &&
		after.received.Sub(before.received) < 1500*time.Millisecond {
		return last
	}
	return by
}

// lastOf returns the managers that wrote last.
func lastOf(managers map[string]string) (by []string) {
	newest := ""
	for _, t := range managers {
		newest = max(newest, t)
	}
	for m, t := range managers {
		if newest != "" && t == newest {
			by = append(by, m)
		}
	}
	slices.Sort(by)
	return by
}
