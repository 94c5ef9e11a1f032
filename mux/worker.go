package mux

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime/debug"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// worker is one run of a source, in a goroutine of its own. Only through its door does it reach the run of the Mux.
type worker struct {
	source Source
	key    string
	lists  *host.Lists
	holder *host.Holder
	door   door
}

// door is what the run of a Mux lets the worker of a source do, in this order: begin once, unless it ends before, put
// any number of times, end once.
type door interface {
	// begin reports whether the source has begun before in this run of the Mux, and whether it has to start from the
	// beginning all the same.
	begin() (again, restart bool)
	// put buffers an event, and waits for room if it does not fit. It returns false if the worker has to end. memory
	// is how much the Object takes, or 0 if that is unknown.
	put(ctx context.Context, ev stream.Event, memory int64) bool
	// end records how the worker has ended, and whether its source can't resume.
	end(err error, canceled, restart bool)
}

// work runs the source until it ends.
func (w *worker) work(ctx context.Context, delay time.Duration) {
	var err error
	returned, restart := false, false
	defer func() {
		if !returned {
			p := cmp.Or[any](recover(), errors.New("runtime.Goexit ended the goroutine of the source"))
			err = &stream.PanicError{Where: w.key, Value: p, Stack: debug.Stack()}
		}
		panicked := errors.As(err, new(*stream.PanicError)) // the event that it was handling may be lost
		w.door.end(err, ctx.Err() != nil, restart || panicked)
	}()
	if wait.Sleep(ctx, delay, nil) {
		restart, err = w.receive(ctx)
	}
	returned = true
}

// receive passes the events of the source on. It returns the source's error, and whether its Position is no use then.
func (w *worker) receive(ctx context.Context) (restart bool, err error) {
	memory := int64(0) // of the event that is yielded; stays 0 if the source is no Stream
	events, resumed := w.events(ctx, &memory)
	if events == nil {
		return false, errors.New("Events returned nil: must return a sequence")
	}
	for ev, err := range events {
		if err != nil {
			invalid := errors.As(err, new(*stream.OptionsError))
			gap := errors.As(err, new(*stream.GapError))
			return resumed && invalid || gap, err
		}
		if !w.door.put(ctx, ev, memory) {
			break
		}
	}
	return false, nil
}

// events returns the sequence of the source, and whether it resumes where it was. memory is for host.Run.
func (w *worker) events(ctx context.Context, memory *int64) (events iter.Seq2[stream.Event, error], resumed bool) {
	again, restart := w.door.begin()
	src, ok := w.source.(hosted)
	if !ok {
		return w.source.Events(ctx), false
	}
	o := host.Run{Again: again || restart, Lists: w.lists, Memory: memory, Holder: w.holder}
	if src, ok := w.source.(positioned); ok && again && !restart {
		// The Position includes the events in the buffer.
		if p := src.Position(); len(p.ResourceVersions)+len(p.Objects) > 0 {
			from := &p
			resumed = true
			o.Start = func() *checkpoint.Position {
				defer func() { from = nil }() // it can be large
				return from
			}
		}
	}
	return src.Host(ctx, o), resumed
}

// port is the door of the worker of a source.
type port struct {
	run    *activeRun
	source *source
}

func (p *port) begin() (again, restart bool) {
	p.run.sources.mu.Lock()
	defer p.run.sources.mu.Unlock()
	s := p.source
	s.worker.state, s.worker.began, s.failure.nextTry, s.failure.err = stream.Listing, time.Now(), time.Time{}, nil
	again, restart = s.progress.buffered, s.progress.restart
	s.progress.restart = false
	return again, restart
}

func (p *port) put(ctx context.Context, ev stream.Event, memory int64) bool {
	s, all := p.source, p.run.sources
	it := item{event: ev, size: sizeOf(&ev, memory)}
	s.sign(&it.event)
	all.mu.Lock()
	if ctx.Err() != nil { // the source has been removed, or the run is ending
		all.backlog.keep(s, &it)
		all.mu.Unlock()
		return false
	}
	s.progress.buffered = true
	isQueued := all.backlog.put(s, &it)
	all.mu.Unlock()
	if isQueued {
		return true
	}
	select {
	case <-s.buffer.room:
		return true
	case <-ctx.Done():
		return false // whatever has canceled ctx has admitted the item, or purges it
	}
}

func (p *port) end(err error, canceled, restart bool) {
	s, all := p.source, p.run.sources
	all.mu.Lock()
	defer all.mu.Unlock()
	s.worker.running, s.worker.ended = false, time.Now()
	s.progress.restart = s.progress.restart || restart
	p.run.running--
	switch {
	case s.removed:
		s.settle(nil) // not before: a run that has just begun would take it for its own
		if all.leaving[s.key] == s.worker.done {
			delete(all.leaving, s.key)
		}
	case canceled:
		s.worker.state = stream.Stopped
	default:
		all.backlog.enqueue(s, &item{end: true, err: err, run: s.worker.number})
	}
	all.backlog.notify()
}
