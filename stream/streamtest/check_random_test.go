package streamtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// checkSeeds is how many random histories are checked by default.
const checkSeeds = seedtest.Default(150)

// Check accepts every sequence that keeps the promises: whole, stopped anywhere, or coalesced.
func TestCheckNoFalseAlarm(t *testing.T) {
	for seed := range checkSeeds.All(t) {
		m := newModel(seed)
		m.start()
		m.run(20 + m.IntN(120))
		check := func(how string, events []stream.Event, change func(*streamtest.CheckOptions)) {
			opts := m.opts
			change(&opts)
			if err := streamtest.Check(m.h, events, &opts); err != nil {
				t.Fatalf("seed %d, %s, %+v, from %+v:\n%v\nevents:\n%s\nhistory:\n%s", seed, how, opts, opts.From, err,
					numbered(events), historyText(m.h))
			}
		}
		check("whole", m.events, func(*streamtest.CheckOptions) {})
		check("stopped", m.events[:m.IntN(len(m.events)+1)], func(o *streamtest.CheckOptions) { o.Complete = false })
		events := m.coalesced()
		check("coalesced", events, func(o *streamtest.CheckOptions) { o.Latest = true })
		check("coalesced and stopped", events[:m.IntN(len(events)+1)],
			func(o *streamtest.CheckOptions) { o.Latest, o.Complete = true, false })
	}
}

func numbered(events []stream.Event) string {
	var b strings.Builder
	for i, ev := range events {
		fmt.Fprintf(&b, "  %d %s\n", i, oracle.TextUID(ev))
	}
	return b.String()
}

func historyText(h streamtest.History) string {
	var b strings.Builder
	epoch := 0
	for _, c := range h.Changes {
		for ; epoch < c.Epoch; epoch++ {
			fmt.Fprintf(&b, "  rewind to %s\n", h.Rewinds[epoch].ResourceVersion)
		}
		fmt.Fprintf(&b, "  %s\n",
			oracle.TextUID(stream.Event{Type: stream.Type(c.Type), Object: c.Object,
				ResourceVersion: c.ResourceVersion}))
	}
	return b.String() + fmt.Sprint("  later rewinds: ", h.Rewinds[epoch:])
}

// coalesced returns the recording as mux.Latest delivers it to a consumer that takes events at random times.
func (m *model) coalesced() []stream.Event {
	var q latestQueue
	for _, ev := range m.events {
		for m.IntN(3) == 0 {
			q.pop()
		}
		q.push(ev)
	}
	return append(q.popped, q.waiting...)
}

// latestQueue is the simplest implementation of mux.Latest.
type latestQueue struct {
	waiting, popped []stream.Event
}

func (q *latestQueue) pop() bool {
	if len(q.waiting) == 0 {
		return false
	}
	q.popped, q.waiting = append(q.popped, q.waiting[0]), q.waiting[1:]
	return true
}

func (q *latestQueue) push(ev stream.Event) {
	if ev.Type == stream.Bookmark {
		q.waiting = slices.DeleteFunc(q.waiting, func(old stream.Event) bool {
			return old.Type == stream.Bookmark && old.Namespace == ev.Namespace
		})
	}
	i := len(q.waiting) - 1 // the last event of this object since the last GAP or SYNCED
	for i >= 0 && ev.Object != nil &&
		(q.waiting[i].Namespace != ev.Namespace || q.waiting[i].Object == nil || !sameObject(q.waiting[i], ev)) {
		if old := q.waiting[i]; old.Type == stream.Synced || old.Type == stream.Gap && old.Namespace == ev.Namespace {
			i = 0
		}
		i--
	}
	switch {
	case ev.Object == nil || i < 0 || q.waiting[i].Type == stream.Deleted:
		q.waiting = append(q.waiting, ev)
	case q.waiting[i].Type == stream.Added && ev.Type == stream.Deleted:
		q.waiting = slices.Delete(q.waiting, i, i+1)
	default:
		was := q.waiting[i]
		q.waiting[i] = ev
		q.waiting[i].Envelope(friend.Access{}).Coalesced = was.Envelope(friend.Access{}).Coalesced + 1
		if ev.Type != stream.Deleted {
			q.waiting[i].Type = was.Type
		}
	}
}

func sameObject(a, b stream.Event) bool {
	return keyOf(a.Object) == keyOf(b.Object) && a.Object.GetUID() == b.Object.GetUID()
}
