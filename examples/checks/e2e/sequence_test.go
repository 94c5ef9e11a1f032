package e2e

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/stream"
)

// fact identifies an event of an object.
type fact struct {
	kind    stream.Type
	uid, rv string
}

// reporter is the part of [testing.TB] that the checks use.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

func isNewer(t reporter, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Errorf("%v", err)
	}
	return order > 0
}

// checkSequence checks rules that every sequence of a resource keeps:
//
//   - no event repeats,
//   - the events of an object begin with ADDED and end with DELETED,
//   - the versions of an object increase, and so do those of a namespace except after a GAP or in a snapshot.
func checkSequence(t reporter, events []stream.Event) {
	t.Helper()
	type life struct {
		alive, ended bool
		rv           string
	}
	seen, lives, last := map[fact]bool{}, map[string]*life{}, map[string]string{}
	names := map[string]string{} // uids of existing objects, by name
	live := map[string]bool{}    // namespaces with a SYNCED since the last GAP
	for i, ev := range events {
		switch ev.Type {
		case stream.Gap:
			clear(live)
			continue
		case stream.Synced:
			for _, other := range events[:i] {
				if other.Object != nil {
					live[other.Object.GetNamespace()] = true
				}
			}
			continue
		case stream.Bookmark:
			continue
		}
		o := ev.Object
		uid, name, ns := string(o.GetUID()), o.GetNamespace()+"/"+o.GetName(), o.GetNamespace()
		f := fact{ev.Type, uid, ev.ResourceVersion}
		if seen[f] {
			t.Errorf("event %d: %s %s@%s is a repeat", i, ev.Type, name, ev.ResourceVersion)
		}
		seen[f] = true
		if live[ns] && !ev.Inferred && last[ns] != "" && !isNewer(t, ev.ResourceVersion, last[ns]) {
			t.Errorf("event %d: %s %s@%s comes after @%s", i, ev.Type, name, ev.ResourceVersion, last[ns])
		}
		if last[ns] == "" || isNewer(t, ev.ResourceVersion, last[ns]) {
			last[ns] = ev.ResourceVersion
		}
		l := lives[uid]
		if l == nil {
			l = &life{}
			lives[uid] = l
		}
		if l.ended {
			t.Errorf("event %d: %s %s@%s comes after its DELETED", i, ev.Type, name, ev.ResourceVersion)
		}
		if l.alive != (ev.Type != stream.Added) {
			t.Errorf("event %d: %s %s@%s, but the object exists: %v", i, ev.Type, name, ev.ResourceVersion, l.alive)
		}
		if l.rv != "" && !ev.Inferred && !isNewer(t, ev.ResourceVersion, l.rv) {
			t.Errorf("event %d: %s %s@%s comes after @%s of the same object",
				i, ev.Type, name, ev.ResourceVersion, l.rv)
		}
		l.rv, l.alive = ev.ResourceVersion, ev.Type != stream.Deleted
		l.ended = !l.alive
		switch {
		case ev.Type == stream.Added && names[name] != "":
			t.Errorf("event %d: ADDED %s, but the object %s with this name exists", i, name, names[name])
		case ev.Type == stream.Added:
			names[name] = uid
		case ev.Type == stream.Deleted && names[name] == uid:
			delete(names, name)
		}
	}
}

