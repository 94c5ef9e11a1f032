package e2e

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/stream"
)

// fact is a state of an object.
type fact struct {
	kind    stream.Type
	uid, rv string
}

// reporter is a *testing.T, or what stands in for one.
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

// checkSequence holds what a source told, of one resource, to what holds for all
// sequences, whatever happened: nothing twice, nothing before its beginning or
// after its end, versions of an object and (unless a GAP or a new snapshot came)
// within a namespace only ever higher.
func checkSequence(t reporter, events []stream.Event) {
	t.Helper()
	type life struct {
		alive, ended bool
		rv           string
	}
	seen, lives, last := map[fact]bool{}, map[string]*life{}, map[string]string{}
	names := map[string]string{} // of the living
	live := map[string]bool{}    // namespaces in which SYNCED has been told
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
			t.Errorf("event %d: %s %s@%s was told before", i, ev.Type, name, ev.ResourceVersion)
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
			t.Errorf("event %d: %s %s@%s comes after its end", i, ev.Type, name, ev.ResourceVersion)
		}
		if l.alive != (ev.Type != stream.Added) {
			t.Errorf("event %d: %s %s@%s, though alive is %v", i, ev.Type, name, ev.ResourceVersion, l.alive)
		}
		if l.rv != "" && !ev.Inferred && !isNewer(t, ev.ResourceVersion, l.rv) {
			t.Errorf("event %d: %s %s@%s comes after @%s of the same object", i, ev.Type, name, ev.ResourceVersion, l.rv)
		}
		l.rv, l.alive = ev.ResourceVersion, ev.Type != stream.Deleted
		l.ended = !l.alive
		switch {
		case ev.Type == stream.Added && names[name] != "":
			t.Errorf("event %d: %s is added while %s of that name is there", i, name, names[name])
		case ev.Type == stream.Added:
			names[name] = uid
		case ev.Type == stream.Deleted && names[name] == uid:
			delete(names, name)
		}
	}
}

// checkDelivered compares what a source told with what was written, all of it since
// its first SYNCED or before that one object at one version: every write exactly
// once and nothing else, but what fell into a GAP, of which the outcome is told. It
// returns the number of GAPs.
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
			if after := slices.IndexFunc(events[i:], func(e stream.Event) bool { return e.Type == stream.Synced }); after > 0 {
				w.to = events[i+after].ResourceVersion
			}
			windows = append(windows, w)
		case stream.Deleted:
			ends[string(ev.Object.GetUID())]++
		case stream.Added, stream.Modified:
			times[fact{ev.Type, string(ev.Object.GetUID()), ev.ResourceVersion}]++
		}
	}
	excused := func(rv string) bool {
		return slices.ContainsFunc(windows, func(w window) bool {
			return (w.from == "" || isNewer(t, rv, w.from)) && (w.to == "" || !isNewer(t, rv, w.to))
		})
	}
	begun := map[string]bool{}
	for f := range times {
		begun[f.uid] = true
	}
	outcome := map[string]write{}
	for _, w := range writes {
		outcome[w.uid] = w
	}
	for i, w := range writes {
		if w.kind == stream.Deleted {
			if n := ends[w.uid]; n != 1 && !(n == 0 && len(windows) > 0 && !begun[w.uid]) {
				t.Errorf("write %d, the end of %s, was told %d times", i, w.name, n)
			}
			delete(ends, w.uid)
			continue
		}
		f := fact{w.kind, w.uid, w.rv}
		n := times[f]
		if n == 0 && len(windows) > 0 { // ADDED with a later state, and so on
			for _, kind := range []stream.Type{stream.Added, stream.Modified} {
				if g := (fact{kind, w.uid, w.rv}); times[g] > 0 {
					f, n = g, times[g]
				}
			}
		}
		if n > 1 || n == 0 && !(excused(w.rv) && outcome[w.uid] != w) {
			t.Errorf("write %d, %s %s@%s, was told %d times", i, w.kind, w.name, w.rv, n)
		}
		delete(times, f)
	}
	for f := range times {
		t.Errorf("told but never written: %v", f)
	}
	for uid := range ends {
		t.Errorf("%s was told to have ended, but has not", uid)
	}
	return len(windows)
}

type failures []string

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func TestOracle(t *testing.T) {
	ev := func(kind stream.Type, uid, rv string) stream.Event {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(uid)
		o.SetUID(types.UID(uid))
		o.SetResourceVersion(rv)
		return stream.Event{Type: kind, Object: o, ResourceVersion: rv}
	}
	synced := stream.Event{Type: stream.Synced, ResourceVersion: "1"}
	gap := stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{From: "2"}}
	until := func(rv string) stream.Event { return stream.Event{Type: stream.Synced, ResourceVersion: rv} }
	writes := []write{{stream.Added, "a", "a", "2"}, {stream.Modified, "a", "a", "3"}, {stream.Modified, "a", "a", "4"}, {stream.Deleted, "a", "a", ""}}
	for _, test := range []struct {
		why    string
		writes []write
		events []stream.Event
		ok     bool
	}{
		{"everything once", writes, []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "3"), ev("MODIFIED", "a", "4"), ev("DELETED", "a", "5")}, true},
		{"one is missing", writes, []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "4"), ev("DELETED", "a", "5")}, false},
		{"one comes twice", writes, []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "3"), ev("MODIFIED", "a", "4"), ev("MODIFIED", "a", "4"), ev("DELETED", "a", "5")}, false},
		{"the end is missing", writes, []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "3"), ev("MODIFIED", "a", "4")}, false},
		{"the end comes twice", writes, []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "3"), ev("MODIFIED", "a", "4"), ev("DELETED", "a", "5"), ev("DELETED", "a", "6")}, false},
		{"an order that is wrong", writes, []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "4"), ev("MODIFIED", "a", "3"), ev("DELETED", "a", "5")}, false},
		{"ADDED again", writes[:1], []stream.Event{synced, ev("ADDED", "a", "2"), ev("ADDED", "a", "2")}, false},
		{"an end that was not", writes[:1], []stream.Event{synced, ev("ADDED", "a", "2"), ev("DELETED", "a", "3")}, false},
		{"what nobody wrote", writes[:1], []stream.Event{synced, ev("ADDED", "a", "2"), ev("MODIFIED", "a", "3")}, false},
		{"a state in a GAP", writes[:3], []stream.Event{synced, ev("ADDED", "a", "2"), gap, ev("MODIFIED", "a", "4"), until("4")}, true},
		{"the last state in a GAP", writes[:3], []stream.Event{synced, ev("ADDED", "a", "2"), gap, ev("MODIFIED", "a", "3"), until("4")}, false},
		{"a state after a GAP", writes[:3], []stream.Event{synced, ev("ADDED", "a", "2"), gap, until("2"), ev("MODIFIED", "a", "4")}, false},
	} {
		var got failures
		checkDelivered(&got, test.writes, test.events)
		if (len(got) == 0) != test.ok {
			t.Errorf("%s: it is ok: %v, want %v: %q", test.why, !test.ok, test.ok, got)
		}
	}
}
