package top

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

var robots = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "robots"},
	Kind:                 "Robot", Namespaced: true,
}

// object is what the events of a test are about.
type object struct {
	namespace, name, uid string
	created              time.Time
	job, manager         string
	wrote                int // seconds at which the manager wrote
}

func (o object) event(kind stream.Type) stream.Event {
	metadata := map[string]any{"namespace": o.namespace, "name": o.name, "uid": o.name + o.uid}
	if !o.created.IsZero() {
		metadata["creationTimestamp"] = o.created.UTC().Format(time.RFC3339)
	}
	if o.manager != "" {
		at := time.Unix(int64(o.wrote), 0).UTC().Format(time.RFC3339)
		metadata["managedFields"] = []any{map[string]any{"manager": o.manager, "time": at}}
	}
	b, err := json.Marshal(map[string]any{
		"apiVersion": "example.com/v1", "kind": "Robot", "metadata": metadata, "spec": map[string]any{"job": o.job},
	})
	if err != nil {
		panic(err)
	}
	return stream.Event{Type: kind, Resource: robots, JSON: b}
}

var columns = []screen.Column{
	{Title: "NAMESPACE"}, {Title: "NAME", Name: true}, {Title: "JOB"}, {Title: "AGE"},
}

// apply takes an event of an object, with the cells that a server sends.
func (o object) apply(m *Model, kind stream.Type) {
	m.Apply(o.event(kind), columns, []screen.Text{{Text: o.namespace}, {Text: o.name}, {Text: o.job}, {Text: "0s"}})
}

func synced(m *Model) { m.Apply(stream.Event{Type: stream.Synced, Resource: robots}, nil, nil) }

// names returns the names of the visible rows with their changes in the last minute.
func names(m *Model) (all []string) {
	m.Advance()
	for _, r := range m.visible() {
		all = append(all, fmt.Sprint(r.key.name, " ", churnText(r)))
	}
	return all
}

func want(t *testing.T, why string, got []string, names ...string) {
	t.Helper()
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", why, diff)
	}
}

// TestChurn: changes count for a minute, what existed before does not, and the most changed is the first.
func TestChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel()
		a, b, c := object{name: "a"}, object{name: "b"}, object{name: "c"}
		a.apply(m, stream.Added)
		b.apply(m, stream.Added)
		synced(m)
		want(t, "what existed is no change", names(m), "a 0", "b 0")
		b.apply(m, stream.Modified)
		time.Sleep(10 * time.Second)
		b.apply(m, stream.Modified)
		c.apply(m, stream.Added)
		want(t, "a new object is a change", names(m), "b 2", "c 1", "a 0")
		time.Sleep(49 * time.Second)
		want(t, "59 seconds after the first change", names(m), "b 2", "c 1", "a 0")
		time.Sleep(time.Second)
		want(t, "a minute after the first change", names(m), "b 1", "c 1", "a 0")
		time.Sleep(time.Hour)
		want(t, "much later", names(m), "a 0", "b 0", "c 0")
		a.apply(m, stream.Modified)
		want(t, "and a change then", names(m), "a 1", "b 0", "c 0")
	})
}

// TestDeleted: a deleted object stays for some seconds, and does not take the row of a new object of its name with it.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel()
		a, b := object{name: "a"}, object{name: "b"}
		a.apply(m, stream.Added)
		b.apply(m, stream.Added)
		synced(m)
		a.apply(m, stream.Deleted)
		b.apply(m, stream.Deleted)
		want(t, "marked at once", names(m), "a deleted", "b deleted")
		time.Sleep(deletedStays - time.Second)
		want(t, "shortly before the end", names(m), "a deleted", "b deleted")
		object{name: "b", uid: "2"}.apply(m, stream.Added)
		time.Sleep(time.Second)
		want(t, "b exists again", names(m), "b 2")
		time.Sleep(time.Hour)
		want(t, "b remains", names(m), "b 0")
		object{name: "b", uid: "2"}.apply(m, stream.Deleted)
		time.Sleep(time.Second)
		object{name: "b", uid: "3"}.apply(m, stream.Added)
		time.Sleep(time.Second)
		object{name: "b", uid: "3"}.apply(m, stream.Deleted)
		time.Sleep(deletedStays - 2*time.Second)
		want(t, "the second deletion counts", names(m), "b deleted")
		time.Sleep(2 * time.Second)
		if got := names(m); len(got)+len(m.rows)+len(m.deleted) > 0 {
			t.Errorf("all is gone, but there are %q, %d rows, %d deletions", got, len(m.rows), len(m.deleted))
		}
	})
}

