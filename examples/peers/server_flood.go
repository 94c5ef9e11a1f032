package main

import (
	"strconv"
	"time"
)

// flood is the events of one watch. It renders one frame for each object beforehand, writes what differs between two
// events of an object into the frame, and sends the frame without copying it. So an event costs the server little, and
// the same for every peer.
type flood struct {
	text   []byte
	frames []slot
	events int // number of events; events at a rate may be more
	next   int // number of the next event

	first, step int // version of the first event, and the difference between two
}

// slot is the place of a frame in flood.text.
type slot struct {
	from, to int
	of       *template
}

// newFlood returns the events of a watch after a version.
func newFlood(a podRequest, of []*template, after int) *flood {
	f := &flood{events: a.run.Events, first: firstVersion + 1, step: 1}
	if a.namespace >= 0 {
		// The namespaces take turns.
		f.events = (f.events - a.namespace + namespaces - 1) / namespaces
		f.first, f.step = f.first+a.namespace, namespaces
	}
	if after >= f.first {
		f.next = (after-f.first)/f.step + 1
	}
	a.objects(0, func(n int) bool {
		if len(f.frames) == templates {
			return false
		}
		t := of[n%templates]
		from := len(f.text)
		f.text = append(f.text, t.text...)
		t.identify(f.text[from:], identityOf(n))
		t.sent.fill(f.text[from:], zeroTime)
		f.frames = append(f.frames, slot{from, len(f.text), t})
		return true
	})
	return f
}

func (f *flood) version(event int) int { return f.first + event*f.step }

// lastVersion is the version of the last event that was sent.
func (f *flood) lastVersion() int { return f.version(f.next - 1) }

// zeroTime is the send time of events without one.
var zeroTime = []byte("0000000000000000000")

// changeAt is the time of the change in an event. It advances by a second every 64 events.
func changeAt(event int) []byte {
	return starts.Add(100*24*time.Hour+time.Duration(event/64)*time.Second).AppendFormat(nil, time.RFC3339)
}

// nextBatch prepares the next events, and returns them as one slice of flood.text. They are at most n, end once they
// fill a batch, and do not wrap around. sent is their send time, or nil for none.
func (f *flood) nextBatch(n int, sent []byte) []byte {
	i := f.next % len(f.frames)
	from, to := f.frames[i].from, f.frames[i].from
	changed := changeAt(f.next)
	var digits [20]byte
	for ; n > 0 && i < len(f.frames) && to-from < batch; i, n = i+1, n-1 {
		s := f.frames[i]
		text := f.text[s.from:s.to]
		s.of.version.fill(text, strconv.AppendInt(digits[:0], int64(f.version(f.next)), 10))
		s.of.changed.fill(text, changed)
		if sent != nil {
			s.of.sent.fill(text, sent)
		}
		to = s.to
		f.next++
	}
	return f.text[from:to]
}

// sendAll sends the events as fast as the peer reads them. Like a kube-apiserver it does not flush while there are
// more; the caller flushes at the end.
func (f *flood) sendAll(out *sink) {
	for f.next < f.events && out.err == nil {
		out.write(f.nextBatch(f.events-f.next, nil))
	}
}
