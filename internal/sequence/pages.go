package sequence

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// answer is the result of a request for a page.
type answer struct {
	list client.List
	err  error
	took time.Duration

	panicked any // the value that the request for a page ahead panicked with
}

// pageSizes are those of one snapshot. Zero means Requests.PageSize.
type pageSizes struct {
	size    int // of the next page
	refused int // the smallest size of a page that was too large
}

// resize makes the next page smaller if err says that this one, of up to most objects, was too large. Otherwise it
// makes the next page larger again, up to a size that was not refused in this snapshot. It returns false if a smaller
// page does not help: this one was of one object, or err is another error.
func (p *pageSizes) resize(most int, err error) bool {
	var refused *guard.Error
	errors.As(err, &refused)
	size := cmp.Or(p.size, most)
	switch {
	case err == nil && 2*size < p.refused:
		p.size = 2 * size
	case refused != nil && refused.TooLarge && size > 1:
		p.size, p.refused = max(size/4, 1), size
		return true
	}
	return false
}

// list reads a page.
func (w *Worker) list(ctx context.Context, s protocol.Listing, m protocol.Memory) protocol.Input {
	in := w.pacing.request(ctx, m, false, func() (protocol.Input, time.Duration) {
		return w.requests.list(ctx, s.Token(), w.pacing.timeout(pageTimeout, m.Failures()))
	})
	if page, ok := in.(protocol.Page); ok {
		page.Duplicate = w.delivery.notePage(s.Token() == "")
		if s.Token() == "" && protocol.Before(page.Version, m.Version()) {
			page.Below = w.delivery.isBelow()
		}
		in = page
	}
	return in
}

// pageAhead is a page that is read while the page before it is delivered.
type pageAhead struct {
	cancel context.CancelFunc
	done   chan answer // receives the answer
}

// readPageAhead requests the next page. It does so only with clients of NewClient, which end a request with its context
// and need little memory for a page.
func (r *requests) readPageAhead(ctx context.Context, token string, timeout time.Duration) {
	if !r.reader.Cancels() {
		return
	}
	o := r.page(token)
	ctx, cancel := context.WithCancel(ctx)
	ahead := &pageAhead{cancel, make(chan answer, 1)}
	r.ahead = ahead
	go func() {
		a := answer{panicked: "the goroutine that reads a page ahead called runtime.Goexit"}
		defer func() {
			if p := recover(); p != nil {
				a.panicked = p
			}
			ahead.done <- a
		}()
		a = r.requestPage(ctx, o, timeout)
	}()
}

// takePageAhead returns the answer for the next page if that page was read ahead. If the request panicked, in a
// transport for example, so does takePageAhead.
func (r *requests) takePageAhead() (answer, bool) {
	ahead := r.ahead
	if ahead == nil {
		return answer{}, false
	}
	r.ahead = nil
	defer ahead.cancel()
	a := <-ahead.done
	if a.panicked != nil {
		panic(a.panicked)
	}
	return a, true
}

// dropPageAhead cancels the request for a page that is no longer needed.
func (r *requests) dropPageAhead() {
	if r.ahead == nil {
		return
	}
	r.ahead.cancel()
	select {
	case a := <-r.ahead.done:
		if a.panicked != nil {
			r.ahead = nil
			panic(a.panicked)
		}
		done := Request{Verb: "list", Continued: true, Duration: a.took}
		in := protocol.Input(protocol.Failed{Cause: failure(a.err)})
		if a.err == nil {
			done.Objects, in = a.list.Len(), protocol.Page{}
		}
		r.scope.done(done, in)
	case <-time.After(client.ClosingTime):
	}
	r.ahead = nil
}
