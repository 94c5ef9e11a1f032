package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/stream"
)

// writer creates, changes and deletes objects at random, so many a second, and
// knows what became of it.
type writer struct {
	t          *testing.T
	client     dynamic.Interface
	resources  []schema.GroupVersionResource // of one storage; one of them is served
	kind       string
	namespaces []string
	prefix     string
	random     *rand.Rand

	mu     sync.Mutex
	writes []write
	acked  map[string]time.Time // when, by version
	alive  map[string][]string  // names, by namespace
	next   int

	cancel context.CancelFunc
	done   chan struct{}
}

func newWriter(t *testing.T, cfg *rest.Config, crd devserver.CRD, namespaces ...string) *writer {
	w := &writer{t: t, client: dynamic.NewForConfigOrDie(cfg), kind: crd.Kind, namespaces: namespaces,
		prefix: "o", random: rand.New(rand.NewPCG(5, 5)), alive: map[string][]string{}, acked: map[string]time.Time{}}
	versions := crd.Versions
	if len(versions) == 0 {
		versions = []string{"v1"}
	}
	for _, v := range versions {
		w.resources = append(w.resources, schema.GroupVersionResource{Group: crd.Group, Version: v, Resource: crd.Resource().Resource})
	}
	return w
}

// start writes until stop, or the end of the test.
func (w *writer) start(perSecond int) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.writeOnce()
			}
		}
	}()
	w.t.Cleanup(w.stop)
}

// stop ends the writing, once.
func (w *writer) stop() {
	w.cancel()
	<-w.done
}

// await waits for so many writes more.
func (w *writer) await(more int) {
	w.t.Helper()
	done := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.writes)
	}
	want, began := done()+more, time.Now()
	for ; done() < want; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > timeout {
			w.t.Fatalf("%d of %d writes have not been made", want-done(), more)
		}
	}
}

// writeOnce makes one write.
func (w *writer) writeOnce() {
	ns := w.namespaces[w.random.IntN(len(w.namespaces))]
	names := w.alive[ns]
	switch n := w.random.IntN(10); {
	case n < 3 && len(names) < 20 || len(names) == 0:
		w.create(ns)
	case n < 8:
		w.touch(ns, names[w.random.IntN(len(names))])
	default:
		w.delete(ns, names[w.random.IntN(len(names))])
	}
}

// withServedVersion calls do with each version until one is served.
func (w *writer) withServedVersion(ns string, do func(dynamic.ResourceInterface, schema.GroupVersion) error) bool {
	deadline := time.Now().Add(timeout)
	for {
		for _, r := range w.resources {
			err := do(w.client.Resource(r).Namespace(ns), r.GroupVersion())
			switch {
			case err == nil:
				return true
			case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), apierrors.IsTooManyRequests(err):
				// Not in this version, or not at the moment: it has not been done.
			default:
				w.t.Errorf("a write failed: %v", err)
				return false
			}
		}
		if time.Now().After(deadline) {
			w.t.Errorf("no version of %v can be written to", w.resources)
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *writer) create(ns string) {
	w.next++
	name := fmt.Sprint(w.prefix, "-", w.next)
	var got *unstructured.Unstructured
	ok := w.withServedVersion(ns, func(c dynamic.ResourceInterface, gv schema.GroupVersion) (err error) {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
		o.SetAPIVersion(gv.String())
		o.SetKind(w.kind)
		o.SetName(name)
		got, err = c.Create(context.Background(), o, metav1.CreateOptions{})
		return err
	})
	if ok {
		w.alive[ns] = append(w.alive[ns], name)
		w.note(stream.Added, got)
	}
}

func (w *writer) touch(ns, name string) {
	var got *unstructured.Unstructured
	if w.withServedVersion(ns, func(c dynamic.ResourceInterface, _ schema.GroupVersion) error {
		o, err := c.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.SetLabels(map[string]string{"touched": fmt.Sprint(time.Now().UnixNano())}) // what any resource has
		got, err = c.Update(context.Background(), o, metav1.UpdateOptions{})
		return err
	}) {
		w.note(stream.Modified, got)
	}
}

func (w *writer) delete(ns, name string) {
	var got *unstructured.Unstructured
	if w.withServedVersion(ns, func(c dynamic.ResourceInterface, _ schema.GroupVersion) (err error) {
		if got, err = c.Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		return c.Delete(context.Background(), name, metav1.DeleteOptions{})
	}) {
		var rest []string
		for _, n := range w.alive[ns] {
			if n != name {
				rest = append(rest, n)
			}
		}
		w.alive[ns] = rest
		got.SetResourceVersion("")
		w.note(stream.Deleted, got)
	}
}

func (w *writer) note(kind stream.Type, o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rv := o.GetResourceVersion(); rv != "" {
		w.acked[rv] = time.Now()
	}
	w.writes = append(w.writes, write{kind, string(o.GetUID()), o.GetNamespace() + "/" + o.GetName(), o.GetResourceVersion()})
}

// written is what has been written so far.
func (w *writer) written() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]write(nil), w.writes...)
}

// delays are between the acknowledgements of writes and when they were told, of
// those since a moment, sorted. What was told before the acknowledgement counts as
// zero.
func (w *writer) delays(since time.Time, events []timedEvent) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for _, ev := range events {
		if at, ok := w.acked[ev.ResourceVersion]; ok && ev.Object != nil && at.After(since) {
			all = append(all, max(0, ev.at.Sub(at)))
		}
	}
	slices.Sort(all)
	return all
}
