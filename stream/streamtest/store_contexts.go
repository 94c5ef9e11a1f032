package streamtest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

func checkEnded(c *storeCheck) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got, err := c.store.Load(ctx, "a")
	if why := c.differs(c.want["a"], got); err == nil && why != "" {
		c.report("Load: %s", why)
	}
	deltas := []checkpoint.Delta{
		delta("a", "13", widget("door", "u6", "13")), delta("b", "13", widget("door", "u6", "13")),
	}
	c.isMade("at once", deltas, c.store.Commit(ctx, copied(deltas)), false)
	if c.store.Delete(ctx, "c") == nil {
		c.want["c"] = nil
	}
	c.verify("after Delete")
	c.reopens()
}

// countdown is a context that ends when it is asked for the nth time whether it has.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   *atomic.Int64
}

func newCountdown(n int) countdown {
	ctx, cancel := context.WithCancel(context.Background())
	c := countdown{ctx, cancel, &atomic.Int64{}}
	c.left.Store(int64(n))
	return c
}

func (c countdown) asked() {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
}

func (c countdown) Done() <-chan struct{} { c.asked(); return c.Context.Done() }
func (c countdown) Err() error            { c.asked(); return c.Context.Err() }

// checkEnds lets the context of a commit end at each moment at which the Store asks for it.
func checkEnds(c *storeCheck) {
	for n := 1; n <= 50 && c.store != nil; n++ {
		before, known := c.want, len(c.errs)
		version := fmt.Sprint(100 + n)
		deltas := []checkpoint.Delta{
			delta("a", version, widget("door", "u7", version)), delta("b", version, widget("door", "u7", version)),
			delta("c", version, widget("door", "u7", version)),
		}
		ctx := newCountdown(n)
		err := c.store.Commit(ctx, copied(deltas))
		ended := ctx.Context.Err() != nil
		ctx.cancel()
		if !ended && c.fails("Commit", err) {
			return
		}
		c.isMade("at once", deltas, err, ended)
		if c.fails("Close", c.store.Close()); !c.opens() || len(c.errs) > known {
			return
		}
		c.want = before // what the Store has sent may have been done without an answer
		c.isMade("after a reopen", deltas, err, ended)
		if len(c.errs) > known || !c.commit(deltas...) || !c.verify("after another try") || !ended {
			return
		}
	}
}

// checkEndsMidway ends the context while Commit runs. A context that was derived from it ends then too, which asks
// countdown only once.
func checkEndsMidway(c *storeCheck) {
	// As many objects as a Tracker with the default Options commits, and more keys than some media write at once.
	const keys, objects, moments = 40, 25, 12
	deltas := func(version string) (deltas []checkpoint.Delta) {
		for k := range keys {
			d := delta(fmt.Sprint("midway.", k), version)
			for o := range objects {
				d.Put = append(d.Put, widget(fmt.Sprint("w", o), "u", version))
			}
			deltas = append(deltas, d)
		}
		return deltas
	}
	turns := 0 // as long as a commit takes
	for i := range moments {
		known, before, ds := len(c.errs), c.want, deltas(fmt.Sprint(i+1))
		limit := turns * i / moments
		switch {
		case i == 0:
			limit = math.MaxInt // it only counts
		case i%2 == 0 && turns > quickTurns:
			limit = quickTurns + (turns-quickTurns)*i/moments
		}
		n, ended, err := c.commitUntil(limit, ds)
		if i == 0 {
			turns = n
		}
		if !ended && c.fails("Commit", err) {
			return
		}
		c.isMade("at once", ds, err, ended)
		if c.fails("Close", c.store.Close()); !c.opens() || len(c.errs) > known {
			return
		}
		c.want = before // what the Store has sent may have been done without an answer
		c.isMade("after a reopen", ds, err, ended)
		if len(c.errs) > known || !c.commit(ds...) {
			return
		}
	}
	for k := range keys {
		c.remove(fmt.Sprint("midway.", k))
	}
}

// quickTurns of commitUntil take less than a millisecond. Each later one takes a millisecond.
const quickTurns = 2000

// commitUntil commits deltas, and ends the context after a number of turns of another goroutine, which no timer could
// do as soon. In a bubble of testing/synctest the time goes on once the turns are slow.
func (c *storeCheck) commitUntil(limit int, deltas []checkpoint.Delta) (turns int, ended bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var begun, returned atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for begun.Store(true); turns < limit && !returned.Load(); turns++ {
			if runtime.Gosched(); turns >= quickTurns {
				time.Sleep(time.Millisecond)
			}
		}
		if !returned.Load() {
			cancel()
		}
	}()
	for !begun.Load() {
		runtime.Gosched()
	}
	err = c.store.Commit(ctx, copied(deltas))
	ended = ctx.Err() != nil
	returned.Store(true)
	<-done
	return turns, ended, err
}
