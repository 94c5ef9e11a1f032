package client

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	serializerstreaming "k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// plainWatch is a watch.Interface over frames, for callers other than a Stream. As in client-go, one event is decoded
// before it is received.
type plainWatch struct {
	frames *frames
	events chan watch.Event
	stop   sync.Once
	done   chan struct{}
}

func newPlainWatch(f *frames) *plainWatch {
	w := &plainWatch{frames: f, events: make(chan watch.Event), done: make(chan struct{})}
	f.pipe.readAhead()
	go w.receive()
	return w
}

func (w *plainWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *plainWatch) Stop() {
	w.stop.Do(func() {
		close(w.done)
		w.frames.pipe.stop()
	})
}

func (w *plainWatch) receive() {
	defer func() {
		w.Stop()
		<-w.frames.pipe.reading.ahead
		close(w.events)
	}()
	for {
		var out chan<- watch.Event
		ev, ok, over := w.frames.next()
		if over {
			return
		}
		ready := w.frames.pipe.ready
		if ok {
			out, ready = w.events, nil
		}
		select {
		case out <- ev.Event:
		case <-ready:
		case <-w.done:
			return
		}
	}
}

// decoders is a pool of the decoders of a format, so that silent watches need none. A sync.Pool alone would often have
// a new one for a watch that was silent for a moment: after a garbage collection, or on another processor.
type decoders struct {
	kept        chan decoder // at most one
	pool        sync.Pool
	format      format
	dropManaged bool
}

func newDecoders(f format, dropManaged bool) *decoders {
	d := &decoders{kept: make(chan decoder, 1), format: f, dropManaged: dropManaged}
	d.pool.New = func() any { return f.newDecoder() }
	return d
}

func (d *decoders) get() decoder {
	select {
	case x := <-d.kept:
		return x
	default:
		return d.pool.Get().(decoder)
	}
}

func (d *decoders) put(x decoder) {
	select {
	case d.kept <- x:
	default:
		d.pool.Put(x)
	}
}

// fallBack decodes the first frame of data as client-go does, for what a Decoder has declined: the result and the error
// are client-go's, as if reading had returned data and then cause.
func (d *decoders) fallBack(data []byte, cause error) (watch.Event, error) {
	switch {
	case len(data) > maxFrame:
		return watch.Event{}, serializerstreaming.ErrObjectTooLarge
	case d.format.memory(data) > decode.MaxMemory:
		return watch.Event{}, errors.New("the object of an event takes more than 256 MiB of memory")
	}
	body := io.NopCloser(io.MultiReader(bytes.NewReader(data), failing{cause}))
	stock := d.format.stock()
	s := stock.StreamSerializer
	events := serializerstreaming.NewDecoder(s.Framer.NewFrameReader(body), s.Serializer)
	t, o, err := restwatch.NewDecoder(events, stock.Serializer).Decode()
	if err != nil {
		return watch.Event{}, err
	}
	if u, ok := o.(*unstructured.Unstructured); ok && t != watch.Bookmark {
		d.prune(u)
	}
	return watch.Event{Type: t, Object: o}, nil
}

func (d *decoders) prune(u *unstructured.Unstructured) {
	if d.dropManaged {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
