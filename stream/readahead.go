package stream

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// readAhead is how many events of a watch may be read before they are told, where
// a checkpoint is to know of new objects before: those that have come meanwhile
// are written together.
const readAhead = 100

// readAhead lets events come in while others are told.
func (c *connection) readAhead() {
	in, out, gone := c.watch.ResultChan(), make(chan watch.Event, readAhead), make(chan struct{})
	c.events, c.gone = out, gone
	go func() {
		defer close(out)
		for {
			select {
			case ev, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- ev:
				case <-gone:
					return
				}
			case <-gone:
				return
			}
		}
	}()
}

// next returns an event that has come.
func (c *connection) next() (arrival, bool) {
	if len(c.waiting) == 0 {
		return arrival{}, false
	}
	ev := c.waiting[0]
	c.waiting[0] = arrival{} // what has been told need not be kept
	c.waiting = c.waiting[1:]
	return ev, true
}

// legible are the types of events that can be read.
var legible = []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}

// come returns the objects of ADDED and MODIFIED that have come and have not been
// received, up to what can't be read: what follows that will not be told.
func (c *connection) come() []object {
	c.ahead = true
	defer func() { c.ahead = false }()
	for len(c.waiting) < readAhead {
		ev, ok, _ := c.fetch()
		if !ok {
			break
		}
		c.waiting = append(c.waiting, ev)
	}
	var objects []object
	for _, ev := range c.waiting {
		u, _ := ev.Object.(*unstructured.Unstructured)
		if u == nil || !slices.Contains(legible, ev.Type) {
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
			o.verdict = ev.verdict
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
func (l *lane) readPageAhead(ctx context.Context, next state, in input) {
	s, ok := next.(listing)
	if !ok {
		return
	}
	_, told := in.(page)
	if _, ours := l.Stream.client.(*allNamespaces); !told || !ours || l.lists != nil && l.reads.IsOver() {
		return
	}
	o, timeout := l.page(s.token()), l.left(pageTimeout<<min(s.failures, maxDoublings))
	ctx, cancel := context.WithCancel(ctx)
	ahead := &pageAhead{s.token(), cancel, make(chan answer, 1)}
	l.nextPage = ahead
	go func() {
		a := answer{panicked: "the goroutine that reads a page ahead was ended"}
		defer func() {
			if p := recover(); p != nil {
				a.panicked = p
			}
			ahead.done <- a
		}()
		a = l.askPage(ctx, o, timeout)
	}()
}

// tookAhead returns what came of the page, if it is the one that was read ahead. What
// the request panicked with (a transport does) it panics with.
func (l *lane) tookAhead(token string) (answer, bool) {
	ahead := l.nextPage
	if ahead == nil || ahead.token != token {
		l.dropAhead()
		return answer{}, false
	}
	l.nextPage = nil
	defer ahead.cancel()
	a := <-ahead.done
	if a.panicked != nil {
		panic(a.panicked)
	}
	return a, true
}

// dropAhead ends what nobody wants any more.
func (l *lane) dropAhead() {
	if l.nextPage == nil {
		return
	}
	l.nextPage.cancel()
	select {
	case a := <-l.nextPage.done:
		if a.panicked != nil {
			l.nextPage = nil
			panic(a.panicked)
		}
		r, in := Request{Verb: "list", Continued: true, Duration: a.took}, input(failed{a.err})
		if a.err == nil {
			r.Objects, in = len(a.list.Items), page{}
		}
		l.requestDone(r, in)
	case <-time.After(partingTime):
	}
	l.nextPage = nil
}
