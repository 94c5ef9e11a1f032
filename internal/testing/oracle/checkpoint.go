package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// CheckpointRun is one run of a program that keeps a checkpoint.
type CheckpointRun struct {
	// Before is what the store held when the run began, After what it holds now. Nil means nothing.
	Before, After *checkpoint.Position
	// Events are the delivered events, up to the moment After was read or later.
	Events []stream.Event
	// Acked reports whether event i was acked. Nil means that all were.
	Acked func(i int) bool
	// PositionsOnly says that the store keeps no objects.
	PositionsOnly bool
	// Options say how the sequence was made: Namespaces, UntilSynced and, if Before is nil, Now and After. Before takes
	// the place of From.
	Options streamtest.CheckOptions
}

// CheckCheckpoint checks that the run may have committed After: that it is Before with acked events applied, up to
// some point.
//
// Acks may come in any order, and the last commits may be lost, as in a kill. After is correct if a run with these
// events and no further acks could have committed it at some instant. In each namespace that means either
//
//   - a version, at which live events stand. All events up to there were acked, and no later event is applied. The
//     version may be later than that of the last event, because bookmarks and unselected objects advance it too, but
//     it precedes the next event's. The version of a snapshot may be committed once the whole snapshot was acked,
//     with or without SYNCED, which changes nothing; or
//   - no version, within a snapshot. All events up to its beginning were acked, and any of its objects may be
//     applied, each up to a state before which all events of that object were acked.
//
// The error joins one Violation per namespace: of "acknowledged" if After passes events that were not acked, and
// otherwise of "durable", because no run committed that state. Its Index is that of the first event that was not
// acked, or the number of events.
//
// CheckCheckpoint accepts every correct checkpoint. With numeric versions it rejects all others, except that
//
//   - entries without a resourceVersion, and Partial, are ignored;
//   - coalesced events say nothing about the version;
//   - if the sequence began Now or After a version, objects that were never delivered may have any state;
//   - until several namespaces are SYNCED together, each may be within its snapshot or beyond it;
//   - with PositionsOnly only versions count.
func CheckCheckpoint(run CheckpointRun) error {
	if run.Acked == nil {
		run.Acked = func(int) bool { return true }
	}
	namespaces := namespacesOf(&run.Options)
	switch {
	case run.After == nil && run.Before == nil:
		return nil
	case run.After == nil:
		return run.violation(durable, len(run.Events), "the checkpoint was lost")
	case run.Before == nil:
		run.Before = &checkpoint.Position{Partial: run.Options.Now || run.Options.After != ""}
		if run.Options.After != "" {
			run.Before.ResourceVersions = map[string]string{}
			for _, n := range namespaces {
				run.Before.ResourceVersions[n] = run.Options.After
			}
		}
	default:
		run.Options.Now = false
	}
	errs := []error{run.checkOthers(namespaces)}
	for _, n := range namespaces {
		errs = append(errs, run.checkNamespace(n, len(namespaces) > 1))
	}
	return errors.Join(errs...)
}

// CheckSyncedIsCommitted checks that the version of a SYNCED which was acked before a live event was delivered had been
// committed by then: else the next run would lose events of which this run delivered others. ackedAfter returns how
// many events had been delivered when event i was acked, or 0 if it was not acked. The events must be those of a Stream
// whose commits did not fail. The error joins one Violation of "durable" per namespace.
func CheckSyncedIsCommitted(run CheckpointRun, ackedAfter func(i int) int) error {
	var errs []error
	for _, n := range namespacesOf(&run.Options) {
		i := run.firstAfterSynced(n, ackedAfter)
		if i < 0 || run.After != nil && run.After.ResourceVersions[n] != "" {
			continue
		}
		why := "it has no version, though SYNCED was acked before " + textAt(run.Events, i)
		errs = append(errs, run.violation(durable, i, why))
	}
	return errors.Join(errs...)
}

// firstAfterSynced returns the first live event of a namespace since the last GAP that was delivered after everything
// up to SYNCED had been acked, or -1.
func (run CheckpointRun) firstAfterSynced(namespace string, ackedAfter func(i int) int) int {
	first, acks, isSynced := -1, 0, false
	for i, ev := range run.Events {
		if ev.Namespace != namespace && ev.Type != stream.Synced {
			continue
		}
		switch {
		case ev.Type == stream.Gap:
			first, isSynced = -1, false
		case ev.Type == stream.Synced:
			isSynced = true
		case isSynced && ev.Object != nil && acks <= i && first < 0:
			first = i
		}
		if !isSynced || ev.Type == stream.Synced {
			at := ackedAfter(i)
			if at == 0 {
				at = len(run.Events) + 1
			}
			acks = max(acks, at)
		}
	}
	return first
}

