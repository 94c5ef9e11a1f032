package streamtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckpointRun is one run of a program that keeps a checkpoint.
type CheckpointRun struct {
	// Before is what the store held when the run began, and After what it holds now.
	// Nil is nothing.
	Before, After *checkpoint.Position
	// Events are those that were delivered, up to when After was read or later.
	Events []stream.Event
	// Acked says whether event i has been acked. Nil means that all have been.
	Acked func(i int) bool
	// Options say how the sequence was made. Namespaces and IndexNone count, and where
	// Before is nil Now and After. Before takes the place of From.
	Options CheckOptions
}

// CheckCheckpoint says whether what a store holds is what may have become of it:
// what it held before, with the acked events entered up to a point.
//
// Acks may be in any order, and the last commits may be lost, as with a kill: a
// checkpoint is right if it was at any instant of some run with these events of
// which no others were acked. In each namespace that means either
//
//   - a version at which live events stand. Everything delivered up to there has
//     been acked, nothing beyond it has been entered. The version may be later than
//     the last event's, as bookmarks and objects that are not wanted move it, too,
//     but it is before the next event's. That of a snapshot may be kept as soon as
//     all of it has been acked but for SYNCED, which is no change; or
//   - no version, within a snapshot. Everything delivered up to its beginning has
//     been acked, and any objects of it may have been entered, each up to a state
//     before which all events of this object have been acked.
//
// It returns nil, or what is broken in each namespace, joined: each is a *Violation,
// "acknowledged" if events have been passed that were not acked, and else "durable",
// for then it is a state that nobody ever committed. Its Index is that of the first
// event that was not acked, or the number of events.
//
// It takes no right checkpoint for a broken one, and with versions that are
// numbers finds all that are broken but for these: entries without a resourceVersion
// are left out; events that stand for others (Coalesced) say nothing of the version;
// of a sequence that began Now or After a version the objects of which nothing was
// delivered may be anything; and while several namespaces are not SYNCED, each of them
// may be within its snapshot or be beyond it, as it does not show which. With IndexNone
// only versions count. Partial is not looked at.
func CheckCheckpoint(run CheckpointRun) error {
	if err := run.Options.validate(); err != nil {
		return err
	}
	if run.Acked == nil {
		run.Acked = func(int) bool { return true }
	}
	switch {
	case run.After == nil && run.Before == nil:
		return nil
	case run.After == nil:
		return &Violation{durable, len(run.Events), "the checkpoint", "it is gone"}
	case run.Before == nil:
		run.Before = &checkpoint.Position{Partial: run.Options.Now || run.Options.After != ""}
		if namespaces := run.Options.namespaces(); run.Options.After != "" {
			run.Before.ResourceVersions = map[string]string{}
			for _, n := range namespaces {
				run.Before.ResourceVersions[n] = run.Options.After
			}
		}
	default:
		run.Options.Now = false
	}
	errs := []error{run.elsewhere()}
	for _, n := range run.Options.namespaces() {
		errs = append(errs, run.namespace(n))
	}
	return errors.Join(errs...)
}

// entries are what is kept of objects, in a namespace or everywhere, without those
// that nobody has acked.
type entries map[objectID]string

type objectID struct {
	types.NamespacedName
	UID types.UID
}

func entriesOf(p *checkpoint.Position, wanted func(namespace string) bool) entries {
	all := entries{}
	for _, o := range p.Objects {
		if o.ResourceVersion != "" && wanted(o.Namespace) {
			all[objectID{o.NamespacedName(), o.UID}] = o.ResourceVersion
		}
	}
	return all
}

// enter makes e what it is after an event.
func (e entries) enter(ev stream.Event) objectID {
	id := objectID{keyOf(ev.Object), ev.Object.GetUID()}
	if ev.Type == stream.Deleted {
		delete(e, id)
	} else {
		e[id] = ev.Object.GetResourceVersion()
	}
	return id
}

