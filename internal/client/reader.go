package client

import (
	"context"
	"errors"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// Reader reads one resource for one worker of a Stream.
type Reader interface {
	// List returns a page. Its error may wrap a [RetryAfterError].
	List(context.Context, metav1.ListOptions, Hints) (List, error)
	// Watch opens a watch, which ends with ctx. Its error may wrap a [RetryAfterError].
	Watch(context.Context, metav1.ListOptions, Hints) (Watch, error)
	// Cancels reports whether List returns soon after its ctx has ended. If so, the next page can be requested ahead.
	Cancels() bool
}

// Watch is an open watch. It is not for concurrent use.
type Watch interface {
	// Next returns the next event if ok is true. If over is true, no event will follow. If both are false, no event has
	// arrived, or all that arrived were skipped by the Filter.
	Next() (ev Event, ok, over bool)
	// Wait waits until Next may return something, or ctx ends. It returns false if neither happens within timeout: then
	// the watch is over.
	Wait(ctx context.Context, timeout time.Duration) bool
	// Pause does the same, but the watch is never over because of that.
	Pause(ctx context.Context, timeout time.Duration) bool
	// Dead says that the connection may be dead, because nothing has arrived on it for so long. After Drain, the
	// requests of a client that is from New use new ones.
	Dead()
	// Stop ends the watch.
	Stop()
	// Drain waits for the goroutines of the watch, at most [ClosingTime] for those of client-go. It is called after
	// Stop, and after the watch's ctx has ended: some watches end with that and not with Stop.
	Drain()
}

// List is a page of objects. They are in Items, or in Raw.
type List struct {
	*unstructured.UnstructuredList // nil if there is an error
	Raw                            []decode.Raw
}

// Len returns the number of objects.
func (l List) Len() int {
	if l.UnstructuredList == nil {
		return 0
	}
	return len(l.Items) + len(l.Raw)
}

// Event is an event of a watch. An ERROR is the last one. If Raw has JSON, Object is nil. If it has only a Version,
// that is the one of Object.
type Event struct {
	watch.Event
	Verdict Verdict
	Raw     decode.Raw
	Memory  int64 // about how much the object takes, if a Decoder has counted it, else 0
}

// Size returns about how much memory the object of the event takes.
func (e *Event) Size() int64 {
	if e.Memory > 0 {
		return e.Memory
	}
	return int64(len(e.Raw.JSON)) + sizeOf(e.Object)
}

func sizeOf(o runtime.Object) int64 {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return size.Of(u.Object)
	}
	return 0 // a Status
}

// Verdict is what the Filter has decided about the object of an event.
type Verdict int

const (
	Unasked  Verdict = iota // the Filter was not called
	Selected                // the object is wanted
	Rejected                // the object is not wanted
)

// Objects is how much of an object is wanted, and as what.
type Objects string

const (
	Full     Objects = ""         // decoded
	Raw      Objects = "raw"      // as JSON
	Metadata Objects = "metadata" // apiVersion, kind and metadata without managedFields, decoded
)

// Hints are what the caller of a Reader wants. A Reader may ignore Objects and Filter: then objects are whole and
// decoded, and their Verdict is Unasked.
type Hints struct {
	Objects Objects
	// Filter is called by Watch.Next before an object is decoded. Nil decodes every object.
	Filter Filter
	// Buffered lets events arrive while the caller does something else. At most Buffer of them wait, and about
	// BufferBytes.
	Buffered bool
}

const (
	// Buffer is how many events may wait for the caller if Hints.Buffered is set.
	Buffer = 100
	// BufferBytes is how much memory they may take, but for the last one.
	BufferBytes = 16 << 20
)

// RetryAfterError is an error of a server that sent a Retry-After header.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }

func (e *RetryAfterError) Unwrap() error { return e.Err }

// ErrNoAnswer is the cause of the context of a request that the server did not answer in time. A client of New sends
// the next request on a new connection.
var ErrNoAnswer = errors.New("the server did not answer in time")

var (
	errNoWatch    = errors.New("the client returned neither a watch nor an error")
	errConnection = errors.New("the connection broke before the server answered")
)

// ClosingTime is how long Drain waits for the goroutine of client-go's watch.
const ClosingTime = time.Second

// For returns a Reader of a resource in a namespace, or in the whole cluster if the namespace is empty.
func For(c dynamic.Interface, r schema.GroupVersionResource, namespace string) Reader {
	in := func(c dynamic.Interface) dynamic.ResourceInterface {
		if namespace == "" {
			return c.Resource(r)
		}
		return c.Resource(r).Namespace(namespace)
	}
	if own, ok := c.(*client); ok {
		return directReader{in(own.Interface), in(own.watches), own}
	}
	return plainReader{in(c), IsFake(c)}
}

