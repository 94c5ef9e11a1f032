package sequence

import (
	"context"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// The watch of a fake begins when it is opened: before client-go 0.36 with nothing, since then with the new state of
// what was created or updated after the list, but never with what was deleted. So it is opened before anything of the
// list is delivered, because the caller may change objects then. It is not opened before the list: without versions,
// nothing distinguishes the events that the list already has from later ones.

// attempt is the result of an attempt to open a watch, and how long it took.
type attempt struct {
	result protocol.Input
	took   time.Duration
}

// listAndConnect reads a page of a fake, and opens the watch after the first one. It does so in one turn: no loop body
// runs between the two.
func (w *Worker) listAndConnect(
	ctx context.Context, s protocol.Listing, m protocol.Memory,
) (in protocol.Input, err error) {
	err = w.delivery.inTurn(ctx, func() error {
		in = w.list(ctx, s, m)
		if page, ok := in.(protocol.Page); ok {
			w.requests.connectEarly(ctx, page.Version, w.pacing.timeout(openTimeout, m.Failures()))
		}
		return nil
	})
	return in, err
}

// connectEarly opens a watch, unless it has done so. The next connect returns the result.
func (r *requests) connectEarly(ctx context.Context, version string, timeout time.Duration) {
	if r.early != nil {
		return
	}
	if !protocol.Usable(version) {
		version = ""
	}
	in, took := r.send(ctx, version, false, timeout)
	r.early = &attempt{in, took}
}

// readingAhead returns emit, after which it reads what has arrived meanwhile: a fake panics in whoever changes an
// object while 100 events are unread.
func (w *Worker) readingAhead(emit func(*Event) error) func(*Event) error {
	return func(ev *Event) error {
		err := emit(ev)
		w.requests.readAhead()
		return err
	}
}

// readAhead reads what the watch of connectEarly has received, for connection.next to return.
func (r *requests) readAhead() {
	if r.early == nil || r.watch == nil {
		return
	}
	for range client.Buffer { // a test double may send for ever
		ev, ok, _ := r.watch.watch.Next()
		if !ok {
			return
		}
		r.watch.arrived.events = append(r.watch.arrived.events, ev)
	}
}