// checkDelivered compares the events of a source with all writes since its first SYNCED (a snapshot delivers an object
// once, at one version): each write is delivered exactly once, and nothing else is. Of the writes in a GAP only the
// outcome is delivered. It returns the number of GAPs.
func checkDelivered(t reporter, writes []write, events []stream.Event) int {
	t.Helper()
	checkSequence(t, events)
	times, ends := map[fact]int{}, map[string]int{}
	type window struct{ from, to string }
	var windows []window
	for i, ev := range events {
		switch ev.Type {
		case stream.Gap:
			w := window{from: ev.Gap.From}
			isSynced := func(e stream.Event) bool { return e.Type == stream.Synced }
			if after := slices.IndexFunc(events[i:], isSynced); after > 0 {
				w.to = events[i+after].ResourceVersion
			}
			windows = append(windows, w)
		case stream.Deleted:
			ends[string(ev.Object.GetUID())]++
		case stream.Added, stream.Modified:
			times[fact{ev.Type, string(ev.Object.GetUID()), ev.ResourceVersion}]++
		}
	}
	inGap := func(rv string) bool {
		return slices.ContainsFunc(windows, func(w window) bool {
			return (w.from == "" || isNewer(t, rv, w.from)) && (w.to == "" || !isNewer(t, rv, w.to))
		})
	}
	delivered := map[string]bool{}
	for f := range times {
		delivered[f.uid] = true
	}
	outcome := map[string]write{}
	for _, w := range writes {
		outcome[w.uid] = w
	}
	for i, w := range writes {
		if w.kind == stream.Deleted {
			if n := ends[w.uid]; n != 1 && !(n == 0 && len(windows) > 0 && !delivered[w.uid]) {
				t.Errorf("write %d, the deletion of %s, was delivered %d times", i, w.name, n)
			}
			delete(ends, w.uid)
			continue
		}
		f := fact{w.kind, w.uid, w.rv}
		n := times[f]
		if n == 0 && len(windows) > 0 { // after a GAP a change may be delivered as ADDED, for example
			for _, kind := range []stream.Type{stream.Added, stream.Modified} {
				if g := (fact{kind, w.uid, w.rv}); times[g] > 0 {
					f, n = g, times[g]
				}
			}
		}
		if n > 1 || n == 0 && !(inGap(w.rv) && outcome[w.uid] != w) {
			t.Errorf("write %d, %s %s@%s, was delivered %d times", i, w.kind, w.name, w.rv, n)
		}
		delete(times, f)
	}
	for f := range times {
		t.Errorf("delivered but never written: %v", f)
	}
	for uid := range ends {
		t.Errorf("DELETED %s, but it was not deleted", uid)
	}
	return len(windows)
}

type failures []string

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func TestCheckDelivered(t *testing.T) {
	ev := func(kind stream.Type, rv string) stream.Event {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName("a")
		o.SetUID("a")
		o.SetResourceVersion(rv)
		return stream.Event{Type: kind, Object: o, ResourceVersion: rv}
	}
	added := func(rv string) stream.Event { return ev(stream.Added, rv) }
	modified := func(rv string) stream.Event { return ev(stream.Modified, rv) }
	deleted := func(rv string) stream.Event { return ev(stream.Deleted, rv) }
	syncedAt := func(rv string) stream.Event { return stream.Event{Type: stream.Synced, ResourceVersion: rv} }
	synced := syncedAt("1")
	gap := stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{From: "2"}}
	writes := []write{
		{stream.Added, "a", "a", "2"}, {stream.Modified, "a", "a", "3"}, {stream.Modified, "a", "a", "4"},
		{stream.Deleted, "a", "a", ""},
	}
	for _, test := range []struct {
		why    string
		writes []write
		events []stream.Event
		ok     bool
	}{
		{"each write is delivered once", writes,
			[]stream.Event{synced, added("2"), modified("3"), modified("4"), deleted("5")}, true},
		{"no MODIFIED is missing", writes,
			[]stream.Event{synced, added("2"), modified("4"), deleted("5")}, false},
		{"no MODIFIED repeats", writes,
			[]stream.Event{synced, added("2"), modified("3"), modified("4"), modified("4"), deleted("5")}, false},
		{"DELETED is not missing", writes,
			[]stream.Event{synced, added("2"), modified("3"), modified("4")}, false},
		{"DELETED does not repeat", writes,
			[]stream.Event{synced, added("2"), modified("3"), modified("4"), deleted("5"), deleted("6")}, false},
		{"the order is that of the writes", writes,
			[]stream.Event{synced, added("2"), modified("4"), modified("3"), deleted("5")}, false},
		{"ADDED does not repeat", writes[:1],
			[]stream.Event{synced, added("2"), added("2")}, false},
		{"an existing object is not DELETED", writes[:1],
			[]stream.Event{synced, added("2"), deleted("3")}, false},
		{"each event has a write", writes[:1],
			[]stream.Event{synced, added("2"), modified("3")}, false},
		{"a state in a GAP may be missing", writes[:3],
			[]stream.Event{synced, added("2"), gap, modified("4"), syncedAt("4")}, true},
		{"the last state in a GAP is delivered", writes[:3],
			[]stream.Event{synced, added("2"), gap, modified("3"), syncedAt("4")}, false},
		{"no state after a GAP is missing", writes[:3],
			[]stream.Event{synced, added("2"), gap, syncedAt("2"), modified("4")}, false},
	} {
		var got failures
		checkDelivered(&got, test.writes, test.events)
		if (len(got) == 0) != test.ok {
			t.Errorf("%s: passed: %v, want %v; failures: %q", test.why, !test.ok, test.ok, got)
		}
	}
}
