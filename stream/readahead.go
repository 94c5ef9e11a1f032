package stream

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

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
			o.verdict = ev.Verdict
			objects = append(objects, o)
		}
	}
	return objects
}

// pageAhead is a page that is read while the page before it is delivered.
type pageAhead struct {
	cancel context.CancelFunc
	done   chan answer // receives the answer
}

// readPageAhead requests the next page. It does so only with clients of NewClient, which end a request with its context
// and need little memory for a page.
func (w *worker) readPageAhead(ctx context.Context, next protocol.State, in protocol.Input) {
	s, ok := next.(protocol.Listing)
	if !ok {
		return
	}
	if _, isPage := in.(protocol.Page); !isPage || !w.reader.Cancels() || w.hosted.Lists != nil && w.listSlot.IsOver() {
		return
	}
	o, timeout := w.page(s.Token()), w.timeout(pageTimeout, s.Failures())
	ctx, cancel := context.WithCancel(ctx)
	ahead := &pageAhead{cancel, make(chan answer, 1)}
	w.nextPage = ahead
	go func() {
		a := answer{panicked: "the goroutine that reads a page ahead called runtime.Goexit"}
		defer func() {
			if p := recover(); p != nil {
				a.panicked = p
			}
			ahead.done <- a
		}()
		a = w.requestPage(ctx, o, timeout)
	}()
}

// takePageAhead returns the answer for the next page if that page was read ahead. If the request panicked, in a
// transport for example, so does takePageAhead.
func (w *worker) takePageAhead() (answer, bool) {
	ahead := w.nextPage
	if ahead == nil {
		return answer{}, false
	}
	w.nextPage = nil
	defer ahead.cancel()
	a := <-ahead.done
	if a.panicked != nil {
		panic(a.panicked)
	}
	return a, true
}

// dropPageAhead cancels the request for a page that is no longer needed.
func (w *worker) dropPageAhead() {
	if w.nextPage == nil {
		return
	}
	w.nextPage.cancel()
	select {
	case a := <-w.nextPage.done:
		if a.panicked != nil {
			w.nextPage = nil
			panic(a.panicked)
		}
		r := Request{Verb: "list", Continued: true, Duration: a.took}
		in := protocol.Input(protocol.Failed{Failure: failure(a.err)})
		if a.err == nil {
			r.Objects, in = a.list.Len(), protocol.Page{}
		}
		w.requestDone(r, in)
	case <-time.After(client.ClosingTime):
	}
	w.nextPage = nil
}
