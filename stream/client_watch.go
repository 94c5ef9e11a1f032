package stream

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// client is client-go's dynamic client with other lists and watches.
type client struct {
	dynamic.Interface
	watches dynamic.Interface // what watches
	codecs  *codecs
}

func (c *client) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	all, watches := c.Interface.Resource(r), c.watches.Resource(r)
	return &allNamespaces{resource{all, watches, c.codecs}, all, watches}
}

type allNamespaces struct {
	resource
	all, watches dynamic.NamespaceableResourceInterface
}

func (r *allNamespaces) Namespace(namespace string) dynamic.ResourceInterface {
	return &resource{r.all.Namespace(namespace), r.watches.Namespace(namespace), r.codecs}
}

type resource struct {
	dynamic.ResourceInterface
	watches dynamic.ResourceInterface
	codecs  *codecs
}

// Watch has client-go make the request, and takes the events from where they come.
func (r *resource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	var t tap
	w, err := r.watches.Watch(context.WithValue(ctx, tapKey{}, &t), opts)
	if err != nil || t.pipe == nil {
		return w, err
	}
	from := r.codecs.objects
	wish, _ := ctx.Value(wishKey{}).(*wish)
	if wish != nil && wish.metadata {
		from = r.codecs.metadata
	}
	workers := r.codecs.workers
	if wish != nil && wish.picky {
		workers = 1
	}
	direct := &directWatch{w, newFrames(from, t.pipe, workers)}
	if wish != nil && wish.direct {
		return direct, nil
	}
	return newPlainWatch(direct), nil
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
		ev, ok, over := w.direct.frames.next()
		switch {
		case over:
			return
		case ok:
			select {
			case w.events <- ev.Event:
			case <-w.done:
				return
			}
		default:
			select {
			case <-w.direct.frames.ready():
			case <-w.done:
				return
			}
		}
	}
}
