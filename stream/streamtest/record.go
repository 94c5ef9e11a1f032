package streamtest

import (
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Recording is what a sequence delivered, and when.
type Recording struct {
	Events []stream.Event
	Times  []time.Time // of each of Events
	// Begin and End are when the recording began and ended, by which CheckTimely
	// knows silence that lasted too long from silence that had just begun.
	Begin, End time.Time
	Err        error // that the sequence ended with
	// Statuses is for the caller to fill, as from a Trace; Record can't see them.
	Statuses []stream.Status
}

// Record ranges over seq until it ends, or until an event for which until returns
// true, which is the last one recorded. A nil until is never true. It keeps the
// events as they are: objects that the caller changes in until are recorded changed.
func Record(seq iter.Seq2[stream.Event, error], until func(stream.Event) bool) Recording {
	rec := Recording{Begin: time.Now()}
	for ev, err := range seq {
		if err != nil {
			rec.Err = err
			break
		}
		rec.Events, rec.Times = append(rec.Events, ev), append(rec.Times, time.Now())
		if until != nil && until(ev) {
			break
		}
	}
	rec.End = time.Now()
	return rec
}

// BySource deals the events of a merged sequence out to their sources (Event.Source,
// as package mux sets it), so that each can be checked by itself.
func BySource(events []stream.Event) map[string][]stream.Event {
	each := map[string][]stream.Event{}
	for _, ev := range events {
		each[ev.Source] = append(each[ev.Source], ev)
	}
	return each
}

// Texts is Text of each event, for comparing sequences with cmp.Diff.
func Texts(events []stream.Event) []string {
	var texts []string
	for _, ev := range events {
		texts = append(texts, Text(ev))
	}
	return texts
}

// Text is an event in one line: "ADDED name@7", "DELETED namespace/name@9
// inferred", "SYNCED @12", "GAP expired 5..12 history lost". What the objects
// hold and their uids are not in it.
func Text(ev stream.Event) string { return text(ev, false) }

// TextUID is Text with the object's uid after its name, as in "ADDED name(uid)@7".
func TextUID(ev stream.Event) string { return text(ev, true) }

func text(ev stream.Event, uid bool) string {
	var b strings.Builder
	b.WriteString(string(ev.Type))
	b.WriteByte(' ')
	if o := ev.Object; o != nil {
		if ns := o.GetNamespace(); ns != "" {
			b.WriteString(ns + "/")
		}
		b.WriteString(o.GetName())
		if uid {
			b.WriteString("(" + string(o.GetUID()) + ")")
		}
	}
	if ev.ResourceVersion != "" {
		b.WriteString("@" + ev.ResourceVersion)
	}
	if g := ev.Gap; g != nil {
		b.WriteString(string(g.Reason) + " " + g.From + ".." + g.To)
		if g.HistoryLost {
			b.WriteString(" history lost")
		}
	}
	if ev.Inferred {
		b.WriteString(" inferred")
	}
	if ev.Coalesced > 0 {
		b.WriteString(" coalesced " + strconv.Itoa(ev.Coalesced))
	}
	if ev.Object == nil && ev.Namespace != "" {
		b.WriteString(" in " + ev.Namespace)
	}
	return strings.TrimSpace(b.String())
}
