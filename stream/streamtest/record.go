package streamtest

import (
	"iter"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
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
		rec.Err, rec.End = invalid.New("seq", "", "must not be nil"), rec.Begin
		return rec
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

// Texts returns [stream.Event.String] of each event, to compare sequences with cmp.Diff.
func (r Recording) Texts() []string {
	var texts []string
	for _, ev := range r.Events {
		texts = append(texts, ev.String())
	}
	return texts
}
