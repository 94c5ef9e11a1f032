package streamtest

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// maxFrame is the size from which client-go gives a frame up: 16 MiB
// (apimachinery runtime/serializer/streaming).
const maxFrame = 16 << 20

// frame is one event of a watch.
type frame struct {
	kind   watch.EventType
	object map[string]any // the frame's own
	rev    int64          // of the change that it is; 0 for others
}

func (fr frame) encode() []byte { return encode(fr.kind, fr.object) }

// encode writes an event in the order of an API server.
func encode(kind watch.EventType, object any) []byte {
	data, err := json.Marshal(struct {
		Type   watch.EventType `json:"type"`
		Object any             `json:"object"`
	}{kind, object})
	if err != nil {
		panic(err) // see writeJSON
	}
	return append(data, '\n')
}

// spoil is a frame with something wrong with it.
func (fr frame) spoil(kind string) []byte {
	switch kind {
	case "garbage":
		return []byte("this is not JSON\n")
	case "unknown type":
		fr.kind = "REPLACED"
	case "no kind":
		delete(fr.object, "kind")
		delete(fr.object, "apiVersion")
	case "1e400":
		fr.object["number"] = json.RawMessage("1e400")
	case "huge frame":
		fr.object["padding"] = strings.Repeat("x", maxFrame)
	case "no version":
		delete(fr.metadata(), "resourceVersion")
	case "no name":
		delete(fr.metadata(), "name")
	case "invalid utf-8":
		// In the type: client-go's decoders put U+FFFD for it without an error, so that
		// nobody could find it in the object.
		return []byte(strings.Replace(string(fr.encode()), `"type":"`, "\"type\":\"\xff\xfe", 1))
	}
	return fr.encode()
}

func (fr frame) metadata() map[string]any { return fr.object["metadata"].(map[string]any) }

// arm prepares what the script has in store for this watch.
func (w *watcher) arm(f *fault) (disarm func()) {
	disarm = func() {}
	if f.is("slow DURATION") {
		w.slow = f.duration
	}
	if f == nil || f.at == answering {
		return disarm
	}
	w.armed, w.ripe = f, f.after == 0
	if !w.ripe {
		timer := time.NewTimer(f.after)
		w.after = timer.C
		disarm = func() { timer.Stop() }
	}
	return disarm
}

// strike lets the fault happen, if its moment has come and it needs no frame.
func (w *watcher) strike() error {
	if f := w.armed; f != nil && w.ripe && w.frames >= f.afterFrames && f.at != inFrame {
		w.armed = nil
		return w.hit(f, nil)
	}
	return nil
}

// send sends a frame, or what the script makes of it.
func (w *watcher) send(fr frame) error {
	if w.slow > 0 {
		if err := w.wait(w.slow); err != nil {
			return err
		}
	}
	if w.r.Context().Err() != nil {
		return w.over()
	}
	w.server.mu.Lock()
	poison, poisoned := w.server.poison[fr.rev]
	w.server.mu.Unlock()
	if poisoned {
		return w.hit(&poison, &fr)
	}
	if f := w.armed; f != nil && w.ripe && w.frames >= f.afterFrames && f.at == inFrame {
		w.armed = nil
		return w.hit(f, &fr)
	}
	if err := w.write(fr.encode()); err != nil {
		return err
	}
	return w.strike()
}

// hit lets a fault happen. The frame is the one that it happens to, if any.
func (w *watcher) hit(f *fault, fr *frame) error {
	switch f.usage {
	case "close":
		return errEnd
	case "reset":
		w.reset()
		return errGone
	case "half-open":
		w.fallSilent()
		return errGone
	case "reset inside frame":
		data := fr.encode()
		_ = w.write(data[:len(data)/2])
		w.reset()
		return errGone
	case "410 in stream":
		_ = w.sendError(apierrors.NewResourceExpired("too old resource version: " + formatVersion(w.cursor)))
		return errEnd
	case "error frame":
		_ = w.sendError(apierrors.NewInternalError(errors.New("scripted")))
		return errEnd
	case "error not status":
		_ = w.write(frame{kind: watch.Error, object: w.view.bookmark(w.cursor, false)}.encode())
		return errEnd
	case "frames after error":
		if err := w.sendError(apierrors.NewInternalError(errors.New("scripted"))); err != nil || fr == nil {
			return err
		}
		return w.write(fr.encode())
	case "replay N":
		return w.replay(f.n)
	}
	return w.write(fr.spoil(f.usage))
}

// replay sends the last n changes up to the cursor again.
func (w *watcher) replay(n int) error {
	s := w.server
	s.mu.Lock()
	line := s.store.table(w.view.resource.GroupResource()).line
	line = line[:countUpTo(line, w.cursor)]
	s.mu.Unlock()
	var frames []frame
	for i := len(line) - 1; i >= 0 && len(frames) < n; i-- {
		if kind, object := w.view.event(line[i]); kind != "" {
			frames = append(frames, frame{kind: kind, object: object, rev: line[i].rev})
		}
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if err := w.write(frames[i].encode()); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) sendError(err error) error { return w.write(encode(watch.Error, statusOf(err))) }

func (w *watcher) write(data []byte) error {
	if _, err := w.w.Write(data); err != nil {
		return errGone
	}
	w.flush()
	w.frames++
	return nil
}
