package streamtest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckTimely says whether nothing stayed unknown for longer than limit: a change
// is told by then, or a snapshot is being read by then, at the start or after a
// GAP. That a server went back behind what was told is a GAP by then as well. It
// looks at what happened from rec.Begin on, and only at what was due before
// rec.End. A receiver that is slow to take events makes them late.
//
// opts are those of Check; of them only Namespaces, Selected, and how the sequence
// began matter.
func CheckTimely(h History, rec Recording, limit time.Duration, opts *CheckOptions) error {
	if opts == nil {
		opts = &CheckOptions{}
	}
	var broken []*Violation
	for _, ns := range namespacesOf(opts) {
		broken = append(broken, timely(h, rec, limit, ns, opts)...)
	}
	return joined(broken)
}

// span is a time in which a snapshot was being read.
type span struct{ from, to time.Time }

func timely(h History, rec Recording, limit time.Duration, namespace string, opts *CheckOptions) []*Violation {
	n := min(len(rec.Events), len(rec.Times))
	spans, end := spansOf(rec, n, namespace, opts), rec.End
	if end.IsZero() && n > 0 {
		end = rec.Times[n-1]
	}
	excused := func(at time.Time) bool {
		due := at.Add(limit)
		if at.Before(rec.Begin) || end.Before(due) {
			return true
		}
		for _, s := range spans {
			if !s.from.After(due) && !s.to.Before(at) {
				return true
			}
		}
		return false
	}
	toldAt := map[seenKey]int{}
	for i, ev := range rec.Events[:n] {
		if ev.Object != nil && !ev.Inferred {
			if _, ok := toldAt[seenOf(ev)]; !ok {
				toldAt[seenOf(ev)] = i
			}
		}
	}
	var broken []*Violation
	late := func(i int, what string, at time.Time) {
		broken = append(broken, &Violation{Promise: ErrBlind, Index: i, What: textAt(rec.Events, i),
			Why: fmt.Sprintf("%s was due %v after %s", what, limit, at.Format(time.RFC3339Nano))})
	}
	entries := entriesOf(h, namespace, opts)
	for _, c := range h.Changes {
		e := entries[changeKey{c.Object, c.ResourceVersion}]
		if e == nil || excused(c.At) || undone(h, c, limit) {
			continue
		}
		i, ok := toldAt[seenKey{kind: e.kind, key: e.key, ref: e.ref}]
		switch {
		case !ok:
			late(n, e.text(), c.At)
		case rec.Times[i].After(c.At.Add(limit)):
			late(i, "it", c.At)
		}
	}
	for _, r := range h.Rewinds {
		if i, ok := toldPast(rec, n, r, namespace); ok && !excused(r.At) {
			late(i, "that the server went back to "+r.To, r.At)
		}
	}
	return broken
}

func spansOf(rec Recording, n int, namespace string, opts *CheckOptions) []span {
	var spans []span
	opened, open := rec.Begin, opts.After == "" && opts.From == nil
	for i, ev := range rec.Events[:n] {
		switch {
		case ev.Type == stream.Gap && ev.Namespace == namespace && !open:
			opened, open = rec.Times[i], true
		case ev.Type == stream.Synced && open:
			spans, open = append(spans, span{opened, rec.Times[i]}), false
		}
	}
	if open {
		// It lasts for as long as the recording does, and longer.
		spans = append(spans, span{opened, opened.AddDate(1000, 0, 0)})
	}
	return spans
}

// changeKey tells changes apart that share an object.
type changeKey struct {
	object *unstructured.Unstructured
	rv     string
}

// entriesOf finds each change as it has to be told.
func entriesOf(h History, namespace string, opts *CheckOptions) map[changeKey]*entry {
	plain := *opts
	plain.Transform = nil // so that an entry has the object of its change
	entries := map[changeKey]*entry{}
	for _, t := range timelines(h, namespace, &plain) {
		for _, e := range t {
			if e.kind != "" {
				entries[changeKey{e.object, e.ref.rv}] = e
			}
		}
	}
	return entries
}

// undone says whether the server forgot a change before it was due.
func undone(h History, c Change, limit time.Duration) bool {
	for i, r := range h.Rewinds {
		if i >= c.Epoch && older(r.To, c.ResourceVersion) && !r.At.After(c.At.Add(limit)) {
			return true
		}
	}
	return false
}

// toldPast finds what was last told before the server went back behind it.
func toldPast(rec Recording, n int, r Rewind, namespace string) (int, bool) {
	for i := n - 1; i >= 0; i-- {
		ev := rec.Events[i]
		if rec.Times[i].After(r.At) || ev.Namespace != namespace && ev.Type != stream.Synced {
			continue
		}
		if ev.Type == stream.Gap {
			return 0, false // it was being read again at the time
		}
		if !ev.Inferred && older(r.To, ev.ResourceVersion) {
			return i, true
		}
	}
	return 0, false
}