// elsewhere reports what has changed in namespaces that are not watched.
func (run CheckpointRun) elsewhere() error {
	watched := run.Options.namespaces()
	if watched[0] == "" {
		return nil
	}
	not := func(namespace string) bool { return !slices.Contains(watched, namespace) }
	versions := func(p *checkpoint.Position) map[string]string {
		kept := maps.Clone(p.ResourceVersions)
		maps.DeleteFunc(kept, func(namespace, _ string) bool { return namespace == "" || !not(namespace) })
		return kept
	}
	if maps.Equal(versions(run.Before), versions(run.After)) && maps.Equal(entriesOf(run.Before, not), entriesOf(run.After, not)) {
		return nil
	}
	return &Violation{durable, len(run.Events), "the checkpoint", "it has changed in a namespace that is not watched"}
}

// namespace reports what is wrong with one of them.
func (run CheckpointRun) namespace(n string) error {
	nearest, ok := run.explain(n, run.Acked)
	if ok {
		return nil
	}
	first := len(run.Events)
	for i, ev := range run.Events {
		if !run.Acked(i) && (ev.Namespace == n || ev.Type == stream.Synced) {
			first = i
			break
		}
	}
	at := "within a snapshot"
	if rv := run.After.ResourceVersions[n]; rv != "" {
		at = "at " + rv
	}
	if n != "" {
		at += " in " + n
	}
	if everything, ok := run.explain(n, func(int) bool { return true }); !ok {
		return &Violation{durable, first, "the checkpoint", at + ": " + cmp.Or(everything, nearest, "it fits no event")}
	}
	return &Violation{acknowledged, first, textAt(run.Events, first), "it was not acked, and the checkpoint (" + at + ") is beyond it"}
}

// explain looks for a point at which what is kept of a namespace was right, given
// these acks. If there is none it returns how the nearest one differs.
func (run CheckpointRun) explain(n string, acked func(int) bool) (nearest string, ok bool) {
	w := &checkpointWalk{
		joint: len(run.Options.namespaces()) > 1, held: run.Options.Now && len(run.Options.namespaces()) == 1,
		version: run.After.ResourceVersions[n], least: run.Before.ResourceVersions[n],
		expected: entries{}, wrong: map[objectID]bool{},
	}
	w.snapshot = w.least == ""
	for i, ev := range run.Events {
		if ev.Namespace == n || ev.Type == stream.Synced {
			w.steps = append(w.steps, step{ev, i, acked(i)})
		}
	}
	if !run.Options.IndexNone {
		wanted := func(namespace string) bool { return n == "" || n == namespace }
		w.kept, w.expected = entriesOf(run.After, wanted), entriesOf(run.Before, wanted)
		for id := range w.expected {
			w.compare(id)
		}
		for id := range w.kept {
			if !run.Before.Partial {
				w.compare(id)
			}
		}
	}
	ok = w.explained()
	return w.nearest, ok
}

// checkpointWalk goes through the events of one namespace as the low-water mark
// does, and holds what is kept against what it may be at each step.
type checkpointWalk struct {
	steps []step
	joint bool // SYNCED is for several namespaces
	held  bool // nothing is kept before SYNCED: Now

	version string  // that is kept; empty for none
	kept    entries // nil with IndexNone

	snapshot bool   // the low-water mark is within one, or with several namespaces may be
	least    string // that the version can be; empty if it is not known
	expected entries
	wrong    map[objectID]bool // not expected as they are kept

	nearest string // what was wrong where the fewest objects were
	fewest  int
}

type step struct {
	stream.Event
	index int // in the recording
	acked bool
}

// compare notes whether an object is kept as it is expected to be.
func (w *checkpointWalk) compare(id objectID) {
	if w.kept != nil && w.expected[id] != w.kept[id] {
		w.wrong[id] = true
	} else {
		delete(w.wrong, id)
	}
}

// explained says whether there is a point at which what is kept is right.
func (w *checkpointWalk) explained() bool {
	if w.snapshot && w.withinSnapshot(w.steps) {
		return true
	}
	for i, st := range w.steps {
		if w.atVersion(w.steps[i:]) {
			return true
		}
		if !st.acked && !(w.joint && st.Type == stream.Synced) {
			return false
		}
		w.apply(st.Event)
		if st.Type == stream.Gap && w.withinSnapshot(w.steps[i+1:]) {
			return true
		}
	}
	return w.atVersion(nil)
}

