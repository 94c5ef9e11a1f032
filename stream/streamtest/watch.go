package streamtest

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// A kube-apiserver ends watches after 30 to 60 minutes (--min-request-timeout).
	defaultTimeout = 30 * time.Minute
	// It sends a last bookmark so long before that.
	lastBookmark = 2 * time.Second
)

// watcher is one open watch.
type watcher struct {
	*conn
	view   view
	cursor int64 // what happened up to here has been told, or was not asked for

	frames int
	armed  *fault           // what the script has in store, until it has happened
	after  <-chan time.Time // when that waits for a time; ripe once it has come
	ripe   bool
	slow   time.Duration // before each frame
}

func (s *Server) serveWatch(c *conn, q *query, f *fault) {
	if f.is("ignore initial") {
		// As a server that has never heard of it: an unknown parameter.
		q.initial, q.SendInitialEvents, q.ResourceVersionMatch = nil, false, ""
	}
	w, err := s.newWatcher(c, q)
	if err != nil {
		c.writeError(err)
		return
	}
	defer w.arm(f)()
	initial, expired := w.begin(q)
	if expired != nil && w.refuseExpired(expired) {
		return
	}
	c.header(http.StatusOK, "application/json")
	c.flush()
	if err := w.run(q, f, initial, expired); err == errEnd {
		c.finish()
	} else if c.closed() {
		c.reset()
	}
}

func (s *Server) newWatcher(c *conn, q *query) (*watcher, error) {
	if err := validateWatch(q); err != nil {
		return nil, err
	}
	v, err := newView(q.resource, q.scope())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	v.metadata = q.Metadata
	if q.SendInitialEvents {
		if err := s.waitFor(c, q); err != nil {
			return nil, err
		}
	}
	return &watcher{conn: c, view: v}, nil
}

func validateWatch(q *query) error {
	var errs field.ErrorList
	match := field.NewPath("resourceVersionMatch")
	if q.initial != nil && q.ResourceVersionMatch != string(metav1.ResourceVersionMatchNotOlderThan) {
		errs = append(errs, field.Forbidden(match, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	}
	if q.ResourceVersionMatch != "" && q.initial == nil {
		errs = append(errs, field.Forbidden(match, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	if len(errs) > 0 {
		return invalidOptions(errs)
	}
	return validateVersion(q)
}

// begin finds the version from where the watch tells what happens, and what it
// tells before that. The error says that the version has expired.
func (w *watcher) begin(q *query) ([]item, error) {
	s, r := w.server, q.resource.GroupResource()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.store.back(q.lag)
	from := parseVersion(q.ResourceVersion)
	switch {
	case q.SendInitialEvents, q.initial == nil && from <= 0:
		w.cursor = now
		return s.store.snapshot(r, now), nil
	case from <= 0:
		w.cursor = now
		return nil, nil
	}
	w.cursor = from
	if s.store.expired(r, from) {
		return nil, apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	return nil, nil
}

// refuseExpired says no in the form that the script has asked for, unless that is
// the usual one, in the stream.
func (w *watcher) refuseExpired(expired error) bool {
	w.server.mu.Lock()
	form := w.server.expiredForm
	w.server.mu.Unlock()
	switch form {
	case "status":
		w.writeError(expired)
		return true
	case "close":
		w.header(http.StatusOK, "application/json")
		return true
	}
	return false
}

// run is the stream, until it ends.
func (w *watcher) run(q *query, f *fault, initial []item, expired error) error {
	if err := w.strike(); err != nil {
		return err
	}
	if expired != nil {
		_ = w.sendError(expired)
		return errEnd
	}
	timeout := defaultTimeout
	if q.TimeoutSeconds > 0 {
		timeout = time.Duration(q.TimeoutSeconds) * time.Second
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	last := time.NewTimer(timeout - lastBookmark)
	defer last.Stop()
	if timeout <= lastBookmark || !q.Bookmarks {
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
	if q.SendInitialEvents && q.Bookmarks && !f.is("no marker") {
		return w.send(frame{kind: watch.Bookmark, object: w.view.bookmark(w.cursor, !f.is("plain marker"))})
	}
	return nil
}

// follow tells what happens.
func (w *watcher) follow(q *query, end, last <-chan time.Time) error {
	bookmarked := time.Now()
	for {
		changes, changed, every := w.look()
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
		// A timer of its own for each round: how often is for the script to say.
		due := time.NewTimer(time.Until(bookmarked.Add(every)))
		if !q.Bookmarks || every == 0 {
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
			w.ripe = true
			err = w.strike()
		case <-end:
			err = errEnd
		case <-w.cut:
			err = errEnd
		case <-w.r.Context().Done():
			err = errGone
		case <-w.server.closed:
			err = errGone
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

// look is what has happened after the cursor. A store that has gone back behind it
// has nothing to tell until it has passed it again.
func (w *watcher) look() (changes []*change, changed <-chan struct{}, every time.Duration) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	changes = s.store.after(w.view.resource.GroupResource(), w.cursor)
	if len(changes) == 0 {
		w.cursor = max(w.cursor, s.store.rev)
	}
	return changes, s.changed, s.bookmarkEvery
}

func (w *watcher) sendBookmark() error {
	w.server.mu.Lock()
	reached := w.server.store.rev >= w.cursor
	w.server.mu.Unlock()
	if !reached {
		return nil
	}
	return w.send(frame{kind: watch.Bookmark, object: w.view.bookmark(w.cursor, false)})
}
