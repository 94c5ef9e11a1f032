package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// denseMaps is how many small maps a dense object has: 8 MiB of JSON, and 400 MiB of memory.
const denseMaps = 1 << 20

// maxFrame is the size of a frame that client-go refuses to read: 16 MiB (apimachinery runtime/serializer/streaming).
const maxFrame = 16 << 20

// frame is one event of a watch.
type frame struct {
	kind   watch.EventType
	object map[string]any // may be changed
	rev    int64          // of the change; 0 for snapshots and bookmarks
}

func (w *watcher) encode(fr frame) []byte { return w.conn.query.event(fr.kind, fr.object) }

// corrupt encodes the frame with an error in it.
func (w *watcher) corrupt(fr frame, kind string) []byte {
	switch kind {
	case "garbage":
		if w.conn.query.Protobuf {
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
func (w *watcher) arm(f *fault) (disarm func()) {
	disarm = func() {}
	if f.is("slow DURATION") {
		w.slow = f.duration
	}
	if f == nil || f.at == answering {
		return disarm
	}
	w.armed, w.due = f, f.after == 0
	if !w.due {
		timer := time.NewTimer(f.after)
		w.after = timer.C
		disarm = func() { timer.Stop() }
	}
	return disarm
}

// injectBetween lets the fault happen if it is due and needs no frame.
func (w *watcher) injectBetween() error {
	if f := w.armed; f != nil && w.due && w.frames >= f.afterFrames && f.at != inFrame {
		w.armed = nil
		return w.inject(f, nil)
	}
	return nil
}

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
	w.conn.server.mu.Lock()
	poison := w.conn.server.state.script.faultAt(fr.rev)
	w.conn.server.mu.Unlock()
	if poison != nil {
		return w.inject(poison, &fr)
	}
	if f := w.armed; f != nil && w.due && w.frames >= f.afterFrames && f.at == inFrame {
		w.armed = nil
		return w.inject(f, &fr)
	}
	if err := w.writeFrame(w.encode(fr)); err != nil {
		return err
	}
	return w.injectBetween()
}

// inject lets a fault happen. Its frame is nil for faults between frames.
func (w *watcher) inject(f *fault, fr *frame) error {
	w.conn.server.mu.Lock()
	f.line.fired = true
	w.conn.server.mu.Unlock()
	switch f.usage {
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
		_ = w.sendError(apierrors.NewResourceExpired("too old resource version: " + formatVersion(w.cursor)))
		return errEnd
	case "error frame":
		_ = w.sendError(apierrors.NewInternalError(errors.New("scripted")))
		return errEnd
	case "error not status":
		_ = w.writeFrame(w.encode(frame{kind: watch.Error, object: w.view.bookmark(w.cursor, false)}))
		return errEnd
	case "frames after error":
		if err := w.sendError(apierrors.NewInternalError(errors.New("scripted"))); err != nil || fr == nil {
			return err
		}
		return w.writeFrame(w.encode(*fr))
	case "replay N":
		return w.replay(f.n)
	}
	if f.usage == "endless" {
		w.conn.writeEndless(w.conn.query.endless(`{"type":"`), func() string { return padding })
		return errGone
	}
	return w.writeFrame(w.corrupt(*fr, f.usage))
}

// replay sends the last n changes up to the cursor again.
func (w *watcher) replay(n int) error {
	s := w.conn.server
	s.mu.Lock()
	changes := s.state.store.table(w.view.resource.GroupResource()).changes
	changes = changes[:countUpTo(changes, w.cursor)]
	s.mu.Unlock()
	var frames []frame
	for i := len(changes) - 1; i >= 0 && len(frames) < n; i-- {
		if kind, object := w.view.event(changes[i]); kind != "" {
			frames = append(frames, frame{kind: kind, object: object, rev: changes[i].rev})
		}
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if err := w.writeFrame(w.encode(frames[i])); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) sendError(err error) error {
	return w.writeFrame(w.conn.query.event(watch.Error, statusOf(err)))
}

func (w *watcher) writeFrame(data []byte) error {
	if _, err := w.conn.w.Write(data); err != nil {
		return errGone
	}
	w.conn.flush()
	w.frames++
	return nil
}