// apply moves the low-water mark over an event.
func (w *checkpointWalk) apply(ev stream.Event) {
	switch {
	case ev.Type == stream.Gap:
		if w.snapshot = true; ev.Gap == nil || ev.Gap.Reason == stream.GapRewound {
			w.least = ""
		}
		w.held = w.held && !w.joint // this namespace may have been SYNCED
	case ev.Type == stream.Synced:
		w.snapshot, w.held = false, false
		w.atLeast(ev.ResourceVersion)
	case ev.Type == stream.Bookmark:
		w.atLeast(ev.ResourceVersion)
	case ev.Object != nil:
		w.compare(w.expected.enter(ev))
		// One that stands for others is newer than its place.
		if ev.Coalesced == 0 && (!ev.Inferred || ev.Type != stream.Deleted && w.snapshot) {
			w.atLeast(ev.ResourceVersion)
		}
	}
}

func (w *checkpointWalk) atLeast(rv string) {
	if w.least == "" || older(w.least, rv) {
		w.least = rv
	}
}

// atVersion says whether what is kept is right if the low-water mark stands at a
// version, and these events follow.
func (w *checkpointWalk) atVersion(rest []step) bool {
	if w.version == "" || w.held && !w.joint || older(w.version, w.least) || w.reaches(rest) {
		return false
	}
	// A snapshot may have ended before SYNCED, and stands at its version from then on.
	if w.snapshot && !w.joint && len(rest) > 0 && rest[0].Type != stream.Gap &&
		!(rest[0].Type == stream.Synced && rest[0].ResourceVersion == w.version) {
		return false
	}
	where := "at the end"
	if len(rest) > 0 {
		where = fmt.Sprint("before ", rest[0].index, " ", Text(rest[0].Event))
	}
	return w.right(w.wrong, "not what had been delivered "+where)
}

// reaches says whether the version that is kept is that of what follows.
func (w *checkpointWalk) reaches(rest []step) bool {
	for _, ev := range rest {
		switch {
		case ev.Gap != nil:
			return !older(ev.Gap.From, w.least) && older(ev.Gap.From, w.version)
		case ev.Type == stream.Synced && (w.snapshot || w.joint):
		case ev.Type == stream.Synced, ev.Type == stream.Bookmark:
			return !older(ev.ResourceVersion, w.least) && older(ev.ResourceVersion, w.version)
		case ev.Object != nil && !ev.Inferred && ev.Coalesced == 0 && older(w.least, ev.ResourceVersion):
			return !older(w.version, ev.ResourceVersion)
		}
	}
	return false
}

// withinSnapshot says whether what is kept is right if the low-water mark is within
// the snapshot that these events begin with. That includes each point within it: what
// is before the mark has been acked, too.
func (w *checkpointWalk) withinSnapshot(rest []step) bool {
	if w.version != "" || w.held {
		return false
	}
	left := maps.Clone(w.wrong) // those that nothing explains so far
	waits, delivered := map[objectID]bool{}, maps.Clone(w.expected)
	for _, st := range rest {
		if st.Type == stream.Synced {
			break
		}
		if st.Object == nil {
			continue
		}
		id := delivered.enter(st.Event)
		waits[id] = waits[id] || !st.acked
		if !waits[id] && w.kept[id] == delivered[id] {
			delete(left, id)
		}
	}
	return w.right(left, "no state that it can have in there")
}

// right says whether nothing is wrong, and else keeps what is where the least is.
func (w *checkpointWalk) right(wrong map[objectID]bool, why string) bool {
	if len(wrong) == 0 {
		return true
	}
	if w.nearest == "" || len(wrong) < w.fewest {
		var all []string
		for id := range wrong {
			kept := "is missing"
			if rv, ok := w.kept[id]; ok {
				kept = "is kept at " + rv
			}
			all = append(all, fmt.Sprintf("%s (%s) %s", id.NamespacedName, id.UID, kept))
		}
		w.nearest, w.fewest = slices.Min(all)+": "+why, len(wrong)
	}
	return false
}
