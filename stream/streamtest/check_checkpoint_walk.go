package streamtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// checkpointWalk goes through the events of one namespace as the low-water mark
// does, and holds what is kept against what it may be at each step.
type checkpointWalk struct {
	events []stream.Event // of this namespace
	index  []int          // of each in the recording
	acked  func(int) bool
	joint  bool
	held   bool // nothing is kept before SYNCED: Now

	version string // that is kept; empty for none
	kept    state  // without those that are hidden
	objects bool   // they count

	snapshot bool   // the low-water mark is within one, or with several namespaces may be
	least    string // that the version can be; empty if it is not known
	unknown  bool   // those that nothing has been told of may be anything
	expected state
	wrong    map[types.NamespacedName]bool // not expected as they are kept

	latest bool // one event may stand for several

	nearest      string // what was wrong where the fewest objects were
	nearestWrong int
}

func newCheckpointWalk(c *checkpointChecker, namespace string, acked func(int) bool) *checkpointWalk {
	run := c.run
	w := &checkpointWalk{acked: acked, joint: c.joint, objects: !run.Options.IndexNone, latest: run.Options.Latest, version: run.After.ResourceVersions[namespace],
		wrong: map[types.NamespacedName]bool{}}
	for i, ev := range run.Events {
		if ev.Namespace == namespace || ev.Type == stream.Synced {
			w.events, w.index = append(w.events, ev), append(w.index, i)
		}
	}
	w.kept, w.expected = visible(run.After, namespace), visible(run.Before, namespace)
	if run.Before != nil {
		w.least, w.unknown = run.Before.ResourceVersions[namespace], run.Before.Partial
		w.snapshot = w.least == ""
	} else {
		w.least, w.held = run.Options.After, run.Options.Now
		w.snapshot, w.unknown = w.least == "", w.held || w.least != ""
	}
	for name := range w.expected {
		w.compare(name)
	}
	for name := range w.kept {
		if !w.unknown {
			w.compare(name)
		}
	}
	return w
}

func visible(p *checkpoint.Position, namespace string) state {
	all := state{}
	if p == nil {
		return all
	}
	for _, o := range p.Objects {
		if !o.Hidden && !o.Unacked && (namespace == "" || o.Namespace == namespace) {
			all[o.NamespacedName()] = ref{uid: o.UID, rv: o.ResourceVersion}
		}
	}
	return all
}

// compare notes whether an object is kept as it is expected to be.
func (w *checkpointWalk) compare(name types.NamespacedName) {
	if w.objects && w.expected[name] != w.kept[name] {
		w.wrong[name] = true
	} else {
		delete(w.wrong, name)
	}
}

// explained says whether there is a point at which what is kept is right.
func (w *checkpointWalk) explained() bool {
	if w.snapshot && w.withinSnapshot(0) {
		return true
	}
	if !w.snapshot && w.version == "" && len(w.kept) == 0 && w.unknown && len(w.expected) == 0 {
		return true // a start at a version, of which nothing is kept yet
	}
	for i := range w.events {
		if w.atVersion(i) {
			return true
		}
		ev := w.events[i]
		if !w.acked(w.index[i]) && !(w.joint && ev.Type == stream.Synced) {
			return false
		}
		w.apply(ev)
		if ev.Type == stream.Gap && w.withinSnapshot(i+1) {
			return true
		}
	}
	return w.atVersion(len(w.events))
}

// endsSnapshot says whether nothing after ev belongs to the snapshot before it.
func (w *checkpointWalk) endsSnapshot(ev stream.Event) bool {
	return ev.Type == stream.Synced && (w.joint || ev.ResourceVersion != "")
}

// apply moves the low-water mark over an event.
func (w *checkpointWalk) apply(ev stream.Event) {
	switch {
	case ev.Type == stream.Gap:
		w.snapshot, w.least = true, ""
		w.held = w.held && !w.joint // this namespace may have been SYNCED
	case w.endsSnapshot(ev):
		w.snapshot, w.held = false, false
		w.atLeast(ev.ResourceVersion)
	case ev.Type == stream.Bookmark:
		w.atLeast(ev.ResourceVersion)
	case ev.Object != nil:
		name := keyOf(ev.Object)
		w.expected.enter(ev)
		w.compare(name)
		if !ev.Inferred || ev.Type != stream.Deleted && w.snapshot {
			w.atLeast(ev.ResourceVersion)
		}
	}
}

// enter makes s what it is after an event. The end of another object than the one
// that has the name is that of one that was Unacked in the run before.
func (s state) enter(ev stream.Event) {
	name, uid := keyOf(ev.Object), ev.Object.GetUID()
	switch {
	case ev.Type != stream.Deleted:
		s[name] = ref{uid: uid, rv: ev.Object.GetResourceVersion()}
	case s[name].uid == uid:
		delete(s, name)
	}
}

func (w *checkpointWalk) atLeast(rv string) {
	if w.least == "" || older(w.least, rv) {
		w.least = rv
	}
}

// atVersion says whether what is kept is right if the low-water mark stands at a
// version, and the next event is i.
func (w *checkpointWalk) atVersion(i int) bool {
	if w.version == "" || w.held && !w.joint || w.snapshot && !w.joint && !w.mayEnd(i) {
		return false
	}
	if older(w.version, w.least) || w.reaches(i) {
		return false
	}
	return w.right(i)
}

