package stream

import (
	"bytes"
	"context"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerstreaming "k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

// client is client-go's dynamic client with other lists and watches.
type client struct {
	dynamic.Interface
	watches  dynamic.Interface // what watches: it has no timeout
	decoders *decoders
	workers  int
}

func (c *client) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	all, watches := c.Interface.Resource(r), c.watches.Resource(r)
	return &allNamespaces{resource{all, watches, c}, all, watches}
}

type allNamespaces struct {
	resource
	all, watches dynamic.NamespaceableResourceInterface
}

func (r *allNamespaces) Namespace(namespace string) dynamic.ResourceInterface {
	return &resource{r.all.Namespace(namespace), r.watches.Namespace(namespace), r.client}
}

type resource struct {
	dynamic.ResourceInterface
	watches dynamic.ResourceInterface
	client  *client
}

// Watch has client-go make the request, and takes the events from where they come.
func (r *resource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	ctx, c := r.client.calling(ctx, true)
	w, err := r.watches.Watch(ctx, opts)
	if err != nil || c.pipe == nil {
		return w, err
	}
	workers := r.client.workers
	if c.wish != nil && c.picky {
		workers = 1
	}
	direct := &directWatch{w, newFrames(c.from, c.pipe, workers)}
	if c.wish != nil {
		return direct, nil
	}
	return newPlainWatch(direct), nil
}

// watchBody is what client-go reads of a watch: nothing. Its goroutine fills the pipe
// instead.
type watchBody struct {
	io.ReadCloser
	pipe *pipe
}

func (b *watchBody) Read([]byte) (int, error) {
	b.pipe.fill(b.ReadCloser)
	return 0, io.EOF
}

// directWatch is a watch whose events are in frames. Its ResultChan tells no more
// than that it has ended.
type directWatch struct {
	watch.Interface // client-go's
	frames          *frames
}

func (w *directWatch) Stop() {
	w.Interface.Stop()
	w.frames.stop()
}

// decodedAhead is how many events a watch decodes before they are received.
const decodedAhead = 16

// plainWatch is a watch like any other.
type plainWatch struct {
	direct *directWatch
	events chan watch.Event
	stop   sync.Once
	done   chan struct{}
}

func newPlainWatch(direct *directWatch) *plainWatch {
	w := &plainWatch{direct: direct, events: make(chan watch.Event, decodedAhead), done: make(chan struct{})}
	go w.receive()
	return w
}

func (w *plainWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *plainWatch) Stop() {
	w.stop.Do(func() {
		close(w.done)
		w.direct.Stop()
	})
}

func (w *plainWatch) receive() {
	defer func() {
		w.Stop()
		for range w.direct.ResultChan() { // until client-go's goroutine has ended
		}
		close(w.events)
	}()
	for {
		var out chan<- watch.Event
		ev, ok, over := w.direct.frames.next()
		if over {
			return
		}
		ready := w.direct.frames.ready()
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

// decoders lends Decoders: a watch that is silent has none.
type decoders struct {
	pool        sync.Pool
	dropManaged bool
	stock       runtime.SerializerInfo // client-go's for JSON
}

func newDecoders(dropManaged bool, c *rest.Config) *decoders {
	d := &decoders{dropManaged: dropManaged, stock: c.NegotiatedSerializer.SupportedMediaTypes()[0]}
	d.pool.New = func() any { return decode.New(dropManaged) }
	return d
}

func (d *decoders) get() *decode.Decoder  { return d.pool.Get().(*decode.Decoder) }
func (d *decoders) put(x *decode.Decoder) { d.pool.Put(x) }

// fallBack has client-go decode the first frame of data, after which then comes. What
// a Decoder does not take, client-go's own gets: then it is its result that counts, and
// its error.
func (d *decoders) fallBack(data []byte, then error) (watch.Event, error) {
	body := io.NopCloser(io.MultiReader(bytes.NewReader(data), failing{then}))
	s := d.stock.StreamSerializer
	events := serializerstreaming.NewDecoder(s.Framer.NewFrameReader(body), s.Serializer)
	t, o, err := restwatch.NewDecoder(events, d.stock.Serializer).Decode()
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
