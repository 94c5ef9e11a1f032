package explore

import (
	"time"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// breaksVersions reports whether a server breaks the rules that streamtest.Check relies on.
func (q quirk) breaksVersions() bool { return q >= restartsWatches }

// shown returns the version that a list has of what exists at a version.
func (s *server) shown(version int8, always quirk) int8 {
	switch always {
	case noListVersions:
		return 0
	case greatestItems:
		greatest := int8(0)
		for _, o := range s.at(version) {
			greatest = max(greatest, o.version)
		}
		if greatest > 0 {
			return greatest
		}
	}
	return version
}

// moment is a time as the number of changes before it.
type moment int8

func (m moment) time() time.Time { return time.Time{}.Add(time.Duration(2*m+1) * time.Second) }

// checkTruth does what check does, for a server whose versions prove nothing.
func (r *receiver) checkTruth(past history, began moment, complete bool) error {
	h := past.asHistory()
	for i := range h.Changes {
		h.Changes[i].At = moment(i).time().Add(time.Second)
	}
	for _, at := range r.listed {
		h.Requests = append(h.Requests, streamtest.Request{Verb: "list", Limit: 2, At: at.time()})
	}
	now := moment(len(past.changes))
	rec := streamtest.Recording{Begin: began.time(), End: now.time()}
	for _, ev := range r.events {
		rec.Events, rec.Times = append(rec.Events, ev.asStream()), append(rec.Times, ev.came.time())
	}
	return oracle.CheckTruth(h, rec, &streamtest.CheckOptions{Complete: complete})
}

// asked returns when the last snapshot was requested.
func (r *receiver) asked() moment {
	if len(r.listed) == 0 {
		return -1
	}
	return r.listed[len(r.listed)-1]
}

// appendTruth appends what checkTruth judges later events by: what is known, since when a snapshot is being read, and
// which changes nothing has announced yet.
func (r *receiver) appendTruth(k *keys, past history) {
	known := map[int8]int8{}     // the version of each uid
	pending := map[object]bool{} // the states that are still to be delivered
	began, reading, again := moment(0), true, false
	done := 0 // changes of the past
	hold := func(until moment) {
		for ; done < int(until); done++ {
			c := past.changes[done]
			pending[stateOf(c.object, c.kind)] = true
		}
	}
	for _, ev := range r.events {
		hold(ev.came)
		switch ev.kind {
		case sequence.Gap:
			began, reading = r.asked(), true
			again = again || ev.gap.Gap.Reason == protocol.GapRewound || ev.gap.Gap.Reason == protocol.GapUnordered
		case sequence.Synced:
			if reading {
				reading = false
				clear(pending) // what has happened until now may be missing
			}
			again = false
		case sequence.Bookmark:
		case sequence.Deleted:
			delete(known, ev.uid)
			delete(pending, stateOf(ev.object, deleted))
		default:
			known[ev.uid] = ev.object.version
			delete(pending, stateOf(ev.object, added))
		}
	}
	hold(moment(len(past.changes)))
	k.bytes(bit(reading), bit(again))
	if reading {
		k.bytes(byte(began))
	}
	for uid := range int8(len(uids)) {
		if v := known[uid]; v > 0 {
			k.bytes(byte(uid))
			k.version(v)
		}
	}
	for _, c := range past.changes {
		k.bytes(bit(pending[stateOf(c.object, c.kind)]))
	}
}

// stateOf returns a state as it is delivered: that an object is gone, in whatever version.
func stateOf(o object, k kind) object {
	if k == deleted {
		o.version = 0
	}
	return o
}