// mayEnd says whether the snapshot may have ended before event i. From then on the
// sequence stands at its version, whether SYNCED has been told or not.
func (w *checkpointWalk) mayEnd(i int) bool {
	if i == len(w.events) || w.latest && w.mayEndUnseen(i) {
		return true
	}
	ev := w.events[i]
	return ev.Type == stream.Gap || ev.Type == stream.Synced && ev.ResourceVersion == w.version
}

// mayEndUnseen says whether the snapshot may have ended before event i though that does
// not show: SYNCED is left out where a GAP overtakes it, and GAPs become one.
func (w *checkpointWalk) mayEndUnseen(i int) bool {
	isGap := func(ev stream.Event) bool { return ev.Type == stream.Gap }
	if slices.ContainsFunc(w.events[:i], isGap) {
		return true
	}
	end := slices.IndexFunc(w.events[i:], func(ev stream.Event) bool { return isGap(ev) || w.endsSnapshot(ev) })
	return end < 0 || isGap(w.events[i+end])
}

// reaches says whether the version that is kept is that of what follows.
func (w *checkpointWalk) reaches(i int) bool {
	for _, ev := range w.events[i:] {
		switch {
		case ev.Gap != nil:
			return !older(ev.Gap.From, w.least) && older(ev.Gap.From, w.version)
		case ev.Type == stream.Synced && (w.snapshot || w.joint):
		case ev.Type == stream.Synced, ev.Type == stream.Bookmark:
			return !older(ev.ResourceVersion, w.least) && older(ev.ResourceVersion, w.version)
		case ev.Object != nil && !ev.Inferred && older(w.least, ev.ResourceVersion):
			return !older(w.version, ev.ResourceVersion)
		}
	}
	return false
}

// withinSnapshot says whether what is kept is right if the low-water mark is within
// the snapshot that begins with event i. That includes each point within it: what
// is before the mark has been acked, too.
func (w *checkpointWalk) withinSnapshot(i int) bool {
	if w.version != "" || w.held {
		return false
	}
	left := maps.Clone(w.wrong) // those that nothing explains so far
	waits, told := map[types.NamespacedName]bool{}, maps.Clone(w.expected)
	for ; i < len(w.events) && !w.endsSnapshot(w.events[i]); i++ {
		ev := w.events[i]
		if ev.Object == nil {
			continue
		}
		name := keyOf(ev.Object)
		waits[name] = waits[name] || !w.acked(w.index[i])
		if !waits[name] && w.standsFor(ev, told) {
			delete(left, name)
		}
		told.enter(ev)
		if !waits[name] && w.kept[name] == told[name] {
			delete(left, name)
		}
	}
	if len(left) == 0 {
		return true
	}
	w.near(left, "no state that it can have in there")
	return false
}

// right says whether all objects are kept as they are expected before event i.
func (w *checkpointWalk) right(i int) bool {
	wrong := w.unexplained(i)
	if len(wrong) == 0 {
		return true
	}
	where := "at the end"
	if i < len(w.events) {
		where = "before " + fmt.Sprint(w.index[i], " ", Text(w.events[i]))
	}
	w.near(wrong, "not what had been told "+where)
	return false
}

// unexplained are the objects that are not expected as they are kept, without those
// of which the next thing that was told, from event i on, explains it.
func (w *checkpointWalk) unexplained(i int) map[types.NamespacedName]bool {
	left, next := map[types.NamespacedName]bool{}, maps.Clone(w.wrong)
	for ; i < len(w.events) && len(next) > 0; i++ {
		ev := w.events[i]
		if ev.Object == nil || !next[keyOf(ev.Object)] {
			continue
		}
		delete(next, keyOf(ev.Object))
		if !w.acked(w.index[i]) || !w.standsFor(ev, w.expected) {
			left[keyOf(ev.Object)] = true
		}
	}
	maps.Copy(left, next)
	return left
}

// standsFor says whether an event that has been acked, and that the low-water mark
// is not at, may stand for another that it is at, which made of an object what is
// kept, where before that it was as in told: so that the position has the objects
// that there were at its version.
func (w *checkpointWalk) standsFor(ev stream.Event, told state) bool {
	name := keyOf(ev.Object)
	kept, ok := w.kept[name]
	switch {
	case !w.latest || ev.Coalesced == 0:
		return false
	case !ok: // it had gone, and came back later
		return ev.Type != stream.Added && told[name].uid == ev.Object.GetUID()
	case ev.Type == stream.Deleted || kept.uid != ev.Object.GetUID() || !older(kept.rv, ev.ResourceVersion):
		return false
	}
	was, known := told[name]
	return known == (ev.Type == stream.Modified) && (!known || was.uid == kept.uid && older(was.rv, kept.rv))
}

// near keeps what is wrong where the least is.
func (w *checkpointWalk) near(wrong map[types.NamespacedName]bool, why string) {
	if w.nearest != "" && len(wrong) >= w.nearestWrong {
		return
	}
	var first types.NamespacedName
	for name := range wrong {
		if first.Name == "" || cmp.Or(cmp.Compare(name.Namespace, first.Namespace), cmp.Compare(name.Name, first.Name)) < 0 {
			first = name
		}
	}
	kept := "is missing"
	if r, ok := w.kept[first]; ok {
		kept = fmt.Sprintf("(%s) is kept at %s", r.uid, r.rv)
	}
	w.nearest, w.nearestWrong = fmt.Sprintf("%s %s: %s", first, kept, why), len(wrong)
}
