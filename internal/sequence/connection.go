package sequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// errLost has the text of golang.org/x/net/http2, for a connection whose pings are not answered.
var errLost = errors.New("http2: client connection lost")

// connection is a watch that the server has accepted.
type connection struct {
	scope    scope
	inbox    *inbox
	watch    client.Watch
	cancel   context.CancelCauseFunc // of the watch
	opened   time.Time
	lifetime time.Duration // requested from the server
	// versionless: no list had a version, so objects need none.
	versionless bool

	arrived arrived       // events that were not received yet
	skipped skipped       // events that the filter skipped
	silence time.Duration // how long the watch has received nothing, in all
	end     Request       // filled in until the watch ends
}

// arrived are events that were read from a watch ahead of the one being received.
type arrived struct {
	events  []client.Event
	reading bool // peekObjects is reading from the watch
}

// receive waits for the next frame, or for another input: the end of the watch, which is also its lifetime with a
// grace, or if nothing arrives within timeout, Silent. It waits with a method of the watch.
func (c *connection) receive(
	ctx context.Context, timeout time.Duration, wait func(context.Context, time.Duration) bool,
) (f protocol.Frame, other protocol.Input) {
	f, other, ok := c.poll()
	if ok { // a busy watch needs no timer
		return f, other
	}
	if c.scope.target.Fake {
		timeout = math.MaxInt64 // client-go's fake may be silent for ever
	}
	began := time.Now()
	defer func() { c.silence += time.Since(began) }()
	rest := c.lifetime + min(max(c.lifetime/10, minGrace), maxGrace) - began.Sub(c.opened)
	if c.scope.target.Fake {
		rest = math.MaxInt64
	}
	for wait(ctx, min(timeout, rest)-time.Since(began)) {
		if ctx.Err() != nil {
			return f, protocol.Silent{} // ignored: Worker.Run checks ctx first
		}
		if f, other, ok = c.poll(); ok {
			return f, other
		}
	}
	if rest < timeout {
		return f, c.closed(nil)
	}
	return f, protocol.Silent{}
}

// dead says that the watch fell silent: its connection may be dead.
func (c *connection) dead() {
	c.end.Err = protocol.ErrSilent
	c.watch.Dead()
}

// poll receives what has arrived: a frame or another input, the end. It returns false if nothing has.
func (c *connection) poll() (f protocol.Frame, other protocol.Input, ok bool) {
	ev, ok := c.next()
	over := false
	if !ok {
		ev, ok, over = c.watch.Next()
	}
	if f, events := c.skipped.take(); events > 0 {
		c.end.Objects += events
		if ok { // ev came after the skipped events
			c.arrived.events = slices.Insert(c.arrived.events, 0, ev)
		}
		return f, nil, true
	}
	switch {
	case ok:
		f, err := c.read(&ev)
		if err != nil {
			return f, c.closed(err), true // events after an error cannot be trusted
		}
		return f, nil, true
	case over:
		return f, c.closed(nil), true
	}
	return f, nil, false
}

func (c *connection) closed(err error) protocol.Input {
	if err != nil {
		err = c.scope.requestError("watch", err)
	}
	c.end.Err = err
	open := time.Since(c.opened)
	// The server's clock may end a watch a moment early.
	planned := open >= c.lifetime-min(time.Second, c.lifetime/10)
	return protocol.Closed{After: open, Planned: planned, Cause: failure(err)}
}

func (c *connection) read(ev *client.Event) (f protocol.Frame, err error) {
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	case watch.Error:
		return f, errorOf(ev.Object)
	default:
		return f, fmt.Errorf("%w: unknown type %q", errUnreadable, ev.Type)
	}
	u, _ := ev.Object.(*unstructured.Unstructured)
	if u == nil && ev.Raw.JSON == nil {
		return f, fmt.Errorf("%w: the client decoded a %T: must be an *unstructured.Unstructured",
			errUnreadable, ev.Object)
	}
	if ev.Type == watch.Bookmark {
		c.count(ev.Type, u.GetResourceVersion())
		kind := protocol.BookmarkFrame
		if u.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			kind = protocol.MarkerFrame
		}
		return protocol.Frame{Kind: kind, Version: u.GetResourceVersion()}, nil
	}
	o, err := c.object(u, ev.Raw)
	if err != nil {
		return f, err
	}
	o.verdict, o.body.memory = cmp.Or(o.verdict, ev.Verdict), ev.Memory
	c.inbox.putEvent(objectEvent{o, ev.Type})
	f.Kind = protocol.ChangedFrame
	if ev.Type == watch.Added {
		f.Kind = protocol.AddedFrame
	}
	if !o.unversioned() {
		f.Version = o.ResourceVersion
	}
	c.count(ev.Type, f.Version)
	return f, nil
}

