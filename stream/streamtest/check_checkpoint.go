package streamtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckpointRun is one run of a program that keeps a checkpoint.
type CheckpointRun struct {
	// Before is what the store held when the run began, and After what it holds now.
	// Nil is nothing.
	Before, After *checkpoint.Position
	// Events are those that were told, up to when After was read or later.
	Events []stream.Event
	// Acked says whether event i has been acked. Nil means that all have been.
	Acked func(i int) bool
	// Options say how the sequence was made. Namespaces, IndexNone and Latest count, and
	// where Before is nil Now and After. Before takes the place of From.
	Options CheckOptions
}

// CheckCheckpoint says whether what a store holds is what may have become of it:
// what it held before, with the acked events entered up to a point.
//
// Acks may be in any order, and the last commits may be lost, as with a kill: a
// checkpoint is right if it was at any instant of some run with these events of
// which no others were acked. In each namespace that means either
//
//   - a version at which live events stand. Everything told up to there has been
//     acked, nothing beyond it has been entered. The version may be later than the
//     last event's, as bookmarks and objects that are not wanted move it, too, but
//     it is before the next event's. That of a snapshot may be kept as soon as all
//     of it has been acked but for SYNCED, which tells no change; or
//   - no version, within a snapshot. Everything told up to its beginning has been
//     acked, and any objects of it may have been entered, each up to a state before
//     which all that was told of this object has been acked.
//
// It returns nil, or all that is broken, joined: each is a *Violation, of
// ErrAcknowledged if events have been passed that were not acked, and else of
// ErrDurable, for then it is a state that nobody ever committed. Its Index is that
// of the first event that was not acked, or the number of events.
//
// It takes no right checkpoint for a broken one, and with versions that are
// numbers finds all that are broken but for these: objects that are marked as
// Hidden or Unacked are left out; with Latest, what an event that was acked ahead of
// others stands for may be anything in between, and where a GAP or no SYNCED
// is told a snapshot may have ended anywhere; of a sequence that began Now or After a version the objects
// that it has told nothing of may be anything; and while several namespaces are not
// SYNCED, each of them may be within its snapshot or be beyond it, as it does not
// show which. With IndexNone only versions count. Partial is not looked at.
func CheckCheckpoint(run CheckpointRun) error {
	if err := run.Options.validate(); err != nil {
		return err
	}
	namespaces := namespacesOf(&run.Options)
	c := &checkpointChecker{run: run, joint: len(namespaces) > 1}
	if run.Acked == nil {
		c.run.Acked = func(int) bool { return true }
	}
	if run.After == nil {
		if run.Before != nil {
			c.report(ErrDurable, len(run.Events), "the checkpoint", "it is gone")
		}
		return joined(c.broken)
	}
	c.foreign(namespaces)
	for _, n := range namespaces {
		c.namespace(n)
	}
	return joined(c.broken)
}

type checkpointChecker struct {
	run    CheckpointRun
	joint  bool // SYNCED is for several namespaces
	broken []*Violation
}

func (c *checkpointChecker) report(promise error, i int, what, why string) {
	c.broken = append(c.broken, &Violation{Promise: promise, Index: i, What: what, Why: why})
}

// foreign reports what belongs to no namespace of the sequence, or is there twice.
func (c *checkpointChecker) foreign(namespaces []string) {
	end := len(c.run.Events)
	for _, n := range slices.Sorted(maps.Keys(c.run.After.ResourceVersions)) {
		switch {
		case !slices.Contains(namespaces, n):
			c.report(ErrDurable, end, "the checkpoint", "it has a version of namespace "+strconv.Quote(n)+", which is not watched by itself")
		case c.run.After.ResourceVersions[n] == "":
			c.report(ErrDurable, end, "the checkpoint", "its version of namespace "+strconv.Quote(n)+" is empty, and would have to be missing")
		}
	}
	if c.run.Options.IndexNone {
		return
	}
	seen := map[types.NamespacedName]bool{}
	for _, o := range c.run.After.Objects {
		switch name := o.NamespacedName(); {
		case o.Unacked:
			continue
		case seen[name]:
			c.report(ErrDurable, end, "the checkpoint", "it has "+name.String()+" twice")
		case c.joint && !slices.Contains(namespaces, o.Namespace), namespaces[0] != "" && !c.joint && o.Namespace != namespaces[0]:
			c.report(ErrDurable, end, "the checkpoint", "it has "+name.String()+", whose namespace is not watched")
		}
		seen[o.NamespacedName()] = true
	}
}

// namespace reports what is wrong with one of them.
func (c *checkpointChecker) namespace(n string) {
	if c.explains(n, c.run.Acked) == nil {
		return
	}
	what := "the checkpoint"
	if n != "" {
		what += " of namespace " + n
	}
	first := len(c.run.Events)
	for i, ev := range c.run.Events {
		if !c.run.Acked(i) && (ev.Namespace == n || ev.Type == stream.Synced) {
			first = i
			break
		}
	}
	nearest := c.explains(n, func(int) bool { return true })
	if nearest == nil {
		c.report(ErrAcknowledged, first, textAt(c.run.Events, first), "it was not acked, and "+what+" ("+c.version(n)+") is beyond it")
		return
	}
	c.report(ErrDurable, first, what, nearest.Error())
}

// explains looks for a point at which what is kept of a namespace was right, given
// these acks. It returns nil if there is one, and else how the nearest differs.
func (c *checkpointChecker) explains(namespace string, acked func(int) bool) error {
	w := newCheckpointWalk(c, namespace, acked)
	if w.explained() {
		return nil
	}
	if w.nearest == "" {
		return fmt.Errorf("%s: it fits no event that was told", c.version(namespace))
	}
	return fmt.Errorf("%s: %s", c.version(namespace), w.nearest)
}

func (c *checkpointChecker) version(namespace string) string {
	if rv := c.run.After.ResourceVersions[namespace]; rv != "" {
		return "at " + rv
	}
	return "within a snapshot"
}
