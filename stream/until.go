package stream

import (
	"errors"
	"iter"
)

// ErrUnmet is returned by Until when the sequence ended, without an error,
// before the condition held.
var ErrUnmet = errors.New("the sequence ended before the condition held")

// Until ranges over seq until cond returns true, and returns the event for which
// it did. An error of cond or of seq ends it. The sequence begins with what
// exists, so there is no need to look first; and at SYNCED cond knows that what
// it has not seen does not exist:
//
//	// until the object is deleted, or was not there in the first place
//	found := false
//	_, err := stream.Until(s.Events(ctx), func(ev stream.Event) (bool, error) {
//		switch ev.Type {
//		case stream.Added, stream.Modified:
//			found = true
//		case stream.Deleted:
//			found = false
//			return true, nil
//		}
//		return ev.Type == stream.Synced && !found, nil
//	})
func Until(seq iter.Seq2[Event, error], cond func(Event) (bool, error)) (Event, error) {
	for ev, err := range seq {
		if err != nil {
			return Event{}, err
		}
		if met, err := cond(ev); met || err != nil {
			return ev, err
		}
	}
	return Event{}, ErrUnmet
}

// Acked calls Ack on each event once the loop body is done with it: not if the
// body leaves the loop with it, by break, return or panic.
func Acked(seq iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for ev, err := range seq {
			if !yield(ev, err) {
				return
			}
			if err == nil {
				ev.Ack()
			}
		}
	}
}
