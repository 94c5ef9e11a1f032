package streamtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// checkSeeds is how many random histories are checked.
const checkSeeds = seedtest.Default(500)

// No sequence that keeps the promises is taken for one that does not: whole, stopped
// somewhere, or coalesced.
func TestCheckNoFalseAlarm(t *testing.T) {
	for seed := range checkSeeds.All(t) {
		m := newModel(seed)
		m.beginAnywhere()
		m.run(20 + m.IntN(120))
		check := func(how string, events []stream.Event, change func(*CheckOptions)) {
			opts := m.opts
			change(&opts)
			if err := Check(m.h, events, &opts); err != nil {
				t.Fatalf("seed %d, %s, %+v, from %+v:\n%v\nevents:\n%s\nhistory:\n%s", seed, how, opts, opts.From, err, numbered(events), historyText(m.h))
			}
		}
		check("whole", m.events, func(*CheckOptions) {})
		check("stopped", m.events[:m.IntN(len(m.events)+1)], func(o *CheckOptions) { o.Settled = false })
		events := m.coalesced()
		check("coalesced", events, func(o *CheckOptions) { o.Latest = true })
		check("coalesced and stopped", events[:m.IntN(len(events)+1)], func(o *CheckOptions) { o.Latest, o.Settled = true, false })
	}
}

func numbered(events []stream.Event) string {
	var b strings.Builder
	for i, ev := range events {
		fmt.Fprintf(&b, "  %d %s\n", i, TextUID(ev))
	}
	return b.String()
}

func historyText(h History) string {
	var b strings.Builder
	epoch := 0
	for _, c := range h.Changes {
		for ; epoch < c.Epoch; epoch++ {
			fmt.Fprintf(&b, "  rewind to %s\n", h.Rewinds[epoch].To)
		}
		fmt.Fprintf(&b, "  %s\n", TextUID(stream.Event{Type: stream.Type(c.Type), Object: c.Object, ResourceVersion: c.ResourceVersion}))
	}
	return b.String() + fmt.Sprint("  later rewinds: ", h.Rewinds[epoch:])
}