// IsFake reports whether c is client-go's fake, whose watches never end and whose objects have no versions. Since 0.35
// a fake says so; that of 0.34 is known by a method that only fakes have.
func IsFake(c dynamic.Interface) bool {
	switch fake := c.(type) {
	case interface{ IsWatchListSemanticsUnSupported() bool }: // see client-go's package watchlist
		return fake.IsWatchListSemanticsUnSupported()
	case interface{ ClearActions() }:
		return true
	}
	return false
}

// directReader reads the connections of a client that New returned.
type directReader resource

func (r directReader) Cancels() bool { return true }

func (r directReader) call(watch bool, hints Hints) *call {
	c := &call{formats: r.client.whole, watch: watch, objects: hints.Objects, noRetry: true}
	if hints.Objects == Metadata {
		c.formats = r.client.metadata
	}
	return c
}

func (r directReader) List(ctx context.Context, opts metav1.ListOptions, hints Hints) (List, error) {
	c := r.call(false, hints)
	list, err := resource(r).list(ctx, opts, c)
	r.unanswered(ctx, c, err)
	return List{list, c.list.Raw}, c.withRetryAfter(err)
}

// unanswered leaves the connection of a request that failed with ErrNoAnswer, or with the config's timeout.
func (r directReader) unanswered(ctx context.Context, c *call, err error) {
	var timeout net.Error
	ok := errors.As(err, &timeout)
	late := ok && timeout.Timeout() && ctx.Err() == nil
	if err != nil && (late || context.Cause(ctx) == ErrNoAnswer) {
		r.client.connections.leave(c.sentOn)
	}
}

func (r directReader) Watch(ctx context.Context, opts metav1.ListOptions, hints Hints) (Watch, error) {
	c := r.call(true, hints)
	w, f, err := resource(r).watch(ctx, opts, c)
	r.unanswered(ctx, c, err)
	if err != nil {
		return nil, c.withRetryAfter(err)
	}
	leave := func() { r.client.connections.leave(c.sentOn) }
	if f == nil { // the answer is not JSON, or there is none
		return adapt(w, hints, false, leave)
	}
	f.filter, f.raw = hints.Filter, hints.Objects == Raw
	if !r.client.closes || hints.Buffered {
		c.pipe.readAhead()
	}
	return &directWatch{drained: drained{leave, false}, frames: f}, nil
}

// withRetryAfter adds to err how long the server asked to wait, if it did.
func (c *call) withRetryAfter(err error) error {
	if err != nil && c.retryAfter > 0 {
		return &RetryAfterError{err, c.retryAfter}
	}
	return err
}

// directWatch is a watch whose events are in frames.
type directWatch struct {
	drained // has the Watch's Dead
	frames  *frames
	timer   *time.Timer // nil before Wait
}

func (w *directWatch) Wait(ctx context.Context, timeout time.Duration) bool {
	w.frames.pipe.beginWait()
	if w.timer == nil {
		w.timer = time.AfterFunc(timeout, w.frames.pipe.silence)
	} else {
		w.timer.Reset(timeout)
	}
	defer w.timer.Stop()
	if !w.frames.pipe.readHere() {
		select {
		case <-w.frames.pipe.ready:
		case <-ctx.Done():
		}
	}
	return !w.frames.pipe.isSilent()
}

func (w *directWatch) Pause(ctx context.Context, timeout time.Duration) bool {
	w.frames.pipe.readOnce()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.frames.pipe.ready:
	case <-ctx.Done():
	case <-timer.C:
		return false
	}
	return true
}

func (w *directWatch) Next() (ev Event, ok, over bool) { return w.frames.next() }

func (w *directWatch) Stop() { w.frames.pipe.stop() }

// Drain waits until the goroutine that reads has ended. It waits at most ClosingTime, because Close does not end every
// Read of a test double.
func (w *directWatch) Drain() {
	w.frames.pipe.drain()
	w.drained.drain()
}

// drained is the part of a Watch that outlives Stop.
type drained struct {
	leave func() // leaves the connection, which is idle only after the watch has ended
	dead  bool
}

func (d *drained) Dead() { d.dead = true }

func (d *drained) drain() {
	if d.dead {
		d.leave()
	}
}

// plainReader reads through any dynamic.ResourceInterface.
type plainReader struct {
	resource dynamic.ResourceInterface
	fake     bool
}

func (r plainReader) Cancels() bool { return false }

func (r plainReader) List(ctx context.Context, opts metav1.ListOptions, _ Hints) (List, error) {
	list, err := r.resource.List(ctx, opts)
	return List{list, nil}, err
}

func (r plainReader) Watch(ctx context.Context, opts metav1.ListOptions, hints Hints) (Watch, error) {
	w, err := r.resource.Watch(ctx, opts)
	if err != nil {
		if !isNil(w) {
			w.Stop()
		}
		return nil, err
	}
	return adapt(w, hints, r.fake, func() {})
}
