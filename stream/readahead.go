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

// next returns an event that has come.
func (c *connection) next() (client.Event, bool) {
	if len(c.arrived.events) == 0 {
		return client.Event{}, false
	}
	ev := c.arrived.events[0]
	c.arrived.events[0] = client.Event{} // what has been told need not be kept
	c.arrived.events = c.arrived.events[1:]
	return ev, true
}

// legible are the types of events that can be read.
var readable = []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}

// come returns the objects of ADDED and MODIFIED that have come and have not been
// received, up to what can't be read: what follows that will not be told.
func (c *connection) peekObjects() []object {
	c.arrived.reading = true
	defer func() { c.arrived.reading = false }()
	for len(c.arrived.events) < client.Buffer {
		ev, ok, _ := c.watch.Next()
		if !ok {
			break
		}
		c.arrived.events = append(c.arrived.events, ev)
	}
	var objects []object
	for _, ev := range c.arrived.events {
		u, _ := ev.Object.(*unstructured.Unstructured)
		if u == nil || !slices.Contains(readable, ev.Type) {
			break
		}
		if ev.Type == watch.Bookmark {
			continue
		}
		o, err := c.object(u)
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

// pageAhead is a page that is read while the one before it is told.
type pageAhead struct {
	token  string
	cancel context.CancelFunc
	done   chan answer // has the answer once it has come
}

// readPageAhead asks for the page that is to follow. Only NewClient's clients are
// asked: they end what their context ends, and need little memory for it.
func (w *worker) readPageAhead(ctx context.Context, next protocol.State, in protocol.Input) {
	s, ok := next.(protocol.Listing)
	if !ok {
		return
	}
	if _, isPage := in.(protocol.Page); !isPage || !w.reader.Cancels() || w.lists != nil && w.listTurn.IsOver() {
		return
	}
	o, timeout := w.page(s.Token()), w.capTimeout(pageTimeout<<min(s.Failures(), maxDoublings))
	ctx, cancel := context.WithCancel(ctx)
	ahead := &pageAhead{s.Token(), cancel, make(chan answer, 1)}
	w.nextPage = ahead
	go func() {
		a := answer{panicked: "the goroutine that reads a page ahead was ended"}
		defer func() {
			if p := recover(); p != nil {
				a.panicked = p
			}
			ahead.done <- a
		}()
		a = w.requestPage(ctx, o, timeout)
	}()
}

// tookAhead returns what came of the page, if it is the one that was read ahead. What
// the request panicked with (a transport does) it panics with.
func (w *worker) takePageAhead(token string) (answer, bool) {
	ahead := w.nextPage
	if ahead == nil || ahead.token != token {
		w.dropPageAhead()
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

// dropAhead ends what nobody wants any more.
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
		r, in := Request{Verb: "list", Continued: true, Duration: a.took}, protocol.Input(protocol.Failed{Failure: failure(a.err)})
		if a.err == nil {
			r.Objects, in = len(a.list.Items), protocol.Page{}
		}
		w.requestDone(r, in)
	case <-time.After(client.ClosingTime):
	}
	w.nextPage = nil
}
