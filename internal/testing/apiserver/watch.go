package apiserver

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// A kube-apiserver ends watches after 30 to 60 minutes (--min-request-timeout).
	defaultTimeout = 30 * time.Minute
	// It sends a last bookmark this long before the end.
	lastBookmark = 2 * time.Second
)

// watcher is one open watch.
type watcher struct {
	conn   *conn
	view   view
	cursor int64 // changes up to here have been sent, or were not requested

	frames int
	armed  *fault           // until it has happened
	after  <-chan time.Time // if armed waits for a time
	due    bool             // armed need not wait any longer
	slow   time.Duration    // the delay before each frame
}

func (c *conn) serveWatch(f *fault) {
	q := c.query
	if f.is("ignore initial") {
		// As a server does that does not know the parameter.
		q.SendInitialEvents, q.ResourceVersionMatch = nil, ""
	}
	w, err := newWatcher(c, q)
	if err != nil {
		c.writeError(err)
		return
	}
	defer w.arm(f)()
	initial, form, expired := w.begin(q)
	if expired != nil && form == "status" {
		c.writeError(expired)
		return
	}
	c.header(http.StatusOK, q.contentType())
	c.flush()
	if err = errEnd; expired == nil || form == "" {
		err = w.run(q, f, initial, expired)
	}
	if err == errEnd {
		c.finish()
	} else {
		c.reset()
	}
}

func newWatcher(c *conn, q *query) (*watcher, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	v, err := newView(q.resource, q.selection())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	v.metadata = q.Metadata
	if q.Initial() {
		if err := c.waitForVersion(); err != nil {
			return nil, err
		}
	}
	return &watcher{conn: c, view: v}, nil
}

// begin sets the cursor from which the watch sends changes, and returns the snapshot that it sends before. If the
// version has expired, it returns the error and the form in which scripts want it sent.
func (w *watcher) begin(q *query) (initial []item, form string, expired error) {
	s, r := w.conn.server, q.resource.GroupResource()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.state.store.back(q.lag)
	from := parseVersion(q.ResourceVersion)
	switch w.cursor = now; {
	case q.Initial(), q.SendInitialEvents == nil && from <= 0:
		initial = s.state.store.snapshot(r, now)
	case from > 0:
		if w.cursor = from; s.state.store.expired(r, from) {
			expired = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
		}
	}
	return initial, s.state.habits.expiredForm, expired
}

// run sends the stream until it ends.
func (w *watcher) run(q *query, f *fault, initial []item, expired error) error {
	if err := w.injectBetween(); err != nil {
		return err
	}
	if expired != nil {
		_ = w.sendError(expired)
		return errEnd
	}
	timeout := defaultTimeout
	if seconds := q.Seconds(); seconds > 0 {
		timeout = time.Duration(seconds) * time.Second
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	last := time.NewTimer(timeout - lastBookmark)
	defer last.Stop()
	if timeout <= lastBookmark || !q.AllowWatchBookmarks {
		last.Stop()
	}
	if err := w.sendInitial(q, f, initial); err != nil {
		return err
	}
	return w.follow(q, end.C, last.C)
}

func (w *watcher) sendInitial(q *query, f *fault, initial []item) error {
	for _, it := range initial {
		if w.view.matches(it.object) {
			if err := w.send(frame{kind: watch.Added, object: w.view.render(it.object)}); err != nil {
				return err
			}
		}
	}
	if q.Initial() && q.AllowWatchBookmarks && !f.is("no marker") {
		return w.send(frame{kind: watch.Bookmark, object: w.view.bookmark(w.cursor, !f.is("plain marker"))})
	}
	return nil
}

// follow sends changes and bookmarks.
func (w *watcher) follow(q *query, end, last <-chan time.Time) error {
	bookmarked := time.Now()
	for {
		changes, changed, every := w.next()
		for _, c := range changes {
			w.cursor = c.rev
			if kind, object := w.view.event(c); kind != "" {
				if err := w.send(frame{kind: kind, object: object, rev: c.rev}); err != nil {
					return err
				}
			}
		}
		if len(changes) > 0 {
			continue
		}
		// A new timer for each round, because scripts may change the interval.
		due := time.NewTimer(time.Until(bookmarked.Add(every)))
		if !q.AllowWatchBookmarks || every == 0 {
			due.Stop()
		}
		bookmark, err := false, error(nil)
		select {
		case <-changed:
		case <-due.C:
			bookmark, bookmarked = true, time.Now()
		case <-last:
			bookmark = true
		case <-w.after:
			w.due = true
			err = w.injectBetween()
		case <-end:
			err = errEnd
		case <-w.conn.r.Context().Done():
			err = w.conn.endError()
		}
		due.Stop()
		if bookmark {
			err = w.sendBookmark()
		}
		if err != nil {
			return err
		}
	}
}

// next returns the changes after the cursor. A store that has gone back behind the cursor has none until it has
// passed it again.
func (w *watcher) next() (changes []*change, changed <-chan struct{}, every time.Duration) {
	s := w.conn.server
	defer s.lock()()
	changes = s.state.store.after(w.view.resource.GroupResource(), w.cursor)
	if len(changes) == 0 {
		w.cursor = max(w.cursor, s.state.store.rev)
	}
	return changes, s.state.changed, s.state.habits.bookmarkEvery
}

func (w *watcher) sendBookmark() error {
	w.conn.server.mu.Lock()
	reached := w.conn.server.state.store.rev >= w.cursor
	w.conn.server.mu.Unlock()
	if !reached {
		return nil
	}
	return w.send(frame{kind: watch.Bookmark, object: w.view.bookmark(w.cursor, false)})
}
