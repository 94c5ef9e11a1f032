package streamtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckTimely says whether nothing stayed unknown for longer than limit: by then a
// change is delivered, or a snapshot is being read, at the start or after a GAP. It
// looks at what happened from rec.Begin on, and only at what was due before rec.End.
// A receiver that is slow to take events makes them late. It does not look at how
// soon it is known that a server has gone back in time.
//
// opts are those of Check; of them only Namespaces, Selected, and how the sequence
// began matter. The error is the first *Violation of each namespace, joined.
func CheckTimely(h History, rec Recording, limit time.Duration, opts *CheckOptions) error {
	if opts == nil {
		opts = &CheckOptions{}
	}
	plain := *opts
	plain.Transform = nil
	var errs []error
	for _, ns := range opts.namespaces() {
		snapshots := snapshotsOf(rec, ns, opts.startVersion(ns) == "")
		for _, t := range timelines(h, ns, &plain) {
			if v := late(h, rec, t, limit, snapshots); v != nil {
				errs = append(errs, v)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// span is a time in which a snapshot was being read. The last one may have no end.
type span struct{ from, to time.Time }

func snapshotsOf(rec Recording, namespace string, open bool) []span {
	var spans []span
	if open {
		spans = []span{{from: rec.Begin}}
	}
	for i, ev := range rec.Events {
		switch last := len(spans) - 1; {
		case ev.Type == stream.Gap && ev.Namespace == namespace && !open:
			spans, open = append(spans, span{from: rec.Times[i]}), true
		case ev.Type == stream.Synced && open:
			spans[last].to, open = rec.Times[i], false
		}
	}
	return spans
}

// late finds a change that came too late, or not at all.
func late(h History, rec Recording, t timeline, limit time.Duration, snapshots []span) *Violation {
	for _, e := range t {
		due := e.at.Add(limit)
		if e.kind == "" || e.at.Before(rec.Begin) || rec.End.Before(due) || undone(h, e, due) {
			continue
		}
		excused := false
		for _, s := range snapshots {
			excused = excused || !s.from.After(due) && (s.to.IsZero() || !s.to.Before(e.at))
		}
		i := 0
		for i < len(rec.Events) && !delivers(rec.Events[i], e) {
			i++
		}
		if !excused && (i == len(rec.Events) || rec.Times[i].After(due)) {
			why := fmt.Sprintf("%s was due %v after %s", e.text(), limit, e.at.Format(time.RFC3339Nano))
			return &Violation{inTime, i, textAt(rec.Events, i), why}
		}
	}
	return nil
}

// delivers says whether an event of the server is that change.
func delivers(ev stream.Event, e *entry) bool {
	return ev.Object != nil && !ev.Inferred && ev.Type == e.kind && keyOf(ev.Object) == e.key && refOf(ev.Object) == e.ref
}

// undone says whether the server forgot a change before it was due.
func undone(h History, e *entry, due time.Time) bool {
	for i, r := range h.Rewinds {
		if i >= e.epoch && older(r.To, e.ref.rv) && !r.At.After(due) {
			return true
		}
	}
	return false
}
