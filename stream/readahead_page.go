package stream

import (
	"context"
	"time"
)

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
		l.room = nil
		return
	}
	_, told := in.(page)
	if _, ours := l.Stream.client.(*allNamespaces); !told || !ours || l.lists != nil && l.reads.isOver() {
		return
	}
	o, timeout, room := l.page(s.token()), l.left(pageTimeout<<min(s.failures, maxDoublings)), l.room
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
		a = l.askPage(ctx, o, timeout, room)
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
	l.askedAt = time.Now() // what has failed meanwhile fails now
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
