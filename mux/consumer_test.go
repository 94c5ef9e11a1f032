package mux_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const consumerSeeds = seedtest.Default(30) // with and without Latest

// TestConsumer: a program with a database handles and acks events late and out of order (in some seeds those of one
// object too), and is killed and started again, while objects change, leave what is selected and return, and the server
// compacts its history. Each run, and the checkpoint at random moments, is checked against the promises. In the end the
// database equals the server.
func TestConsumer(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Latest, mux.Block} {
		t.Run(string(overflow), func(t *testing.T) {
			consumerSeeds.Run(t, func(t *testing.T, n uint64) {
				synctest.Test(t, func(t *testing.T) { newConsumer(t, n, overflow).run() })
			})
		})
	}
}

type consumer struct {
	*scenario.Scenario
	options  stream.Options
	check    streamtest.CheckOptions
	overflow mux.Overflow
	anyOrder bool // acks ignore the order of each object, so the database is not checked
	rewinds  bool // the server rewinds at random in the first run

	// Of one run.
	store  *scenario.Killable
	before *checkpoint.Position
	events []stream.Event
	acked  []bool
}

func newConsumer(t *testing.T, seed uint64, overflow mux.Overflow) *consumer {
	c := &consumer{
		Scenario: scenario.New(t, seed, 11, []gvr.Resource{widgets()}, "one", "two"), overflow: overflow,
	}
	c.store = &scenario.Killable{Store: &checkpoint.Memory{}}
	c.check.Latest = overflow == mux.Latest
	switch c.IntN(4) {
	case 0:
		c.options.LabelSelector = "colour=red"
	case 1:
		c.options.Select = func(m stream.Meta) bool { return m.GetLabels()["colour"] == "red" }
		c.check.Selected = func(u *unstructured.Unstructured) bool { return c.options.Select(u) }
	}
	if c.Chance(33) {
		c.options.Namespaces, c.check.Namespaces = c.Namespaces, c.Namespaces
	}
	if c.Chance(50) {
		c.options.Requests.PagedLists, c.options.Requests.PageSize = true, 2
	}
	c.options.Objects = c.Objects()
	c.anyOrder, c.rewinds = c.Chance(33), c.Chance(25)
	return c
}

func (c *consumer) run() {
	const runs = 4
	for run := range runs {
		c.Writes(c.Rand, 9)
		if c.Chance(33) {
			c.Do("compact")
		}
		c.runOnce(run == runs-1)
		c.rewinds = false // a rewind that a killed run has seen may be unknown to the next run
	}
	if !c.anyOrder {
		c.CheckDatabase(func(u *unstructured.Unstructured) bool {
			return c.options.LabelSelector == "" && c.options.Select == nil || u.GetLabels()["colour"] == "red"
		})
	}
	if c.Failed() {
		c.Logf("%+v\n%s\n%s", c.options, strings.Join(c.Log, "\n"),
			scenario.HistoryText(c.Server.History(widgets(), nil)))
	}
}

// runOnce is one run of the program, which ends with a kill or in an orderly way.
func (c *consumer) runOnce(last bool) {
	c.store = &scenario.Killable{Store: c.store.Store}
	c.before, c.events, c.acked = scenario.PositionIn(c.T, c.store, widgets()), nil, nil
	tracker := scenario.NewTracker(c.T, c.store)
	s := newStream(c.T, c.Server, widgets(), &c.options).With(stream.Run{Checkpoint: tracker})
	m := newMux(c.T, &mux.Options{Overflow: c.overflow}, s)
	long, left := 20*time.Minute, 1+c.IntN(25)
	if last {
		long, left = 50*time.Minute, -1
	} else if c.Chance(33) {
		defer time.AfterFunc(time.Duration(5+c.IntN(20))*time.Second, m.Drain).Stop()
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), long, errTimeUp)
	defer cancel()
	for ev, err := range m.Events(ctx) {
		if err != nil {
			if err != errTimeUp {
				c.Error(err)
			}
			break
		}
		ev = c.Decoded(ev)
		c.Note("delivered %s", oracle.TextUID(ev))
		c.events, c.acked = append(c.events, ev), append(c.acked, false)
		if !last || len(c.events) < 15 {
			c.disturb()
		}
		time.Sleep(time.Duration(c.IntN(2500)) * time.Millisecond)
		c.handle(last && c.Chance(50))
		if c.Chance(20) {
			c.checkStored()
		}
		if left--; left == 0 {
			break
		}
	}
	c.handle(last || c.Chance(33))
	time.Sleep(time.Duration(c.IntN(3000)) * time.Millisecond)
	c.checkStored()
	if closes := last || c.Chance(33); !closes {
		c.Note("killed")
		c.store.Kill()
		_ = tracker.Close() // can't commit
	} else if err := tracker.Close(); err != nil {
		c.Error(err)
	}
	c.checkStored()
	c.check.Complete, c.check.From = last, c.before
	scope := stream.Options{Namespaces: c.options.Namespaces, LabelSelector: c.options.LabelSelector}
	if err := streamtest.Check(c.Server.History(widgets(), &scope), c.events, &c.check); err != nil {
		c.Errorf("%v\nbefore: %+v", err, c.before)
	}
	if last {
		c.checkDone(s.Status().Checkpoint.Unacked)
	}
	c.Note("the end")
}

func (c *consumer) disturb() {
	if c.Chance(50) {
		c.Writes(c.Rand, 7)
	}
	if c.rewinds && c.Chance(4) {
		c.Do("rewind 2 restart")
		time.Sleep(6 * time.Minute)
	}
	if c.Chance(8) {
		c.Do("compact", "close watches")
	}
}

// handle handles and acks some of the events that wait, or all.
func (c *consumer) handle(all bool) {
	open := map[string]bool{} // objects with an older event that waits
	for i, ev := range c.events {
		if c.acked[i] {
			continue
		}
		name := ""
		if ev.Object != nil {
			name = scenario.NameOf("", ev.Object)
		}
		if open[name] && !c.anyOrder || !all && c.Chance(67) {
			open[name] = name != ""
			continue
		}
		c.acked[i] = true
		c.Note("handled %s", oracle.TextUID(ev))
		c.Apply(ev)
		ev.Ack()
	}
}

// checkStored checks the checkpoint against what was delivered and acked.
func (c *consumer) checkStored() {
	after := scenario.PositionIn(c.T, c.store, widgets())
	run := oracle.CheckpointRun{Before: c.before, After: after, Events: slices.Clone(c.events),
		Acked: func(i int) bool { return c.acked[i] }, Options: c.check}
	run.Options.From = nil
	if err := oracle.CheckCheckpoint(run); err != nil {
		c.Errorf("%v\nbefore: %+v\nafter: %+v", err, c.before, after)
	}
}

// checkDone checks that nothing waits after everything has been delivered and acked.
func (c *consumer) checkDone(unacked int) {
	after := scenario.PositionIn(c.T, c.store, widgets())
	pending := func(o checkpoint.Object) bool { return o.ResourceVersion == "" }
	if after == nil || unacked > 0 || slices.ContainsFunc(after.Objects, pending) {
		c.Errorf("all events are acked, and %d wait; the checkpoint is %+v", unacked, after)
	}
}
