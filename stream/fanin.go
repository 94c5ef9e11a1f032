package stream

import (
	"context"
	"sync"
)

// fanIn merges the lanes of several namespaces into the ranging goroutine. Each
// lane has a goroutine, which waits until its event has been handled.
type fanIn struct {
	emit   func(context.Context, Event) error
	first  bool // the first lane that ends is the end
	offers chan offer
}

// offer is an event of a lane, or its end.
type offer struct {
	lane  int
	event Event
	done  chan error // gets what came of the event
	end   *laneEnd
}

type laneEnd struct {
	err      error
	panicked any
}

func (s *Stream) newFanIn(emit func(context.Context, Event) error) (fanIn, []*lane) {
	f := fanIn{emit: emit, first: s.options.End == AtFirstClose, offers: make(chan offer)}
	turn := make(chan struct{}, 1)
	var lanes []*lane
	for i, n := range s.options.Namespaces {
		done := make(chan error)
		l := s.newLane(n, func(ctx context.Context, ev Event) error {
			select {
			case f.offers <- offer{lane: i, event: ev, done: done}:
				return <-done // merge answers what it has taken
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		l.turn = turn
		lanes = append(lanes, l)
	}
	return f, lanes
}

// loop runs all lanes until all have ended, or one with an error, and returns
// that. What a lane panics with (a Select does) it panics with.
func (f fanIn) loop(ctx context.Context, lanes []*lane, from Start) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ends := make([]laneEnd, len(lanes))
	var running sync.WaitGroup
	defer func() {
		cancel(nil)
		running.Wait()
		for _, end := range ends { // also of those that nobody listened to any more
			if end.panicked != nil {
				panic(end.panicked)
			}
		}
	}()
	for i, l := range lanes {
		running.Go(func() {
			ends[i].panicked = "the goroutine of a lane was ended"
			defer func() {
				if p := recover(); p != nil {
					ends[i].panicked = p
				}
				select {
				case f.offers <- offer{lane: i, end: &ends[i]}:
				case <-ctx.Done():
				}
			}()
			ends[i] = laneEnd{err: l.loop(ctx, from)}
		})
	}
	return f.merge(ctx, len(lanes))
}

func (f fanIn) merge(ctx context.Context, n int) error {
	synced := make([]bool, n)
	missing, ended := n, 0
	for ended < n {
		var o offer
		select {
		case o = <-f.offers:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if o.end != nil {
			if o.end.err != nil || o.end.panicked != nil || f.first {
				return o.end.err // loop panics, where that is due
			}
			ended++
			continue
		}
		ev := o.event
		switch ev.Type {
		case Gap:
			if synced[o.lane] {
				synced[o.lane] = false
				missing++
			}
		case Synced:
			if !synced[o.lane] {
				synced[o.lane] = true
				missing--
			}
			// It is for all of them, whose snapshots have versions of their own.
			ev.Namespace, ev.ResourceVersion = "", ""
			if missing > 0 {
				o.done <- nil
				continue
			}
		}
		err := f.handle(ctx, ev, o.done)
		if err != nil {
			return err
		}
	}
	return nil
}

// handle emits ev and tells its lane, also if the loop body panics: the lane must
// not wait for ever.
func (f fanIn) handle(ctx context.Context, ev Event, done chan<- error) (err error) {
	err = errLeft
	defer func() { done <- err }()
	err = f.emit(ctx, ev)
	return err
}