func (run CheckpointRun) violation(promise string, i int, why string) error {
	what := "the checkpoint"
	if promise == acknowledged {
		what = textAt(run.Events, i)
	}
	return &streamtest.Violation{Promise: promise, Index: i, What: what, Why: why}
}

// entries are the objects of a checkpoint with their versions, without those that were never acked.
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

func (e entries) apply(ev stream.Event) objectID {
	id := objectID{keyOf(ev.Object), ev.Object.GetUID()}
	if ev.Type == stream.Deleted {
		delete(e, id)
	} else {
		e[id] = ev.Object.GetResourceVersion()
	}
	return id
}

// checkOthers checks that nothing changed in namespaces that the run did not watch.
func (run CheckpointRun) checkOthers(watched []string) error {
	if watched[0] == "" {
		return nil
	}
	other := func(namespace string) bool { return !slices.Contains(watched, namespace) }
	versions := func(p *checkpoint.Position) map[string]string {
		all := maps.Clone(p.ResourceVersions)
		maps.DeleteFunc(all, func(namespace, _ string) bool { return namespace == "" || !other(namespace) })
		return all
	}
	if maps.Equal(versions(run.Before), versions(run.After)) &&
		maps.Equal(entriesOf(run.Before, other), entriesOf(run.After, other)) {
		return nil
	}
	return run.violation(durable, len(run.Events), "a namespace that is not watched has changed")
}

// checkNamespace checks one of the watched namespaces.
func (run CheckpointRun) checkNamespace(n string, joint bool) error {
	nearest, ok := run.explain(n, joint, run.Acked)
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
	if closest, ok := run.explain(n, joint, func(int) bool { return true }); !ok {
		return run.violation(durable, first, at+": "+cmp.Or(closest, nearest, "no event has such a version"))
	}
	return run.violation(acknowledged, first, "it was not acked, and the checkpoint ("+at+") passes it")
}

// explain looks for a point at which what After holds of a namespace was correct, given these acks. If there is
// none, nearest says how After differs from the point with the fewest differences.
func (run CheckpointRun) explain(n string, joint bool, acked func(int) bool) (nearest string, ok bool) {
	w := &checkpointWalk{
		joint: joint, waits: run.Options.Now && !joint, version: run.After.ResourceVersions[n],
		minVersion: run.Before.ResourceVersions[n], expected: entries{}, wrong: map[objectID]bool{},
	}
	w.snapshot, w.again = w.minVersion == "", run.Options.UntilSynced
	for i, ev := range run.Events {
		if ev.Namespace == n || ev.Type == stream.Synced {
			w.steps = append(w.steps, step{ev, i, acked(i)})
		}
	}
	if !run.PositionsOnly {
		wanted := func(namespace string) bool { return n == "" || n == namespace }
		w.stored, w.expected = entriesOf(run.After, wanted), entriesOf(run.Before, wanted)
		for id := range w.expected {
			w.compare(id)
		}
		for id := range w.stored {
			if !run.Before.Partial {
				w.compare(id)
			}
		}
	}
	ok = w.explained()
	return w.nearest, ok
}

// checkpointWalk moves a low-water mark over the events of one namespace, and compares what After holds with what
// could be committed at each step.
type checkpointWalk struct {
	steps []step
	joint bool // SYNCED is of several namespaces
	waits bool // the start is Now: before SYNCED nothing but its version is committed
	again bool // a run until SYNCED: it reads a snapshot even if Before has a version

	version string  // in After; empty within a snapshot
	stored  entries // in After; nil with PositionsOnly

	// What a commit at the low-water mark may hold:
	snapshot   bool   // the mark is within one, or with several namespaces may be
	minVersion string // the version is at least that; empty if unknown
	expected   entries
	wrong      map[objectID]bool // where stored differs from expected

	nearest string // the difference at the point with the fewest
	fewest  int
}

type step struct {
	event stream.Event
	index int // in the recording
	acked bool
}

// compare notes whether an object is stored as expected.
func (w *checkpointWalk) compare(id objectID) {
	if w.stored != nil && w.expected[id] != w.stored[id] {
		w.wrong[id] = true
	} else {
		delete(w.wrong, id)
	}
}

