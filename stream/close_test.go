package stream_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// slowBody is silent until it is closed, and takes a while to notice that.
type slowBody struct {
	closed chan struct{}
	reads  *atomic.Int32 // under way
}

func (b slowBody) Read([]byte) (int, error) {
	b.reads.Add(1)
	defer b.reads.Add(-1)
	<-b.closed
	time.Sleep(200 * time.Millisecond)
	return 0, io.EOF
}

func (b slowBody) Close() error {
	close(b.closed)
	return nil
}

// The goroutine that reads a watch has ended when the loop has.
func TestLoopWaitsForReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		client := variants()[0].client(t, transportFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("watch") {
				return respond(200, slowBody{make(chan struct{}), &reads})
			}
			return list("5", "")(r)
		}))
		leaveAtSynced(t, newStream(t, client, nil))
		if n := reads.Load(); n != 0 {
			t.Errorf("%d goroutines still read a watch after the loop", n)
		}
	})
}

// The watch ends with its context, and not with Stop.
func TestWatchEndingWithContextDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, contextClient{}, nil)
		if took := leaveAtSynced(t, s); took > 0 {
			t.Errorf("the loop took %v to end", took)
		}
	})
}

// leaveAtSynced leaves the loop at SYNCED, once the watch is silent, and returns how long that took.
func leaveAtSynced(t *testing.T, s *running) time.Duration {
	t.Helper()
	var left time.Time
	for ev, err := range s.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == stream.Synced {
			synctest.Wait()
			left = time.Now()
			break
		}
	}
	return time.Since(left)
}

// contextClient has no objects. Its watches ignore Stop.
type contextClient struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
}

func (c contextClient) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c
}

func (c contextClient) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	l := &unstructured.UnstructuredList{Object: map[string]any{"kind": "WidgetList", "apiVersion": "example.com/v1"}}
	l.SetResourceVersion("5")
	return l, nil
}

func (c contextClient) Watch(ctx context.Context, _ metav1.ListOptions) (apiwatch.Interface, error) {
	w := contextWatch{make(chan apiwatch.Event)}
	context.AfterFunc(ctx, func() { close(w.events) })
	return w, nil
}

type contextWatch struct{ events chan apiwatch.Event }

func (w contextWatch) ResultChan() <-chan apiwatch.Event { return w.events }

func (w contextWatch) Stop() {}

// A body may cancel the context and leave the loop, at any event: then the sequence ends without a further value, with
// which a range loop would panic.
func TestBodyCancelsAndLeaves(t *testing.T) {
	for _, options := range []setup{
		{}, {Run: stream.Run{Bookmarks: true}}, {Options: stream.Options{Namespaces: []string{"a", "b"}}},
		{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}},
	} {
		for n := 1; ; n++ {
			ended := false
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "a", "first")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				o, seen := options, 0
				for ev := range streamOf(t, srv.Client(), widgets(), &o).Events(ctx) {
					if seen++; seen == n {
						ended = ctx.Err() != nil // the minute is over
						cancel()
						break
					}
					if ev.Type == stream.Synced {
						srv.Put(widgets(), "a", "first", "spec.colour=red")
						srv.Put(widgets(), "b", "second")
						_, err := srv.Delete(widgets(), "a", "first")
						noError(t, err)
					}
				}
			})
			if ended {
				break
			}
		}
	}
}

// A transport that a WrapTransport returns need not end a Read when the context ends.
func TestCancelEndsTheLoopWithAnyTransport(t *testing.T) {
	serve := func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Has("watch") {
			body, _ := io.Pipe()
			return respond(200, body)
		}
		return list("5", "")(r)
	}
	for name, cfg := range map[string]*rest.Config{
		"Transport": {Transport: transportFunc(serve)},
		"WrapTransport": {
			WrapTransport: func(http.RoundTripper) http.RoundTripper { return transportFunc(serve) },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg.Host = "http://server.test"
			client, err := stream.NewClient(cfg, nil)
			noError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			for range newStream(t, client,
				&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}).Events(ctx) {
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: the loop ended after %v", name, took)
			}
		})
	}
}
