package streamtest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final := errors.New("final")
		events := oracle.Events(t, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2")
		seq := func(yield func(stream.Event, error) bool) {
			for _, ev := range events {
				time.Sleep(time.Minute)
				if !yield(ev, nil) {
					return
				}
			}
			yield(stream.Event{}, final)
		}
		begin := time.Now()
		times := []time.Time{begin.Add(time.Minute), begin.Add(2 * time.Minute), begin.Add(3 * time.Minute)}
		want := streamtest.Recording{Events: events, Times: times, Begin: begin, End: times[2], Err: final}
		if diff := cmp.Diff(want, streamtest.Record(seq, nil), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("to the end (-want +got):\n%s", diff)
		}
		rec := streamtest.Record(seq, func(ev stream.Event) bool { return ev.Type == stream.Synced })
		if diff := cmp.Diff([]string{"ADDED a@1", "SYNCED @1"}, rec.Texts()); diff != "" ||
			rec.Err != nil {
			t.Errorf("until SYNCED: %v (-want +got):\n%s", rec.Err, diff)
		}
	})
}
