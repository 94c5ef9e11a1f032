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

// writer creates, changes and deletes objects at random, at a rate, and records these writes.
type writer struct {
	t          *testing.T
	client     dynamic.Interface
	resources  []schema.GroupVersionResource // versions of one resource; at least one is served
	kind       string
	namespaces []string
	prefix     string
	random     *rand.Rand
	cancel     context.CancelFunc
	done       chan struct{}
	journal
}

// journal is what a writer has done.
type journal struct {
	mu     sync.Mutex
	writes []write
	acked  map[string]time.Time // when the server acknowledged a write, by version
	alive  map[string][]string  // names of existing objects, by namespace
	next   int
}

func newWriter(t *testing.T, cfg *rest.Config, crd devserver.CRD, namespaces ...string) *writer {
	w := &writer{t: t, client: dynamic.NewForConfigOrDie(cfg), kind: crd.Kind, namespaces: namespaces,
		prefix: "o", random: rand.New(rand.NewPCG(5, 5)),
		journal: journal{alive: map[string][]string{}, acked: map[string]time.Time{}}}
	versions := crd.Versions
	if len(versions) == 0 {
		versions = []string{"v1"}
	}
	for _, v := range versions {
		gv := schema.GroupVersion{Group: crd.Group, Version: v}
		w.resources = append(w.resources, gv.WithResource(crd.Resource().Resource))
	}
	return w
}

// start writes until stop is called or the test ends.
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

// stop ends the writing. It may be called twice.
func (w *writer) stop() {
	w.cancel()
	<-w.done
}

// await waits for more writes.
func (w *writer) await(more int) {
	w.t.Helper()
	done := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.writes)
	}
	want := done() + more
	if !poll(w.t.Context(), timeout, func() bool { return done() >= want }) {
		w.t.Fatalf("%d of %d writes are missing", want-done(), more)
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

// withServedVersion calls do with each version in turn until the server serves one. It reports whether do succeeded.
func (w *writer) withServedVersion(ns string, do func(dynamic.ResourceInterface, schema.GroupVersion) error) bool {
	served := false
	if poll(context.Background(), timeout, func() bool {
		for _, r := range w.resources {
			err := do(w.client.Resource(r).Namespace(ns), r.GroupVersion())
			switch {
			case err == nil:
				served = true
				return true
			case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), apierrors.IsTooManyRequests(err):
				// This version is not served, or not yet: the server has not done the write.
			default:
				w.t.Errorf("write: %v", err)
				return true
			}
		}
		return false
	}) {
		return served
	}
	w.t.Errorf("write: none of %v is served", w.resources)
	return false
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
		o.SetLabels(map[string]string{"touched": fmt.Sprint(time.Now().UnixNano())}) // every resource has labels
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
	name := o.GetNamespace() + "/" + o.GetName()
	w.writes = append(w.writes, write{kind, string(o.GetUID()), name, o.GetResourceVersion()})
}

// written returns the writes so far.
func (w *writer) written() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]write(nil), w.writes...)
}

// delays returns the times between the acknowledgement and the delivery of the writes since a moment, sorted. A write
// that was delivered before its acknowledgement has a delay of zero.
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
