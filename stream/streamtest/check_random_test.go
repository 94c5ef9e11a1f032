package streamtest

import (
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/stream"
)

// seeds is how many random histories are checked; of every 20 of them one is also
// spoiled in every way. They count from 0, and a failure names its seed.
var seeds = flag.Int("checkseeds", 5000, "random histories for Check")

// No sequence that keeps the promises is taken for one that does not.
func TestCheckNoFalseAlarm(t *testing.T) {
	for seed := range uint64(*seeds) {
		m := newModel(seed)
		m.run(20 + m.IntN(120))
		if err := Check(m.h, m.events, &m.opts); err != nil {
			t.Fatalf("seed %d, %+v:\n%v\nevents:\n%s\nhistory:\n%s", seed, m.opts, err, numbered(m.events), historyText(m.h))
		}
		unsettled := m.opts
		unsettled.Settled = false
		n := m.IntN(len(m.events) + 1)
		if err := Check(m.h, m.events[:n], &unsettled); err != nil {
			t.Fatalf("seed %d, stopped after %d events: %v", seed, n, err)
		}
	}
}

func numbered(events []stream.Event) string {
	var b strings.Builder
	for i, ev := range events {
		b.WriteString(strings.Join([]string{"  ", strconv.Itoa(i), " ", TextUID(ev), "\n"}, ""))
	}
	return b.String()
}

func historyText(h History) string {
	var b strings.Builder
	epoch := 0
	for _, c := range h.Changes {
		for ; epoch < c.Epoch; epoch++ {
			b.WriteString("  rewind to " + h.Rewinds[epoch].To + "\n")
		}
		b.WriteString("  " + TextUID(stream.Event{Type: stream.Type(c.Type), Object: c.Object, ResourceVersion: c.ResourceVersion}) + "\n")
	}
	for ; epoch < len(h.Rewinds); epoch++ {
		b.WriteString("  rewind to " + h.Rewinds[epoch].To + "\n")
	}
	return b.String()
}