// TestOrders: each order has ties in the order of names.
func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel()
		now := time.Now()
		for i, name := range []string{"c", "a", "b"} {
			o := object{name: name, namespace: "x", created: now.Add(time.Duration(i) * time.Minute)}
			o.apply(m, stream.Added)
		}
		object{name: "z", namespace: "a", created: now}.apply(m, stream.Added)
		synced(m)
		object{name: "c", namespace: "x", created: now, job: "new"}.apply(m, stream.Modified)
		want(t, "churn", names(m), "c 1", "z 0", "a 0", "b 0")
		m.order.sort(m.order.by.next())
		want(t, "age, the newest first", names(m), "b 0", "a 0", "z 0", "c 1")
		m.order.sort(m.order.by.next())
		want(t, "name, namespaces first", names(m), "z 0", "a 0", "b 0", "c 1")
		m.order.sort(m.order.by.next())
		if m.order.by != ByChurn {
			t.Errorf("after name comes %s", m.order.by)
		}
	})
}

// TestOrderIsThatOfASort compares the merged order with a sort of all rows, after random events.
func TestOrderIsThatOfASort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		m := NewModel()
		synced(m)
		for n := range 3000 {
			o := object{name: fmt.Sprint(random.IntN(60)), created: time.Unix(int64(random.IntN(5)), 0)}
			o.apply(m, []stream.Type{stream.Added, stream.Modified, stream.Modified, stream.Deleted}[random.IntN(4)])
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			if random.IntN(50) == 0 {
				m.order.sort(m.order.by.next())
			}
			if random.IntN(5) > 0 {
				continue
			}
			m.Advance()
			got := m.visible()
			sorted := slices.Clone(got)
			slices.SortFunc(sorted, m.order.by.compare)
			if !slices.Equal(got, sorted) || len(got) != len(m.rows) {
				t.Fatalf("after %d events, by %s: %q of %d rows", n, m.order.by, names(m), len(m.rows))
			}
		}
	})
}

// TestAgesAreNoChange: servers send ages, which change all the time.
func TestAgesAreNoChange(t *testing.T) {
	m := NewModel()
	ev := object{name: "a"}.event(stream.Modified)
	for _, age := range []string{"1s", "2s"} {
		m.Apply(ev, []screen.Column{{Title: "NAME"}, {Title: "AGE"}}, []screen.Text{{Text: "a"}, {Text: age}})
	}
	if r := m.rows[keyOf(ev)]; r.changed != nil || r.cells[1] != "2s" {
		t.Errorf("changed at %v, cells %q", r.changed, r.cells)
	}
}

// TestFilter: the filter finds any text of a row but its age, also in rows that change later.
func TestFilter(t *testing.T) {
	m := NewModel()
	object{name: "a", namespace: "shop", job: "Drill"}.apply(m, stream.Added)
	object{name: "b", namespace: "web", job: "paint"}.apply(m, stream.Added)
	for _, tt := range []struct{ filter, why string }{
		{"drill", "a cell, in any case"}, {"SHOP", "a namespace"}, {"shop/a", "namespace and name"},
	} {
		m.setFilter(tt.filter)
		want(t, tt.why, names(m), "a 0")
	}
	m.setFilter("robot/")
	want(t, "the kind", names(m), "a 0", "b 0")
	m.setFilter("0s")
	want(t, "an age is not searched", names(m))
	m.setFilter("drill")
	object{name: "b", namespace: "web", job: "drill"}.apply(m, stream.Modified)
	object{name: "a", namespace: "shop", job: "paint"}.apply(m, stream.Modified)
	want(t, "rows that have changed", names(m), "b 1")
}

