package client

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// adapt makes a Watch of any watch.Interface. It calls leave after Dead.
func adapt(w watch.Interface, hints Hints, fake bool, leave func()) (Watch, error) {
	switch {
	case w == nil:
		return nil, errNoWatch
	case isNil(w):
		return nil, fmt.Errorf("%w: the watch is a nil %T", errNoWatch, w)
	case !fake && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()):
		// client-go returns this and no error if the connection broke or timed out before the server answered.
		w.Stop()
		return nil, errConnection
	}
	adapted := &adaptedWatch{drained: drained{leave, false}, of: w, events: w.ResultChan()}
	if hints.Buffered {
		adapted.buffer()
	}
	return adapted, nil
}

// isNil reports whether w is nil, or a nil pointer, as a reactor of a fake may return it.
func isNil(w watch.Interface) bool {
	v := reflect.ValueOf(w)
	return w == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// adaptedWatch is a Watch over a watch.Interface.
type adaptedWatch struct {
	drained // has the Watch's Dead
	of      watch.Interface
	timer   *time.Timer // nil before Wait
	events  <-chan watch.Event
	arrived watch.Event // if valid: received, but not returned yet
	valid   bool
	over    bool
	ahead   *ahead // nil without Hints.Buffered
}

// ahead is what the goroutine of adaptedWatch.buffer has received and the caller has not.
type ahead struct {
	bytes  atomic.Int64
	taken  wait.Signal
	closed chan struct{} // ends the goroutine
}

func (w *adaptedWatch) Next() (ev Event, ok, over bool) {
	if !w.valid && !w.over {
		select {
		case ev, ok := <-w.events:
			w.receive(ev, ok)
		default:
		}
	}
	ev, ok = Event{Event: w.arrived}, w.valid
	w.arrived, w.valid = watch.Event{}, false
	return ev, ok, w.over
}

func (w *adaptedWatch) Wait(ctx context.Context, timeout time.Duration) bool {
	if w.valid || w.over {
		return true
	}
	if w.timer == nil {
		w.timer = time.NewTimer(timeout)
	} else {
		w.timer.Reset(timeout)
	}
	defer w.timer.Stop()
	select {
	case ev, ok := <-w.events:
		w.receive(ev, ok)
	case <-w.timer.C:
		return false
	case <-ctx.Done():
	}
	return true
}

// Pause is Wait, which leaves the watch as it is.
func (w *adaptedWatch) Pause(ctx context.Context, timeout time.Duration) bool {
	return w.Wait(ctx, timeout)
}

func (w *adaptedWatch) receive(ev watch.Event, ok bool) {
	w.arrived, w.valid, w.over = ev, ok, !ok
	if w.ahead != nil {
		w.ahead.bytes.Add(-sizeOf(ev.Object))
		w.ahead.taken.Send()
	}
}

// buffer starts a goroutine that receives events while the caller does something else.
func (w *adaptedWatch) buffer() {
	a := &ahead{taken: wait.NewSignal(), closed: make(chan struct{})}
	in, out := w.events, make(chan watch.Event, Buffer)
	w.events, w.ahead = out, a
	go func() {
		defer close(out)
		for {
			var from <-chan watch.Event
			if a.bytes.Load() < BufferBytes {
				from = in
			}
			select {
			case ev, ok := <-from:
				if !ok {
					return
				}
				a.bytes.Add(sizeOf(ev.Object))
				select {
				case out <- ev:
				case <-a.closed:
					return
				}
			case <-a.taken:
			case <-a.closed:
				return
			}
		}
	}()
}

func (w *adaptedWatch) Stop() {
	if w.ahead != nil {
		close(w.ahead.closed)
		for range w.events { // ends with the goroutine
		}
	}
	w.of.Stop()
}

// Drain waits until a stopped watch has closed its channel, as watch.Interface promises. It waits at most ClosingTime,
// because not every test double keeps that promise. A watch.ProxyWatcher does not: its Stop closes nothing.
func (w *adaptedWatch) Drain() {
	defer w.drained.drain()
	if _, proxy := w.of.(*watch.ProxyWatcher); proxy || w.of.ResultChan() == nil {
		return
	}
	timeout := time.NewTimer(ClosingTime)
	defer timeout.Stop()
	for {
		select {
		case _, ok := <-w.of.ResultChan():
			if !ok {
				return
			}
		case <-timeout.C:
			return
		}
	}
}
