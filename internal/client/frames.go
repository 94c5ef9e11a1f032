package client

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	serializerstreaming "k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

// frames are the events of a watch, which next decodes. It is not for concurrent use.
type frames struct {
	from *decoders
	pipe *pipe

	dec     decoder // nil while there is nothing to decode
	filter  Filter  // nil selects every object
	raw     bool    // objects are wanted as JSON
	skipped bool    // an event was skipped since next was called
	undecoded
	ending // what follows undecoded
}

// undecoded is what has been taken from the pipe and is not decoded yet.
type undecoded struct {
	data   []byte
	buffer []byte // ends with data; nil if the pipe must not reuse it
	scan          // of the frame that data begins with
}

// scan is the search for the end of a frame.
type scan struct {
	frame   frame
	scanned int // data has been searched up to here
}

// ending says whether data is followed by more.
type ending struct {
	over bool
	err  error // why there is no more
}

func newFrames(from *decoders, p *pipe) *frames {
	return &frames{from: from, pipe: p, undecoded: undecoded{scan: scan{frame: from.format.newFrame()}}}
}

// next returns the next event if one has arrived (ok), or says that no more will (over). It returns neither if it has
// to wait, or once it has skipped everything that it had taken.
func (f *frames) next() (ev Event, ok, over bool) {
	for f.skipped = false; !f.skipped || len(f.data) > 0; {
		switch ev, ok := f.decode(); {
		case ok && ev.Object == nil && ev.Raw.JSON == nil:
			continue // skipped
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

// take takes from the pipe what has arrived since the last call. It returns false if there is nothing to take.
func (f *frames) take() bool {
	data, over, err := f.pipe.take(f.buffer)
	if len(data) == 0 && !over {
		if f.buffer = recyclePiece(f.buffer); len(f.data) == 0 {
			f.data = nil // it was the end of that buffer
		}
		return false
	}
	f.buffer = nil // the pipe has it now
	f.over, f.err = over, err
	if len(f.data) > 0 {
		f.data = append(f.data, data...)
		return true
	}
	f.data, f.buffer = data, data
	return true
}

// decode decodes the frame that f.data begins with. It returns false if the frame is not complete.
func (f *frames) decode() (Event, bool) {
	if f.data = f.data[f.from.format.space(f.data):]; len(f.data) == 0 {
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

// event decodes the event that data begins with, as the Filter decides, and returns its length. It returns false if the
// event is not complete, or if client-go has to decode it.
func (f *frames) event(data []byte) (ev Event, n int, ok bool) {
	if f.filter != nil || f.raw {
		if ev, n, ok = f.filtered(data); ok {
			return ev, n, true
		}
	}
	return decodeEvent(f.dec, data)
}

func decodeEvent(dec decoder, data []byte) (ev Event, n int, ok bool) {
	e, n, err := dec.Event(data)
	if err != nil || n > maxFrame {
		return ev, 0, false
	}
	ev.Type, ev.Object = e.Type, &unstructured.Unstructured{Object: e.Object}
	ev.Raw.Version = e.Version
	ev.Memory = e.Memory + int64(n) // the strings take about as much as the JSON
	return ev, n, true
}

// last returns what follows the last complete frame: an event, if client-go can decode one from the rest of the data,
// else an ERROR, or false if the connection only ended or timed out.
func (f *frames) last() (watch.Event, bool) {
	err := f.err
	if len(f.data) > 0 { // half a frame: its result is client-go's
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

// undecodable makes the ERROR of client-go's watch.StreamWatcher for data that can't be decoded.
var undecodable = apierrors.NewClientErrorReporter(
	http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")

// end returns an ERROR as the last event, and drops the rest of the data, which is not to be trusted.
func (f *frames) end(err error) watch.Event {
	f.data, f.buffer, f.scanned = nil, nil, 0
	f.over, f.err = true, io.EOF
	f.pipe.stop()
	err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
	return watch.Event{Type: watch.Error, Object: undecodable.AsObject(err)}
}
