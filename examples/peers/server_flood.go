package main

import (
	"strconv"
	"time"
)

// flood is the events of one watch. Their frames are rendered beforehand, one
// after another; what differs from one round to the next is written into them, and
// they are sent from where they are, so that an event costs the server next to
// nothing, and for everyone the same.
type flood struct {
	text   []byte
	frames []slot
	events int // how many come; without an end if they are paced
	next   int // which is the next one

	first, step int // the version of the first, and from each to the next
}

// slot is where a frame is.
type slot struct {
	from, to int
	of       *template
}

// newFlood returns the events of a watch that come after a version.
func newFlood(a podRequest, of []*template, after int) *flood {
	f := &flood{events: a.run.Events, first: firstVersion + 1, step: 1}
	if a.namespace >= 0 {
		// Each namespace has its share, and they take turns.
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

// lastVersion is that of the last event that came.
func (f *flood) lastVersion() int { return f.version(f.next - 1) }

// noSendTime is for what was not sent at a time.
var zeroTime = []byte("0000000000000000000")

// changeAt is the time in an event: a second later every 64 events.
func changeAt(event int) []byte {
	return starts.Add(100*24*time.Hour+time.Duration(event/64)*time.Second).AppendFormat(nil, time.RFC3339)
}

// take prepares up to n events, or as many as make a batch, that lie one behind the
// other, and returns them. sent is nil or the time it is.
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

// rush sends events as fast as they are read, and flushes when there are no more,
// as a kube-apiserver does.
func (f *flood) sendAll(out *sink) {
	for f.next < f.events && out.err == nil {
		out.write(f.nextBatch(f.events-f.next, nil))
	}
}
