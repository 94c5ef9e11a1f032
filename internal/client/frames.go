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
	lines   bool    // the last event whose end was searched for was a line: raw events are cut by line ends
	skipped bool    // an event was skipped since next was called
	rest    undecoded
	ending  ending // what follows rest
}

// undecoded is what has been taken from the pipe and is not decoded yet.
type undecoded struct {
	data   []byte
	buffer []byte // ends with data; nil if the pipe must not reuse it
	search search // in data
}

// search is the search for the end of the frame that some data begins with, or some place in it.
type search struct {
	frame frame
	at    int // the data has been searched up to here
}

// ending says whether data is followed by more.
type ending struct {
	over bool
	err  error // why there is no more
}

func newFrames(from *decoders, p *pipe) *frames {
	return &frames{from: from, pipe: p, rest: undecoded{search: search{frame: from.format.newFrame()}}}
}

// next returns the next event if one has arrived (ok), or says that no more will (over). It returns neither if it has
// to wait, or once it has skipped everything that it had taken.
func (f *frames) next() (ev Event, ok, over bool) {
	for f.skipped = false; !f.skipped || len(f.rest.data) > 0; {
		switch ev, ok := f.decode(); {
		case ok && ev.Object == nil && ev.Raw.JSON == nil:
			continue // skipped
		case ok:
			return ev, true, false
		case f.ending.over:
			ev, ok := f.last()
			return Event{Event: ev}, ok, !ok
		case len(f.rest.data) > maxFrame:
			return Event{Event: f.end(serializerstreaming.ErrObjectTooLarge)}, true, false
		case !f.take():
			return Event{}, false, false
		}
	}
	return Event{}, false, false
}

// take takes from the pipe what has arrived since the last call. It returns false if there is nothing to take.
func (f *frames) take() bool {
	data, over, err := f.pipe.take(f.rest.buffer)
	if len(data) == 0 && !over {
		if f.rest.buffer = recyclePiece(f.rest.buffer); len(f.rest.data) == 0 {
			f.rest.data = nil // it was the end of that buffer
		}
		return false
	}
	f.rest.buffer = nil // the pipe has it now
	f.ending = ending{over, err}
	if len(f.rest.data) > 0 {
		f.rest.data = append(f.rest.data, data...)
		return true
	}
	f.rest.data, f.rest.buffer = data, data
	return true
}

// decode decodes the frame that f.rest begins with. It returns false if the frame is not complete.
func (f *frames) decode() (Event, bool) {
	if f.rest.data = f.rest.data[f.from.format.space(f.rest.data):]; len(f.rest.data) == 0 {
		if f.dec != nil {
			f.from.put(f.dec)
			f.dec = nil
		}
		return Event{}, false
	}
	if f.dec == nil {
		f.dec = f.from.get()
	}
	tried := f.rest.search.at == 0
	if tried {
		if ev, n, ok := f.event(f.rest.data); ok {
			f.rest.data = f.rest.data[n:]
			return ev, true
		}
	}
	n := f.rest.search.frame.End(f.rest.data[f.rest.search.at:])
	if n < 0 {
		f.rest.search.at, f.rest.buffer = len(f.rest.data), nil
		return Event{}, false
	}
	frame := f.rest.data[:f.rest.search.at+n]
	f.rest.data, f.rest.search.at = f.rest.data[len(frame):], 0
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
	err := f.ending.err
	if len(f.rest.data) > 0 { // half a frame: its result is client-go's
		var ev watch.Event
		if ev, err = f.from.fallBack(f.rest.data, f.ending.err); err == nil {
			f.rest.data = nil
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
	f.rest.data, f.rest.buffer, f.rest.search.at = nil, nil, 0
	f.ending = ending{true, io.EOF}
	f.pipe.stop()
	err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
	return watch.Event{Type: watch.Error, Object: undecodable.AsObject(err)}
}
