package oracle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The promises that CheckTruth checks.
const (
	truthful = "truthful" // each event is of a state that existed, and of the type that the receiver can expect
	current  = "current"  // at SYNCED and at the end, the receiver has the objects that exist, and no others
	reliable = "reliable" // a change that is not delivered is announced by a GAP
)

// CheckTruth checks a sequence against the history alone, whatever versions the server shows: by uid, and by time. It
// is for servers that break the rules which streamtest.Check relies on. h.Changes must have the versions that the
// server shows. Only a sequence that begins with a snapshot is covered.
//
//   - Each event is of a state that the object had by then, and no older one than was delivered before. ADDED is of an
//     unknown object, MODIFIED and DELETED of a known one. DELETED is of one that did not exist at some time since.
//   - At SYNCED each object has a state that it had since the request of the snapshot. Of several namespaces that is
//     checked for those that read one.
//   - At the end, if opts.Complete, the receiver has what exists.
//   - A change that was never delivered is followed by a GAP or the first SYNCED, if opts.Complete.
//
// Of opts, Namespaces, Selected and Complete count. The error joins the first violations.
func CheckTruth(h streamtest.History, rec streamtest.Recording, opts *streamtest.CheckOptions) error {
	if opts == nil {
		opts = &streamtest.CheckOptions{}
	}
	c := &truthCheck{rec: rec, lives: livesOf(h, opts),
		known: map[types.UID]int{}, delivered: map[types.UID]map[int]bool{}}
	reading := map[string]time.Time{} // when the snapshot of a namespace was requested
	for _, ns := range namespacesOf(opts) {
		reading[ns] = rec.Begin
	}
	for i, ev := range rec.Events {
		switch {
		case ev.Type == stream.Gap:
			reading[ev.Namespace] = lastListed(h, ev.Namespace, rec.Times[i])
			c.again = c.again || ev.Gap.Reason == stream.GapRewound || ev.Gap.Reason == stream.GapUnordered
		case ev.Type == stream.Synced:
			for _, ns := range slices.Sorted(maps.Keys(reading)) {
				c.state(i, ns, reading[ns], rec.Times[i])
			}
			c.again = false
			clear(reading)
		case ev.HasObject():
			c.event(i, ev)
		}
		if len(c.broken) > 0 {
			return errors.Join(c.broken...)
		}
	}
	if opts.Complete {
		for _, ns := range namespacesOf(opts) {
			c.state(len(rec.Events), ns, rec.End, rec.End)
		}
		if len(c.broken) == 0 {
			c.missed()
		}
	}
	return errors.Join(c.broken...)
}

// truthCheck follows a receiver.
type truthCheck struct {
	rec       streamtest.Recording
	lives     map[types.UID]life
	known     map[types.UID]int // to the receiver: the index of the state in its life
	delivered map[types.UID]map[int]bool
	again     bool // a GAP said that the server went back: known states may be delivered again
	broken    []error
}

// life is the states of one object as far as it is selected, in order.
type life []moment

type moment struct {
	at              time.Time
	version         string
	exists          bool // DELETED does not
	name, namespace string
}

// livesOf returns the life of each object. One that stops matching is deleted.
func livesOf(h streamtest.History, opts *streamtest.CheckOptions) map[types.UID]life {
	lives := map[types.UID]life{}
	for _, c := range h.Changes {
		uid := c.Object.GetUID()
		l := lives[uid]
		exists := c.Type != watch.Deleted && (opts.Selected == nil || opts.Selected(c.Object))
		if existed := len(l) > 0 && l[len(l)-1].exists; exists || existed {
			lives[uid] = append(l, moment{c.At, c.Object.GetResourceVersion(), exists, nameOf(c.Object),
				c.Object.GetNamespace()})
		}
	}
	return lives
}

func nameOf(o *unstructured.Unstructured) string {
	return keyOf(o).String() + "(" + string(o.GetUID()) + ")"
}

// last returns the index of the last state before a time, or -1. With including, one at that time counts.
func (l life) last(t time.Time, including bool) int {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].at.Before(t) || including && l[i].at.Equal(t) {
			return i
		}
	}
	return -1
}

