package streamtest

import (
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Recording is what a sequence delivered, and when.
type Recording struct {
	Events     []stream.Event
	Times      []time.Time // of each event
	Begin, End time.Time   // of the recording
	Err        error       // that ended the sequence
	// Statuses is for the caller to fill, from stream.Options.Trace for example. Record does not set it.
	Statuses []stream.Status
}

// Record ranges over seq until it ends, or until an event for which until returns true, which it records last. A nil
// until records everything. Record does not copy objects: if until changes an object, the Recording has the changed
// object. Err is set if seq is nil.
func Record(seq iter.Seq2[stream.Event, error], until func(stream.Event) bool) Recording {
	rec := Recording{Begin: time.Now()}
	if seq == nil {
		seq = func(yield func(stream.Event, error) bool) {
			yield(stream.Event{}, errors.New("streamtest: invalid seq: must not be nil"))
		}
	}
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

// Texts returns the [Text] of each event, to compare sequences with cmp.Diff.
func Texts(events []stream.Event) []string {
	var texts []string
	for _, ev := range events {
		texts = append(texts, Text(ev))
	}
	return texts
}

// Text describes an event in one line: "ADDED name@7", "DELETED namespace/name@9 inferred", "SYNCED @12",
// "GAP expired 5..12 history lost". It leaves out the uid and the content of the object.
func Text(ev stream.Event) string {
	var b strings.Builder
	b.WriteString(string(ev.Type))
	b.WriteByte(' ')
	if o := ev.Object; o != nil {
		b.WriteString(joinKey(o.GetNamespace(), o.GetName()))
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
