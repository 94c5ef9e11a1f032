package stream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// partingTime is how long close waits for the watch's goroutine.
const partingTime = time.Second

var (
	// errUnreadable is wrapped by what is wrong with a frame.
	errUnreadable = errors.New("the server sent an event that can't be read")
	errSilent     = errors.New("the watch fell silent")
)

// connection is a watch that the server has accepted.
type connection struct {
	watch    watch.Interface
	events   <-chan watch.Event      // of the watch, or read ahead; nil if they are in frames
	frames   *frames                 // of a watch of NewClient, else nil
	waiting  []arrival               // that came from there, and are to be received first
	ahead    bool                    // what comes is for waiting
	passed   passed                  // by frames
	gone     chan struct{}           // ends reading ahead; nil without it
	cancel   context.CancelCauseFunc // of the watch
	opened   time.Time
	lifetime time.Duration // that the server was asked for
	immortal bool          // client-go's fake: its silence means nothing

	accept func(*unstructured.Unstructured) (object, error)
	wrap   func(error) error
	seen   func(kind Type, rv string)

	timer  *time.Timer
	waited time.Duration // for frames
	told   told          // by the frame last received
	total  int           // frames
	err    error         // that ended it
}

// told is what a frame tells of an object.
type told struct {
	object
	kind Type
}

// arrival is an event that has come, and what Options.Select has said of its object
// by then.
type arrival struct {
	watch.Event
	verdict verdict
}

// take returns what was received last, once: nothing keeps it after that.
func (c *connection) take() told {
	t := c.told
	c.told = told{}
	return t
}

// receive waits for the next frame, for the end, or until nothing has come for
// as long as patience.
func (c *connection) receive(ctx context.Context, patience time.Duration) input {
	if in := c.poll(); in != nil { // without a timer, while events keep coming
		return in
	}
	var silence <-chan time.Time
	if !c.immortal {
		if c.timer == nil {
			c.timer = time.NewTimer(patience)
		} else {
			c.timer.Reset(patience)
		}
		silence = c.timer.C
	}
	began := time.Now()
	defer func() { c.waited += time.Since(began) }()
	for {
		select {
		case ev, ok := <-c.events:
			return c.received(arrival{Event: ev}, ok)
		case <-c.ready():
			if in := c.poll(); in != nil {
				return in
			}
		case <-silence:
			c.err = errSilent
			return silent{}
		case <-ctx.Done():
			return silent{} // the driver looks at ctx first
		}
	}
}

// poll receives what has come, or the end. It returns nil if nothing has.
func (c *connection) poll() input {
	ev, ok := c.next()
	over := false
	if !ok {
		ev, ok, over = c.fetch()
	}
	if in, events := c.passed.take(); in != nil {
		c.total += events
		if ok { // it comes after them
			c.waiting = slices.Insert(c.waiting, 0, ev)
		}
		return in
	}
	if !ok && !over {
		return nil
	}
	return c.received(ev, ok)
}

// fetch returns the next event that has not been read ahead, if it has come, or
// says that none will.
func (c *connection) fetch() (ev arrival, ok, over bool) {
	if c.frames != nil {
		return c.frames.next()
	}
	select {
	case ev, ok := <-c.events:
		return arrival{Event: ev}, ok, !ok
	default:
		return arrival{}, false, false
	}
}

// ready has one when there may be something to fetch from frames.
func (c *connection) ready() <-chan struct{} {
	if c.frames == nil {
		return nil
	}
	return c.frames.ready()
}

func (c *connection) received(ev arrival, ok bool) input {
	if !ok {
		return c.closed(nil)
	}
	in, err := c.read(ev)
	if err != nil {
		// Whatever comes after an error is not to be trusted.
		return c.closed(err)
	}
	return in
}

func (c *connection) closed(err error) input {
	if err != nil {
		err = c.wrap(err)
	}
	c.err = err
	open := time.Since(c.opened)
	// Servers end watches on their own clock, so a moment early is no surprise.
	planned := open >= c.lifetime-min(time.Second, c.lifetime/10)
	return closed{after: open, planned: planned, err: err}
}

func (c *connection) read(ev arrival) (input, error) {
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	case watch.Error:
		return nil, errorOf(ev.Object)
	default:
		return nil, fmt.Errorf("%w: it has the unknown type %q", errUnreadable, ev.Type)
	}
	u, _ := ev.Object.(*unstructured.Unstructured)
	if u == nil {
		return nil, fmt.Errorf("%w: the client made a %T of it, not an *unstructured.Unstructured", errUnreadable, ev.Object)
	}
	if ev.Type == watch.Bookmark {
		c.count(ev.Type, u.GetResourceVersion())
		kind := bookmarkFrame
		if u.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			kind = markerFrame
		}
		return frame{kind, u.GetResourceVersion()}, nil
	}
	o, err := c.object(u)
	if err != nil {
		return nil, err
	}
	o.verdict = ev.verdict
	c.told = told{o, Type(ev.Type)}
	f := frame{kind: changedFrame}
	if ev.Type == watch.Added {
		f.kind = addedFrame
	}
	if !o.unversioned() {
		f.rv = o.version
	}
	c.count(ev.Type, f.rv)
	return f, nil
}

// object takes an object in, if something can be made of it.
func (c *connection) object(u *unstructured.Unstructured) (object, error) {
	o, err := c.accept(u)
	if err != nil {
		return o, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	rv := o.version
	if o.unversioned() {
		rv = u.GetResourceVersion()
	}
	if !usable(rv) && !c.immortal {
		return o, fmt.Errorf("%w: its object has the resourceVersion %q", errUnreadable, rv)
	}
	return o, nil
}

func (c *connection) count(kind watch.EventType, rv string) {
	c.total++
	c.seen(Type(kind), rv)
}

func (c *connection) end(namespace string) WatchEnd {
	return WatchEnd{Namespace: namespace, Duration: time.Since(c.opened), Frames: c.total, Err: c.err}
}

// errorOf is what an ERROR event says.
func errorOf(o runtime.Object) error {
	if v := reflect.ValueOf(o); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("the server sent an ERROR event that says nothing")
	}
	return apierrors.FromObject(o)
}

// close ends the watch and waits for its goroutines.
func (c *connection) close() {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.gone != nil {
		close(c.gone)
		for range c.events { // until nobody reads ahead any more
		}
	}
	c.watch.Stop()
	if c.cancel != nil {
		c.cancel(nil)
	}
	// watch.Interface promises that the channel is closed after Stop. Not every
	// double keeps it (watch.NewProxyWatcher): then there is nothing to wait for.
	parting := time.NewTimer(partingTime)
	defer parting.Stop()
	for {
		select {
		case _, ok := <-c.watch.ResultChan():
			if !ok {
				return
			}
		case <-parting.C:
			return
		}
	}
}

// brokenWatch recognises what client-go returns, with a nil error, when the
// connection broke or timed out before the server answered. It is no answer of
// the server, so it says nothing about the version asked for.
func brokenWatch(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}