// object converts the object of an event, or returns an error if it cannot be used.
func (c *connection) object(u *unstructured.Unstructured, raw decode.Raw) (object, error) {
	o, err := c.scope.target.accept(u, raw)
	if err != nil {
		return o, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	rv := o.resourceVersion()
	if !protocol.Usable(rv) && !c.versionless && !c.scope.target.Fake {
		return o, fmt.Errorf("%w: invalid resourceVersion %q of its object", errUnreadable, rv)
	}
	return o, nil
}

func (c *connection) count(kind watch.EventType, rv string) {
	c.end.Objects++
	if received := c.scope.target.Hooks.FrameReceived; received != nil {
		received(c.scope.namespace, kind, rv)
	}
}

// next returns the first event that peekObjects has read, if any.
func (c *connection) next() (client.Event, bool) {
	if len(c.arrived.events) == 0 {
		return client.Event{}, false
	}
	ev := c.arrived.events[0]
	c.arrived.events[0] = client.Event{} // so that its memory can be freed
	c.arrived.events = c.arrived.events[1:]
	return ev, true
}

// readable are the types of events that may carry an object.
var readable = []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}

// peekObjects returns the objects of the ADDED and MODIFIED that have arrived and were not received yet. It stops at an
// unreadable event, because the watch ends there.
func (c *connection) peekObjects() []object {
	c.arrived.reading = true
	defer func() { c.arrived.reading = false }()
	bytes := int64(0)
	for _, ev := range c.arrived.events {
		bytes += ev.Size()
	}
	for len(c.arrived.events) < client.Buffer && bytes < client.BufferBytes {
		ev, ok, _ := c.watch.Next()
		if !ok {
			break
		}
		c.arrived.events = append(c.arrived.events, ev)
		bytes += ev.Size()
	}
	var objects []object
	for _, ev := range c.arrived.events {
		u, _ := ev.Object.(*unstructured.Unstructured)
		if u == nil && ev.Raw.JSON == nil || !slices.Contains(readable, ev.Type) {
			break
		}
		if ev.Type == watch.Bookmark {
			continue
		}
		o, err := c.object(u, ev.Raw)
		if err != nil {
			break
		}
		if ev.Type != watch.Deleted {
			o.verdict = cmp.Or(o.verdict, ev.Verdict)
			objects = append(objects, o)
		}
	}
	return objects
}

// errorOf returns the error in an ERROR event.
func errorOf(o runtime.Object) error {
	status, isStatus := o.(*metav1.Status)
	object, isObject := o.(*unstructured.Unstructured)
	if o == nil || isStatus && status == nil || isObject && object == nil {
		return fmt.Errorf("%w: an ERROR without an object", errUnreadable)
	}
	var failure *apierrors.StatusError
	if !errors.As(apierrors.FromObject(o), &failure) || failure.ErrStatus.Code == 0 && failure.ErrStatus.Reason == "" {
		return fmt.Errorf("%w: an ERROR without a Status", errUnreadable)
	}
	cause, ok := apierrors.StatusCause(failure, guard.ClientDecoding)
	switch {
	case !ok:
		return failure
	case strings.HasSuffix(cause.Message, errLost.Error()):
		return errLost
	}
	return fmt.Errorf("%w: %s", errUnreadable, cause.Message)
}

// close ends the watch, waits for its goroutines, and returns how it ended.
func (c *connection) close() Request {
	c.watch.Stop()
	c.cancel(nil)
	c.watch.Drain()
	c.end.Duration = time.Since(c.opened)
	return c.end
}
