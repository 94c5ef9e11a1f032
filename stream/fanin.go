package stream

import (
	"context"
	"sync"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// fanIn merges the lanes of several namespaces into the ranging goroutine. Each
// lane has a goroutine; what it changes and tells it does in its turn, which the
// ranging goroutine gives to one at a time and sees to its end.
type fanIn struct {
	emit  func(Event) error
	first bool // the first lane that ends is the end
	turns chan turn
	ends  chan *laneEnd
}

// turn is a lane's, from when it is accepted until over is closed.
type turn struct {
	lane    int
	events  chan Event
	results chan error // of each event
	over    chan struct{}
}

type laneEnd struct {
	err      error
	panicked any
}

func (s *Stream) newFanIn(emit func(Event) error) (fanIn, []*lane) {
	f := fanIn{emit: emit, first: s.options.End == AtFirstClose, turns: make(chan turn), ends: make(chan *laneEnd)}
	var lanes []*lane
	for i, n := range s.options.Namespaces {
		events, results := make(chan Event), make(chan error)
		l := s.newLane(n, func(ev Event) error {
			events <- ev // merge listens until the turn is over
			return <-results
		})
		l.turn = func(ctx context.Context, tell func() error) error {
			t := turn{lane: i, events: events, results: results, over: make(chan struct{})}
			select {
			case f.turns <- t:
				defer close(t.over)
				return tell()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
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
		cancel(errLeft) // if not the caller's ctx, it is the loop that ends them
		running.Wait()
		for _, end := range ends { // also of those that nobody listened to any more
			if end.panicked != nil {
				panic(end.panicked)
			}
		}
	}()
	objects := map[string][]checkpoint.Object{}
	for _, o := range from.position.Objects {
		objects[o.Namespace] = append(objects[o.Namespace], o)
	}
	for i, l := range lanes {
		from := from
		from.position.Objects = objects[l.namespace]
		running.Go(func() {
			ends[i].panicked = "the goroutine of a lane was ended"
			defer func() {
				if p := recover(); p != nil {
					ends[i].panicked = p
				}
				select {
				case f.ends <- &ends[i]:
				case <-ctx.Done():
				}
			}()
			ends[i] = laneEnd{err: l.loop(ctx, from)}
		})
	}
	return f.merge(ctx, len(lanes))
}

func (f fanIn) merge(ctx context.Context, n int) error {
	all := barrier{synced: make([]bool, n), missing: n}
	over := false
	for ended := 0; ended < n; {
		select {
		case t := <-f.turns:
			err := f.serve(t, &all)
			if err != nil || over && all.missing == 0 {
				return err
			}
		case end := <-f.ends:
			over = over || f.first // but the snapshots are told to their end
			if end.err != nil || end.panicked != nil || over && all.missing == 0 {
				return end.err // loop panics, where that is due
			}
			ended++
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// serve emits what a lane tells in its turn.
func (f fanIn) serve(t turn, all *barrier) (err error) {
	for {
		select {
		case ev := <-t.events:
			if all.passes(t.lane, &ev) {
				err = f.handle(ev, t)
			} else {
				ev.Ack() // nobody will see it
				t.results <- nil
			}
		case <-t.over:
			return err
		}
	}
}

// handle emits ev and tells its lane, also if the loop body panics: the lane must
// not wait for ever.
func (f fanIn) handle(ev Event, t turn) (err error) {
	err = errLeft
	defer func() { t.results <- err }()
	err = f.emit(ev)
	return err
}

// barrier makes the SYNCED of all lanes one.
type barrier struct {
	synced  []bool
	missing int
}

// passes says whether ev is to be told.
func (b *barrier) passes(lane int, ev *Event) bool {
	switch ev.Type {
	case Gap:
		if b.synced[lane] {
			b.synced[lane] = false
			b.missing++
		}
	case Synced:
		if !b.synced[lane] {
			b.synced[lane] = true
			b.missing--
		}
		// It is for all of them, whose snapshots have versions of their own.
		ev.Namespace, ev.ResourceVersion = "", ""
		return b.missing == 0
	}
	return true
}
