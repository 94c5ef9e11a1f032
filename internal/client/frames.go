package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	serializerstreaming "k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// frames are the events of a watch, decoded by whoever asks for the next one, or
// before that by workers. It is not for concurrent use.
type frames struct {
	from    *decoders
	pipe    *pipe
	workers *workers // nil if there is to be one

	dec     *decode.Decoder // while there is something to decode
	events  []watch.Event   // that are decoded
	filter  Filter          // nil where every object is decoded
	data    []byte          // that is not
	buffer  []byte          // what data is the rest of, if it is to be used again
	skipped bool            // something was skipped since next was called
	scan                    // of the frame that data begins with
	ending                  // there is nothing more than data
}

// scan is how far a frame has been searched for its end.
type scan struct {
	frame   decode.Frame
	scanned int // bytes
}

// ending is the end of what is read.
type ending struct {
	over bool
	err  error
}

func newFrames(from *decoders, p *pipe, workers int) *frames {
	f := &frames{from: from, pipe: p}
	if workers > 1 {
		f.workers = newWorkers(from, p, workers)
	}
	return f
}

// ready has one when something may have come.
func (f *frames) ready() <-chan struct{} {
	if f.workers != nil {
		return f.workers.ready
	}
	return f.pipe.ready
}

// next returns the next event, if it has come; over says that none will. It returns
// from time to time if all that has come was passed by.
func (f *frames) next() (ev Event, ok, over bool) {
	for f.skipped = false; !f.skipped || len(f.data) > 0; {
		if len(f.events) > 0 {
			ev := Event{Event: f.events[0]}
			f.events[0] = watch.Event{} // nothing keeps what is delivered
			f.events = f.events[1:]
			return ev, true, false
		}
		switch ev, ok := f.decode(); {
		case ok && ev.Object == nil:
			continue // it was passed by
		case ok:
			return ev, true, false
		case f.over:
			ev, ok := f.last()
			return Event{Event: ev}, ok, !ok
		case len(f.data) > maxFrame:
			return Event{Event: f.end(serializerstreaming.ErrObjectTooLarge)}, true, false
		case !f.take():
			return Event{}, false, false
		}
	}
	return Event{}, false, false
}

// take gets what has come since.
func (f *frames) take() bool {
	if f.workers != nil {
		return f.takeBatch()
	}
	data, over, err := f.pipe.take(f.buffer)
	if len(data) == 0 && !over {
		f.buffer = recyclePiece(f.buffer)
		return false
	}
	f.buffer = nil // the pipe has it
	f.over, f.err = over, err
	if len(f.data) > 0 {
		f.data = append(f.data, data...)
		return true
	}
	f.data, f.buffer = data, data
	return true
}

func (f *frames) takeBatch() bool {
	b := f.workers.take()
	if b == nil {
		return false
	}
	f.over, f.err = b.over, b.err
	switch {
	case len(f.data) > 0: // a frame that began before, so that the worker did not know where it was
		f.data = append(f.data, b.data...)
		reuse(b.data)
	case b.decoded < len(b.data):
		f.events, f.data = b.events, b.data[b.decoded:]
	default:
		f.events = b.events
		reuse(b.data)
	}
	return true
}

// decode decodes the frame that data begins with. It returns false if that is not
// complete.
func (f *frames) decode() (Event, bool) {
	if f.data = bytes.TrimLeft(f.data, " \t\r\n"); len(f.data) == 0 {
		if f.dec != nil {
			f.from.put(f.dec)
			f.dec = nil
		}
		return Event{}, false
	}
	if f.dec == nil {
		f.dec = f.from.get()
	}
	tried := f.scanned == 0
	if tried {
		if ev, n, ok := f.event(f.data); ok {
			f.data = f.data[n:]
			return ev, true
		}
	}
	n := f.frame.End(f.data[f.scanned:])
	if n < 0 {
		f.scanned, f.buffer = len(f.data), nil
		return Event{}, false
	}
	frame := f.data[:f.scanned+n]
	f.data, f.scanned = f.data[len(frame):], 0
	if !tried {
		if ev, _, ok := f.event(frame); ok {
			return ev, true
		}
	}
	ev, err := f.from.fallBack(frame, io.EOF)
	if err != nil {
		ev = f.end(err)
	}
	return Event{Event: ev}, true
}

// event decodes the event that data begins with, as the Filter says, and returns how
// long it is. It returns false if the event is not all there, or for client-go.
func (f *frames) event(data []byte) (ev Event, n int, ok bool) {
	if f.filter != nil {
		if ev, n, ok = f.filtered(data); ok {
			return ev, n, true
		}
	}
	ev.Event, n, ok = decodeEvent(f.dec, data)
	return ev, n, ok
}

func decodeEvent(dec *decode.Decoder, data []byte) (ev watch.Event, n int, ok bool) {
	e, n, err := dec.Event(data)
	if err != nil || n > maxFrame {
		return ev, 0, false
	}
	return watch.Event{Type: e.Type, Object: &unstructured.Unstructured{Object: e.Object}}, n, true
}

// last returns what there is to say of the end.
func (f *frames) last() (watch.Event, bool) {
	err := f.err
	if len(f.data) > 0 { // what client-go makes of half a frame
		var ev watch.Event
		if ev, err = f.from.fallBack(f.data, f.err); err == nil {
			f.data = nil
			return ev, true
		}
	}
	if err != nil && !utilnet.IsProbableEOF(err) && !utilnet.IsTimeout(err) {
		return f.end(err), true
	}
	f.end(io.EOF)
	return watch.Event{}, false
}

// undecodable is how client-go reports what it can't read (watch.StreamWatcher).
var undecodable = apierrors.NewClientErrorReporter(
	http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")

// end is the last event: whatever else has come is not to be trusted.
func (f *frames) end(err error) watch.Event {
	f.events, f.data, f.buffer, f.scanned = nil, nil, nil, 0
	f.over, f.err = true, io.EOF
	f.pipe.stop()
	err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
	return watch.Event{Type: watch.Error, Object: undecodable.AsObject(err)}
}

// stop lets everybody go who works for the watch.
func (f *frames) stop() {
	f.pipe.stop()
	if f.workers != nil {
		f.workers.stop()
	}
}