// explained reports whether there is a point at which After is correct.
func (w *checkpointWalk) explained() bool {
	before := w.again && !w.snapshot && (len(w.steps) == 0 || w.steps[0].event.Type != stream.Gap)
	if before && w.version == w.minVersion && w.correct(w.wrong, "not the state before the snapshot") {
		return true
	}
	if w.snapshot = w.snapshot || before; w.snapshot && w.withinSnapshot(w.steps) {
		return true
	}
	for i, st := range w.steps {
		if w.atVersion(w.steps[i:]) {
			return true
		}
		if !st.acked && !(w.joint && st.event.Type == stream.Synced) {
			return false
		}
		w.advance(st.event)
		if st.event.Type == stream.Gap && w.withinSnapshot(w.steps[i+1:]) {
			return true
		}
	}
	return w.atVersion(nil)
}

// advance moves the low-water mark over an event.
func (w *checkpointWalk) advance(ev stream.Event) {
	switch {
	case ev.Type == stream.Gap:
		if w.snapshot = true; ev.Gap == nil || ev.Gap.Reason == stream.GapRewound {
			w.minVersion = ""
		}
		w.waits = w.waits && !w.joint // this namespace may have been SYNCED
	case ev.Type == stream.Synced:
		w.snapshot, w.waits = false, false
		w.raise(ev.ResourceVersion)
	case ev.Type == stream.Bookmark:
		w.raise(ev.ResourceVersion)
	case ev.Object != nil:
		w.compare(w.expected.apply(ev))
		// The version of a coalesced event is later than its place in the sequence.
		if ev.Coalesced() == 0 && (!ev.Inferred || ev.Type != stream.Deleted && w.snapshot) {
			w.raise(ev.ResourceVersion)
		}
	}
}

func (w *checkpointWalk) raise(rv string) {
	if w.minVersion == "" || older(w.minVersion, rv) {
		w.minVersion = rv
	}
}

// atVersion reports whether After is correct if the low-water mark stands at a version, and rest follows.
func (w *checkpointWalk) atVersion(rest []step) bool {
	if w.version == "" || older(w.version, w.minVersion) || w.reaches(rest) {
		return false
	}
	// A snapshot may end before SYNCED, and then stands at SYNCED's version.
	if w.snapshot && !w.joint && len(rest) > 0 && rest[0].event.Type != stream.Gap &&
		!(rest[0].event.Type == stream.Synced && rest[0].event.ResourceVersion == w.version) {
		return false
	}
	where := "at the end"
	if len(rest) > 0 {
		where = fmt.Sprint("before ", rest[0].index, " ", rest[0].event.String())
	}
	return w.correct(w.wrong, "not the state "+where)
}

// reaches reports whether the sequence is at the version of After only after some of rest.
func (w *checkpointWalk) reaches(rest []step) bool {
	for _, st := range rest {
		switch ev := st.event; {
		case ev.Gap != nil:
			return !older(ev.Gap.From, w.minVersion) && older(ev.Gap.From, w.version)
		case ev.Type == stream.Synced && (w.snapshot || w.joint):
		case ev.Type == stream.Synced, ev.Type == stream.Bookmark:
			return !older(ev.ResourceVersion, w.minVersion) && older(ev.ResourceVersion, w.version)
		case ev.Object != nil && !ev.Inferred && ev.Coalesced() == 0 &&
			older(w.minVersion, ev.ResourceVersion):
			return !older(w.version, ev.ResourceVersion)
		}
	}
	return false
}

// withinSnapshot reports whether After is correct if the low-water mark is within the snapshot that rest begins
// with. That includes each point within it, because what precedes the mark was acked too.
func (w *checkpointWalk) withinSnapshot(rest []step) bool {
	if w.version != "" || w.waits {
		return false
	}
	left := maps.Clone(w.wrong) // the differences not explained yet
	unacked, delivered := map[objectID]bool{}, maps.Clone(w.expected)
	for _, st := range rest {
		if st.event.Type == stream.Synced {
			break
		}
		if st.event.Object == nil {
			continue
		}
		id := delivered.apply(st.event)
		unacked[id] = unacked[id] || !st.acked
		if !unacked[id] && w.stored[id] == delivered[id] {
			delete(left, id)
		}
	}
	return w.correct(left, "not a state within the snapshot")
}

// correct reports whether nothing is wrong. If something is, it keeps the description with the fewest differences.
func (w *checkpointWalk) correct(wrong map[objectID]bool, why string) bool {
	if len(wrong) == 0 {
		return true
	}
	if w.nearest == "" || len(wrong) < w.fewest {
		var all []string
		for id := range wrong {
			stored := "is missing"
			if rv, ok := w.stored[id]; ok {
				stored = "is stored at " + rv
			}
			all = append(all, fmt.Sprintf("%s (%s) %s", id.NamespacedName, id.UID, stored))
		}
		w.nearest, w.fewest = slices.Min(all)+": "+why, len(wrong)
	}
	return false
}
