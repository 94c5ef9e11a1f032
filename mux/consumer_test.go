package mux_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/oracle"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const consumerSeeds = seedtest.Default(100) // with each Overflow

// TestConsumer: a program with a database handles and acks events later and in any
// order, or in any order but that of each object, and is killed and started again,
// while objects change, leave what is watched and come back, and the server forgets
// what was. Each run, and what is kept of it at any moment, is held to the promises. In
// the end the database has what the server has.
func TestConsumer(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Latest, mux.Block} {
		t.Run(fmt.Sprint(overflow), func(t *testing.T) {
			consumerSeeds.Run(t, func(t *testing.T, n uint64) {
				synctest.Test(t, func(t *testing.T) { newConsumer(t, n, overflow).play() })
			})
		})
	}
}

type consumer struct {
	*player
	options  stream.Options
	check    streamtest.CheckOptions
	anyOrder bool // of acks, so that there is no database
	rewinds  bool // the server does, now and then, in the first run

	// Of the run.
	store  *mortal
	before *checkpoint.Position
	events []stream.Event
	acked  []bool
}

func newConsumer(t *testing.T, seed uint64, overflow mux.Overflow) *consumer {
	c := &consumer{player: newPlayer(t, seed, 11, []gvr.Resource{widgets()}, "one", "two")}
	c.store = &mortal{Store: &checkpoint.Memory{}}
	c.check.Latest = overflow == mux.Latest
	switch c.IntN(4) {
	case 0:
		c.options.LabelSelector = "colour=red"
	case 1:
		c.options.Select = func(m stream.Meta) bool { return m.GetLabels()["colour"] == "red" }
		c.check.Selected = func(u *unstructured.Unstructured) bool { return c.options.Select(u) }
	}
	if c.chance(33) {
		c.options.Namespaces, c.check.Namespaces = c.namespaces, c.namespaces
	}
	if c.chance(50) {
		c.options.PagedLists, c.options.PageSize = true, 2
	}
	c.anyOrder, c.rewinds = c.chance(33), c.chance(25)
	return c
}

func (c *consumer) play() {
	const runs = 4
	for run := range runs {
		c.writes(c.Rand, 9)
		if c.chance(33) {
			c.do("compact")
		}
		c.run(run == runs-1)
		c.rewinds = false // what a killed run saw of it, the next one need not know
	}
	if !c.anyOrder {
		c.checkDatabase(func(u *unstructured.Unstructured) bool {
			return c.options.LabelSelector == "" && c.options.Select == nil || u.GetLabels()["colour"] == "red"
		})
	}
	if c.Failed() {
		c.Logf("%+v\n%s\n%s", c.options, strings.Join(c.log, "\n"), historyText(c.srv.History(widgets(), nil)))
	}
}

// run is one of the program, which ends with its death, or in an orderly way.
func (c *consumer) run(last bool) {
	c.store = &mortal{Store: c.store.Store}
	c.before, c.events, c.acked = position(c.T, c.store, widgets()), nil, nil
	tracker := newTracker(c.T, c.store)
	o := c.options
	o.Checkpoint = tracker
	s := newStream(c.T, c.srv, widgets(), &o)
	overflow := mux.Block
	if c.check.Latest {
		overflow = mux.Latest
	}
	m := newMux(c.T, &mux.Options{Overflow: overflow}, s)
	long, left := 20*time.Minute, 1+c.IntN(25)
	if last {
		long, left = 50*time.Minute, -1
	} else if c.chance(33) {
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
		c.note("delivered %s", oracle.TextUID(ev))
		c.events, c.acked = append(c.events, ev), append(c.acked, false)
		if !last || len(c.events) < 15 {
			c.disturb()
		}
		time.Sleep(time.Duration(c.IntN(2500)) * time.Millisecond)
		c.handle(last && c.chance(50))
		if c.chance(20) {
			c.checkKept()
		}
		if left--; left == 0 {
			break
		}
	}
	c.handle(last || c.chance(33))
	time.Sleep(time.Duration(c.IntN(3000)) * time.Millisecond)
	c.checkKept()
	if closes := last || c.chance(33); !closes {
		c.note("killed")
		c.store.kill()
		_ = tracker.Close() // nothing comes of it any more
	} else if err := tracker.Close(); err != nil {
		c.Error(err)
	}
	c.checkKept()
	c.check.Settled, c.check.From = last, c.before
	scope := stream.Options{Namespaces: c.options.Namespaces, LabelSelector: c.options.LabelSelector}
	if err := streamtest.Check(c.srv.History(widgets(), &scope), c.events, &c.check); err != nil {
		c.Errorf("%v\nbefore: %+v", err, c.before)
	}
	if last {
		c.checkDone(s.Status().Checkpoint.Unacked)
	}
	c.note("the end")
}

func (c *consumer) disturb() {
	if c.chance(50) {
		c.writes(c.Rand, 7)
	}
	if c.rewinds && c.chance(4) {
		c.do("rewind 2 restart")
		time.Sleep(6 * time.Minute)
	}
	if c.chance(8) {
		c.do("compact", "close watches")
	}
}

// handle handles and acks some of what waits, or all.
func (c *consumer) handle(all bool) {
	open := map[string]bool{} // objects of which an older event waits
	for i, ev := range c.events {
		if c.acked[i] {
			continue
		}
		name := ""
		if ev.Object != nil {
			name = nameOf("", ev.Object)
		}
		if open[name] && !c.anyOrder || !all && c.chance(67) {
			open[name] = name != ""
			continue
		}
		c.acked[i] = true
		c.note("handled %s", oracle.TextUID(ev))
		c.enter(ev)
		ev.Ack()
	}
}

// checkKept holds what is kept to what was delivered and acked.
func (c *consumer) checkKept() {
	after := position(c.T, c.store, widgets())
	run := oracle.CheckpointRun{Before: c.before, After: after, Events: slices.Clone(c.events),
		Acked: func(i int) bool { return c.acked[i] }, Options: c.check}
	run.Options.From = nil
	if err := oracle.CheckCheckpoint(run); err != nil {
		c.Errorf("%v\nbefore: %+v\nafter: %+v", err, c.before, after)
	}
}

// checkDone reports what waits though everything has been delivered and acked.
func (c *consumer) checkDone(unacked int) {
	after := position(c.T, c.store, widgets())
	pending := func(o checkpoint.Object) bool { return o.ResourceVersion == "" }
	if after == nil || unacked > 0 || slices.ContainsFunc(after.Objects, pending) {
		c.Errorf("all is acked, and %d events wait, and there is kept %+v", unacked, after)
	}
}
