package changes

import (
	"encoding/json"
	"hash/maphash"
	"slices"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	seed    maphash.Seed
	objects map[types.UID]state
}

type state struct {
	object   []byte            // S2
	managers map[string]uint64 // by name and subresource: a hash of the entries in managedFields
}

// NewDiffer returns a Differ that knows no objects.
func NewDiffer() *Differ { return &Differ{maphash.MakeSeed(), map[types.UID]state{}} }

// Compare returns what ev, which has an object, has changed, and keeps its state for the next event. A DELETED is
// forgotten. It returns an error if the object can't be decoded; the state before is kept then.
func (d *Differ) Compare(ev stream.Event) (Change, error) {
	uid := ev.Meta().GetUID()
	before, known := d.objects[uid]
	if ev.Type == stream.Deleted {
		delete(d.objects, uid)
		return Change{Known: known}, nil
	}
	o, err := ev.Decode()
	if err != nil {
		return Change{}, err
	}
	entries, _, _ := unstructured.NestedSlice(o.Object, "metadata", "managedFields")
	after := state{managers: d.hash(entries)}
	c := Change{Known: known, By: lastManagers(entries)}
	if known {
		if by := changedBy(before.managers, after.managers); len(by) > 0 {
			c.By = by
		}
		old, err := before.decode()
		if err != nil {
			return Change{}, err
		}
		c.Fields = Compare(old, o.Object)
	}
	b, err := json.Marshal(visible(o.Object))
	if err != nil {
		return Change{}, err
	}
	after.object = s2.Encode(nil, b)
	d.objects[uid] = after
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

// hash returns a hash of what each manager has in managedFields.
func (d *Differ) hash(entries []any) map[string]uint64 {
	managers := map[string]uint64{}
	for _, e := range entries {
		b, err := json.Marshal(e)
		if err != nil {
			continue
		}
		managers[managerOf(e)] += maphash.Bytes(d.seed, b)
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

// changedBy returns the managers whose entries are new or have changed. There are none if a manager has written the
// same fields twice within a second, because times have seconds.
func changedBy(before, after map[string]uint64) (by []string) {
	for m, hash := range after {
		if was, ok := before[m]; m != "" && (!ok || was != hash) {
			by = append(by, m)
		}
	}
	slices.Sort(by)
	return by
}

// lastManagers returns the managers of the entries with the newest time.
func lastManagers(entries []any) (by []string) {
	newest := ""
	for _, e := range entries {
		newest = max(newest, timeOf(e))
	}
	for _, e := range entries {
		if m := managerOf(e); newest != "" && timeOf(e) == newest && m != "" && !slices.Contains(by, m) {
			by = append(by, m)
		}
	}
	slices.Sort(by)
	return by
}

// timeOf returns the time of an entry, which has a format that sorts.
func timeOf(entry any) string {
	e, _ := entry.(map[string]any)
	t, _ := e["time"].(string)
	return t
}