func (l life) existsAt(i int) bool { return i >= 0 && l[i].exists }

// lastListed returns when the list was requested that a GAP at some time comes before: the last one up to then.
func lastListed(h streamtest.History, namespace string, gap time.Time) (at time.Time) {
	for _, r := range h.Requests {
		isList := r.Verb == "list" && r.Limit > 1 && r.Continue == "" && r.ResourceVersion == ""
		if r.Namespace == namespace && !r.At.After(gap) && (isList || r.SendInitialEvents) {
			at = r.At
		}
	}
	return at
}

func (c *truthCheck) violate(promise string, i int, format string, args ...any) {
	c.broken = append(c.broken, &streamtest.Violation{Promise: promise, Index: i, What: textAt(c.rec.Events, i),
		Why: fmt.Sprintf(format, args...)})
}

func (c *truthCheck) event(i int, ev stream.Event) {
	m := ev.Meta()
	uid, version := m.GetUID(), ev.ResourceVersion
	l, now := c.lives[uid], c.rec.Times[i]
	was, known := c.known[uid]
	if ev.Type == stream.Deleted {
		gone := was + 1 // the first time that it did not exist since the receiver knows it
		for gone < len(l) && l[gone].exists {
			gone++
		}
		switch {
		case !known:
			c.violate(truthful, i, "the object with uid %q is unknown", uid)
		case gone == len(l) || l[gone].at.After(now):
			c.violate(truthful, i, "the object with uid %q exists", uid)
		}
		delete(c.known, uid)
		c.deliver(uid, gone)
		return
	}
	at := slices.IndexFunc(l, func(m moment) bool { return m.exists && m.version == version })
	switch {
	case at < 0 || l[at].at.After(now):
		c.violate(truthful, i, "there was no such state of uid %q", uid)
	case known && ev.Type == stream.Added:
		c.violate(truthful, i, "the object with uid %q is known", uid)
	case !known && ev.Type == stream.Modified:
		c.violate(truthful, i, "the object with uid %q is unknown", uid)
	case known && (at < was || at == was && !c.again):
		c.violate(truthful, i, "version %s of uid %q was delivered before", l[was].version, uid)
	}
	c.known[uid] = at
	c.deliver(uid, at)
}

func (c *truthCheck) deliver(uid types.UID, at int) {
	if c.delivered[uid] == nil {
		c.delivered[uid] = map[int]bool{}
	}
	c.delivered[uid][at] = true
}

// state checks that what the receiver knows of each object of a namespace was true at some time from..to.
func (c *truthCheck) state(i int, namespace string, from, to time.Time) {
	for _, uid := range slices.Sorted(maps.Keys(c.lives)) {
		l := c.lives[uid]
		if namespace != "" && l[0].namespace != namespace {
			continue
		}
		first, last := l.last(from, false), l.last(to, true)
		was, known := c.known[uid]
		absent, same := false, false
		for n := first; n <= last; n++ {
			absent = absent || !l.existsAt(n)
			same = same || l.existsAt(n) && n == was
		}
		name := l[max(last, 0)].name
		switch {
		case !known && !absent:
			c.violate(current, i, "%s existed, and is missing", name)
		case known && !same && !l.existsAt(last):
			c.violate(current, i, "%s is known, and was deleted", name)
		case known && !same:
			c.violate(current, i, "%s is known at %s, and was at %s", name, l[was].version, l[last].version)
		}
	}
}

// missed checks the changes that were never delivered. Those before the SYNCED after a GAP may be missing.
func (c *truthCheck) missed() {
	upTo, open := time.Time{}, true // at first, a snapshot is being read
	for i, ev := range c.rec.Events {
		switch {
		case ev.Type == stream.Gap:
			open = true
		case ev.Type == stream.Synced && open:
			upTo, open = c.rec.Times[i], false
		}
	}
	if open {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(c.lives)) {
		for n, m := range c.lives[uid] {
			if m.at.After(upTo) && !c.delivered[uid][n] {
				c.violate(reliable, len(c.rec.Events), "%s@%s was not delivered, and no GAP came after it",
					m.name, m.version)
			}
		}
	}
}
