package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	serializerstreaming "k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

// frames are the events of a watch, decoded by whoever asks for the next one, or
// before that by workers. It is not for concurrent use.
type frames struct {
	from *decoders
	pipe *pipe
	crew *crew // nil without workers

	dec     *decode.Decoder // while there is something to decode
	events  []watch.Event   // that are decoded
	picker  picker          // nil where every object is to be built
	data    []byte          // that is not
	taken   []byte          // what data is the rest of, if it is to be used again
	frame   decode.Frame    // that data begins with, as far as looked at
	looked  int
	lines   int  // events that were a line each
	ordered int  // events whose metadata were in the usual order, if all were
	passed  bool // something was passed by since next was called
	over    bool // there is nothing more than data
	err     error
}

func newFrames(from *decoders, p *pipe, workers int) *frames {
	f := &frames{from: from, pipe: p}
	if workers > 1 {
		f.crew = newCrew(from, p, workers)
	}
	return f
}

// ready has one when something may have come.
func (f *frames) ready() <-chan struct{} {
	if f.crew != nil {
		return f.crew.ready
	}
	return f.pipe.ready
}

// next returns the next event, if it has come; over says that none will. It returns
// from time to time if all that has come was passed by.
func (f *frames) next() (ev arrival, ok, over bool) {
	for f.passed = false; !f.passed || len(f.data) > 0; {
		if len(f.events) > 0 {
			ev := arrival{Event: f.events[0]}
			f.events[0] = watch.Event{} // nothing keeps what is told
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
			return arrival{Event: ev}, ok, !ok
		case len(f.data) > biggestFrame:
			return arrival{Event: f.end(serializerstreaming.ErrObjectTooLarge)}, true, false
		case !f.take():
			return arrival{}, false, false
		}
	}
	return arrival{}, false, false
}

// take gets what has come since.
func (f *frames) take() bool {
	if f.crew != nil {
		b := f.crew.take()
		if b == nil {
			return false
		}
		f.over, f.err = b.over, b.err
		switch {
		case len(f.data) > 0: // a frame that began before, so that the worker did not know where it was
			f.data = append(f.data, b.data...)
			f.crew.reuse(b.data)
		case b.decoded < len(b.data):
			f.events, f.data = b.events, b.data[b.decoded:]
		default:
			f.events = b.events
			f.crew.reuse(b.data)
		}
		return true
	}
	data, over, err := f.pipe.take(f.taken)
	if len(data) == 0 && !over {
		f.taken = dropPiece(f.taken)
		return false
	}
	f.taken = nil // the pipe has it
	f.over, f.err = over, err
	if len(f.data) > 0 {
		f.data = append(f.data, data...)
		return true
	}
	f.data, f.taken = data, data
	return true
}

// decode decodes the frame that data begins with. It returns false if that is not
// complete.
func (f *frames) decode() (arrival, bool) {
	if f.data = bytes.TrimLeft(f.data, " \t\r\n"); len(f.data) == 0 {
		if f.dec != nil {
			f.from.put(f.dec)
			f.dec = nil
		}
		return arrival{}, false
	}
	if f.dec == nil {
		f.dec = f.from.get()
	}
	if f.looked == 0 {
		if ev, ok := f.pickEvent(); ok {
			return ev, true
		}
		if ev, n, ok := decodeEvent(f.dec, f.data); ok {
			f.data = f.data[n:]
			return arrival{Event: ev}, true
		}
	}
	n := f.frame.End(f.data[f.looked:])
	if n < 0 && isGarbage(f.data) && len(f.data) >= 2*f.looked {
		// That is for client-go to say, and at once (but not for every byte of it).
		if _, err := f.from.fallBack(f.data, errMore); !errors.Is(err, errMore) {
			return arrival{Event: f.end(err)}, true
		}
	}
	if n < 0 {
		f.looked, f.taken = len(f.data), nil
		return arrival{}, false
	}
	n += f.looked
	f.looked = 0
	frame := f.data[:n]
	f.data = f.data[n:]
	if ev, _, ok := decodeEvent(f.dec, frame); ok {
		return arrival{Event: ev}, true
	}
	ev, err := f.from.fallBack(frame, io.EOF)
	if err != nil {
		ev = f.end(err)
	}
	return arrival{Event: ev}, true
}

// errMore is the end of what has come by now.
var errMore = errors.New("there may be more")

func decodeEvent(dec *decode.Decoder, data []byte) (ev watch.Event, n int, ok bool) {
	e, n, err := dec.Event(data)
	if err != nil || n > biggestFrame {
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
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
		f.end(io.EOF)
		return watch.Event{}, false
	}
	return f.end(err), true
}

// undecodable is how client-go reports what it can't read (watch.StreamWatcher).
var undecodable = apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")

// end is the last event: whatever else has come is not to be trusted.
func (f *frames) end(err error) watch.Event {
	f.events, f.data, f.taken, f.looked = nil, nil, nil, 0
	f.over, f.err = true, io.EOF
	f.pipe.stop()
	return watch.Event{Type: watch.Error, Object: undecodable.AsObject(fmt.Errorf("unable to decode an event from the watch stream: %w", err))}
}

// stop lets everybody go who works for the watch.
func (f *frames) stop() {
	f.pipe.stop()
	if f.crew != nil {
		f.crew.stop()
	}
}
