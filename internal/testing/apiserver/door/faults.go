package door

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

// denseMaps is how many small maps a dense object has: 8 MiB of JSON, and 400 MiB of memory.
const denseMaps = 1 << 20

// maxFrame is the size of a frame that client-go refuses to read: 16 MiB (apimachinery runtime/serializer/streaming).
const maxFrame = 16 << 20

// injectBefore lets the fault happen before the answer. It reports whether the request is finished.
func (a *answer) injectBefore(f *script.Fault) bool {
	c, q := a.conn, a.query
	isWatch := q.request.Verb == "watch"
	switch {
	case f.Usage == "refuse":
		c.refuse()
	case f.Usage == "hang":
		c.fallSilent()
	case f.Usage == "slow DURATION" && !isWatch:
		err := c.wait(f.Duration)
		if err != nil {
			c.reset()
		}
		return err != nil
	case f.Usage == "no content type":
		c.untyped = true
		return false
	case f.Usage == "stale N":
		q.lag = f.N
		return false
	case f.Code > 0:
		a.writeScripted(f)
	case f.Usage == "switch protocols":
		c.w.Header().Set("Upgrade", "scripted")
		c.header(http.StatusSwitchingProtocols, "application/json")
		c.fallSilent()
	case f.Usage == "redirect":
		c.w.Header().Set("Location", "https://other.invalid/")
		c.header(http.StatusFound, "text/plain")
	case isWatch || f.At == script.Answering || f.NeedsObjects():
		return false
	default:
		c.header(http.StatusOK, q.request.format().contentType())
		c.breakBody(f.Usage)
	}
	return true
}

// breakBody writes a broken body instead of the answer's, which has not been made yet.
func (c *conn) breakBody(usage string) {
	switch usage {
	case "reset":
		c.writeHalf()
		c.reset()
	case "half-open":
		c.writeHalf()
		c.fallSilent()
	case "garbage":
		_, _ = io.WriteString(c.w, garbage)
	case "endless":
		c.writeEndless(c.row.format().endless(`{"kind":"`), func() string { return padding })
	case "close": // no body
	default:
		panic("streamtest: no body for the fault " + usage)
	}
}

// writeScripted answers with the status code of the script.
func (a *answer) writeScripted(f *script.Fault) {
	c, request := a.conn, &a.query.request
	seconds := int(f.Duration / time.Second)
	if f.Is("CODE retry-after SECONDS") {
		c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if f.Is("CODE endless") {
		c.header(f.Code, "application/json")
		c.writeEndless(`{"kind":"Status","apiVersion":"v1","message":"`, func() string { return padding })
		return
	}
	if f.Is("CODE plain") {
		c.header(f.Code, "text/plain; charset=utf-8")
		_, _ = io.WriteString(c.w, "scripted: "+http.StatusText(f.Code)+"\n")
		return
	}
	err := apierrors.NewGenericServerResponse(f.Code, request.Verb, a.query.name.GroupResource(), request.Name,
		"scripted", seconds, false)
	if f.Code == http.StatusGone {
		err = apierrors.NewResourceExpired("too old resource version: " + request.ResourceVersion)
	}
	if f.Is("CODE Gone") {
		err.ErrStatus.Reason = metav1.StatusReasonGone
	}
	c.write(f.Code, statusOf(err))
}

// corrupt encodes the frame with an error in it.
func (w *watcher) corrupt(fr frame, kind string) []byte {
	switch kind {
	case "garbage":
		if w.format().protobuf {
			return frameOf([]byte(garbage))
		}
		return []byte(garbage)
	case "unknown type":
		fr.kind = "REPLACED"
	case "invalid utf-8":
		// The invalid bytes are in the type: client-go's decoders replace them by U+FFFD without an error, so in the
		// object nobody would notice.
		data := w.encode(fr)
		return bytes.Replace(data, []byte(fr.kind[:2]), []byte("\xff\xfe"), 1)
	}
	damage(fr.object, kind)
	return w.encode(fr)
}

// damage puts an error into an object.
func damage(object map[string]any, kind string) {
	switch kind {
	case "no kind":
		delete(object, "kind")
		delete(object, "apiVersion")
	case "no version":
		delete(object["metadata"].(map[string]any), "resourceVersion")
	case "no name":
		delete(object["metadata"].(map[string]any), "name")
	case "1e400":
		object["number"] = json.RawMessage("1e400")
	case "huge object":
		object["padding"] = strings.Repeat("x", maxFrame)
	case "dense object":
		object["padding"] = json.RawMessage("[" + strings.Repeat(`{"":{}},`, denseMaps) + "0]")
	}
}

// arm prepares the fault of this watch.
func (w *watcher) arm(f *script.Fault) {
	if f.Is("slow DURATION") {
		w.slow = f.Duration
	}
	if f == nil || f.At == script.Answering {
		return
	}
	if w.armed, w.due = f, f.After == 0; !w.due {
		w.after = time.After(f.After)
	}
}

// injectBetween lets the fault happen if it is due and needs no frame.
func (w *watcher) injectBetween() error {
	if f := w.armed; f != nil && w.due && w.frames >= f.AfterFrames && f.At != script.InFrame {
		w.armed = nil
		return w.inject(f, nil)
	}
	return nil
}

// inject lets a fault happen. Its frame is nil for faults between frames.
func (w *watcher) inject(f *script.Fault, fr *frame) error {
	unlock := w.door.lock()
	w.door.script.Happened(f)
	unlock()
	switch f.Usage {
	case "close":
		return errEnd
	case "reset":
		w.conn.reset()
		return errGone
	case "half-open":
		w.conn.fallSilent()
		return errGone
	case "reset inside frame":
		data := w.encode(*fr)
		_ = w.writeFrame(data[:len(data)/2])
		w.conn.reset()
		return errGone
	case "410 in stream":
		_ = w.sendError(apierrors.NewResourceExpired("too old resource version: " + store.FormatVersion(w.cursor)))
		return errEnd
	case "error frame":
		_ = w.sendError(apierrors.NewInternalError(errors.New("scripted")))
		return errEnd
	case "error not status":
		_ = w.writeFrame(w.encode(frame{kind: watch.Error, object: w.view.Bookmark(w.cursor, false)}))
		return errEnd
	case "frames after error":
		if err := w.sendError(apierrors.NewInternalError(errors.New("scripted"))); err != nil || fr == nil {
			return err
		}
		return w.writeFrame(w.encode(*fr))
	case "replay N":
		return w.replay(f.N)
	}
	if f.Is("endless") {
		w.conn.writeEndless(w.format().endless(`{"type":"`), func() string { return padding })
		return errGone
	}
	return w.writeFrame(w.corrupt(*fr, f.Usage))
}

// replay sends the last n changes up to the cursor again.
func (w *watcher) replay(n int) error {
	unlock := w.door.lock()
	changes, _ := w.door.store.Revisions().Changes(w.view.Resource.GroupResource(), w.cursor)
	unlock()
	var frames []frame
	for i := len(changes) - 1; i >= 0 && len(frames) < n; i-- {
		if kind, object := w.view.Event(changes[i]); kind != "" {
			frames = append(frames, frame{kind: kind, object: object, rev: changes[i].Number})
		}
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if err := w.writeFrame(w.encode(frames[i])); err != nil {
			return err
		}
	}
	return nil
}