// TestChanges: what an object has changed is kept with who changed it, but not what existed before.
func TestChanges(t *testing.T) {
	m := NewModel()
	o := object{name: "a", job: "drill", manager: "kubectl", wrote: 1}
	o.apply(m, stream.Added)
	synced(m)
	if got := m.history.of(keyOf(o.event(stream.Added))); len(got) > 0 {
		t.Errorf("an object that existed is no change: %v", got)
	}
	o.job, o.manager, o.wrote = "paint", "painter", 5
	o.apply(m, stream.Modified)
	o.apply(m, stream.Modified)
	o.apply(m, stream.Deleted)
	object{name: "b", manager: "maker", wrote: 7}.apply(m, stream.Added)
	var got []string
	for _, name := range []string{"a", "b"} {
		for _, c := range m.history.of(key{robots.String(), "", name}) {
			for _, line := range c.lines(200) {
				text := ""
				for _, part := range line {
					text += part.Text
				}
				text, _ = strings.CutPrefix(text, c.at.Format("15:04:05"))
				got = append(got, name+strings.TrimRight(text, " "))
			}
		}
	}
	want(t, "changes", got,
		"a  MODIFIED  by painter", "a          spec.job: drill → paint",
		"a  MODIFIED  by painter  no change but its resourceVersion",
		"a  DELETED", "b  ADDED  by maker")
}

// TestChangesAreBounded: authors of objects choose how much changes, and how often.
func TestChangesAreBounded(t *testing.T) {
	m := NewModel()
	synced(m)
	for i := range mostObjects + 10 {
		object{name: fmt.Sprint(i)}.apply(m, stream.Added)
	}
	if n := len(m.history.objects); n != mostObjects || m.history.recent.Len() != n {
		t.Errorf("changes of %d objects are kept, want %d", n, mostObjects)
	}
	if m.history.of(key{robots.String(), "", "9"}) != nil || m.history.of(key{robots.String(), "", "10"}) == nil {
		t.Error("those that changed first are forgotten")
	}
	object{name: "10", job: "again"}.apply(m, stream.Modified)
	object{name: "one more"}.apply(m, stream.Added)
	if m.history.of(key{robots.String(), "", "10"}) == nil || m.history.of(key{robots.String(), "", "11"}) != nil {
		t.Error("of two, the one that changed last is kept")
	}
	large, long := object{name: "large"}, object{name: "long"}
	for i := range mostChanges * 2 {
		large.job = strings.Repeat(fmt.Sprint(i%10), 16<<10)
		large.apply(m, stream.Modified)
		long.job = strings.Repeat("x", 16<<10) + fmt.Sprint("-", i)
		long.apply(m, stream.Modified)
	}
	of := func(o object) *changesOf { return m.history.objects[keyOf(o.event(""))].Value.(*changesOf) }
	if kept := of(large); kept.bytes > mostBytes || len(kept.changes) < 10 {
		t.Errorf("%d changes of %d bytes are kept, want at most %d bytes", len(kept.changes), kept.bytes, mostBytes)
	}
	if n := len(of(long).changes); n != mostChanges {
		t.Errorf("%d small changes are kept, want %d", n, mostChanges)
	}
	last := of(long).changes[mostChanges-1].fields[0]
	if !strings.HasSuffix(last.Old, "98") || !strings.HasSuffix(last.New, "99") || len(last.New) > 30 {
		t.Errorf("of a long value the difference is kept, not %.50q and %.50q", last.Old, last.New)
	}
}

// TestMemoryIsBounded: of an object no more is kept than its compressed state, not the text that it was decoded from.
func TestMemoryIsBounded(t *testing.T) {
	const objects, size = 2000, 20 << 10
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	m := NewModel()
	before := heap()
	for i := range objects {
		o := object{name: fmt.Sprint(i), job: strings.Repeat("text ", size/5), manager: "manager", wrote: 1}
		o.apply(m, stream.Added)
	}
	if each := (heap() - before) / objects; each > size/4 {
		t.Errorf("%d bytes are kept of each object of %d", each, size)
	}
	runtime.KeepAlive(m)
}
