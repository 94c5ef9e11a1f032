package door

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

const (
	// A kube-apiserver ends watches after 30 to 60 minutes (--min-request-timeout).
	defaultTimeout = 30 * time.Minute
	// It sends a last bookmark this long before the end.
	lastBookmark = 2 * time.Second
)

// watcher is one open watch.
type watcher struct {
	door   *Door
	conn   *conn
	view   store.View
	cursor int64 // changes up to here have been sent, or were not requested

	frames int
	armed  *script.Fault    // until it has happened
	after  <-chan time.Time // if armed waits for a time
	due    bool             // armed need not wait any longer
	slow   time.Duration    // the delay before each frame
}

func (a *answer) serveWatch(f *script.Fault) {
	c, request := a.conn, &a.query.request
	if f.Is("ignore initial") {
		// As a server does that does not know the parameter.
		request.SendInitialEvents, request.ResourceVersionMatch = nil, ""
	}
	v, err := request.view(a.query.resource)
	if err == nil && request.Initial() {
		err = a.waitForVersion()
	}
	if err != nil {
		c.writeError(err)
		return
	}
	w := &watcher{door: a.door, conn: c, view: v}
	w.arm(f)
	initial, form, expired := w.begin(request, a.query.lag)
	if expired != nil && form == "as status" {
		c.writeError(expired)
		return
	}
	c.header(http.StatusOK, w.format().contentType())
	c.flush()
	if err = errEnd; expired == nil || form != "as close" {
		err = w.run(request, f, initial, expired)
	}
	if err == errEnd {
		c.finish()
	} else {
		c.reset()
	}
}

// begin sets the cursor from which the watch sends changes, and returns the snapshot that it sends before. If the
// version has expired, it returns the error and the form in which scripts want it sent.
func (w *watcher) begin(q *Request, lag int) (initial []store.Item, form string, expired error) {
	defer w.door.lock()()
	st, r := w.door.store.Revisions(), w.view.Resource.GroupResource()
	now, from := st.Back(lag), store.ParseVersion(q.ResourceVersion)
	switch w.cursor = now; {
	case q.Initial(), q.SendInitialEvents == nil && from <= 0:
		initial = st.Snapshot(r, now)
	case from > 0:
		if w.cursor = from; st.Expired(r, from) {
			expired = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
		}
	}
	return initial, w.door.habits.expiredForm, expired
}

// run sends the stream until it ends.
func (w *watcher) run(q *Request, f *script.Fault, initial []store.Item, expired error) error {
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
	end, last := time.After(timeout), (<-chan time.Time)(nil)
	if timeout > lastBookmark && q.AllowWatchBookmarks {
		last = time.After(timeout - lastBookmark)
	}
	if err := w.sendInitial(q, f, initial); err != nil {
		return err
	}
	return w.follow(q, end, last)
}

func (w *watcher) sendInitial(q *Request, f *script.Fault, initial []store.Item) error {
	for _, it := range initial {
		if w.view.Matches(it.Object) {
			if err := w.send(frame{kind: watch.Added, object: w.view.Render(it.Object)}); err != nil {
				return err
			}
		}
	}
	if q.Initial() && q.AllowWatchBookmarks && !f.Is("no marker") {
		return w.send(frame{kind: watch.Bookmark, object: w.view.Bookmark(w.cursor, !f.Is("plain marker"))})
	}
	return nil
}

// follow sends changes and bookmarks.
func (w *watcher) follow(q *Request, end, last <-chan time.Time) error {
	bookmarked := time.Now()
	for {
		changes, changed, every := w.next()
		for _, c := range changes {
			w.cursor = c.Number
			if kind, object := w.view.Event(c); kind != "" {
				if err := w.send(frame{kind: kind, object: object, rev: c.Number}); err != nil {
					return err
				}
			}
		}
		if len(changes) > 0 {
			continue
		}
		// A new timer for each round, because scripts may change the interval.
		var due <-chan time.Time
		if q.AllowWatchBookmarks && every > 0 {
			due = time.After(time.Until(bookmarked.Add(every)))
		}
		var err error
		select {
		case <-changed:
		case <-due:
			bookmarked = time.Now()
			err = w.sendBookmark()
		case <-last:
			err = w.sendBookmark()
		case <-w.after:
			w.due = true
			err = w.injectBetween()
		case <-end:
			err = errEnd
		case <-w.conn.r.Context().Done():
			err = w.conn.endError()
		}
		if err != nil {
			return err
		}
	}
}

// next returns the changes after the cursor. A store that has gone back behind the cursor has none until it has
// passed it again.
func (w *watcher) next() (changes []*store.Revision, changed <-chan struct{}, every time.Duration) {
	defer w.door.lock()()
	_, changes = w.door.store.Revisions().Changes(w.view.Resource.GroupResource(), w.cursor)
	if len(changes) == 0 {
		w.cursor = max(w.cursor, w.door.store.Revisions().Newest())
	}
	return changes, w.door.changed, w.door.habits.bookmarkEvery
}

func (w *watcher) sendBookmark() error {
	unlock := w.door.lock()
	reached := w.door.store.Revisions().Newest() >= w.cursor
	unlock()
	if !reached {
		return nil
	}
	return w.send(frame{kind: watch.Bookmark, object: w.view.Bookmark(w.cursor, false)})
}

// frame is one event of a watch.
type frame struct {
	kind   watch.EventType
	object map[string]any // may be changed
	rev    int64          // of the change; 0 for snapshots and bookmarks
}

func (w *watcher) format() format { return w.conn.row.format() }

func (w *watcher) encode(fr frame) []byte { return w.format().event(fr.kind, fr.object) }

// send sends a frame, or the fault that a script has for it.
func (w *watcher) send(fr frame) error {
	if w.slow > 0 {
		if err := w.conn.wait(w.slow); err != nil {
			return err
		}
	}
	if w.conn.r.Context().Err() != nil {
		return w.conn.endError()
	}
	unlock := w.door.lock()
	poison := w.door.script.FaultAt(fr.rev)
	unlock()
	if poison != nil {
		return w.inject(poison, &fr)
	}
	if f := w.armed; f != nil && w.due && w.frames >= f.AfterFrames && f.At == script.InFrame {
		w.armed = nil
		return w.inject(f, &fr)
	}
	if err := w.writeFrame(w.encode(fr)); err != nil {
		return err
	}
	return w.injectBetween()
}

func (w *watcher) sendError(err error) error {
	return w.writeFrame(w.format().event(watch.Error, statusOf(err)))
}

func (w *watcher) writeFrame(data []byte) error {
	if _, err := w.conn.w.Write(data); err != nil {
		return errGone
	}
	w.conn.flush()
	w.frames++
	return nil
}
