package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// secrets is what is reconciled. A program that does not know the resource resolves it with package discovery.
var secrets = gvr.Resource{
	GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"),
	Kind:                 "Secret", Namespaced: true,
	Verbs: []string{"create", "delete", "get", "list", "update", "watch"},
}

// manage runs a manager until ctx ends.
func manage(ctx context.Context, cfg *rest.Config, o options, out io.Writer) error {
	ctrl.SetLogger(klog.Background())
	opts := ctrl.Options{Metrics: server.Options{BindAddress: "0"}}
	if o.with == "compact" {
		opts.Cache.NewInformer = informer.NewCompact
	}
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return err
	}
	r := &reconciler{until: int64(o.until), out: out, newObject: newMetadata}
	if o.whole {
		r.newObject = func() client.Object { return &corev1.Secret{} }
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("secrets-" + o.with)
	switch o.with {
	case "stream":
		src, err := newSource(cfg)
		if err != nil {
			return err
		}
		if err := mgr.Add(manager.RunnableFunc(src.Wait)); err != nil {
			return err
		}
		b.WatchesRawSource(src)
		r.reader = mgr.GetAPIReader()
	case "cache", "compact":
		b.Watches(r.newObject(), &handler.EnqueueRequestForObject{})
		r.reader = mgr.GetClient()
	default:
		return fmt.Errorf("invalid -with %q: must be stream, cache or compact", o.with)
	}
	if !o.read {
		r.reader = nil
	}
	if err := b.Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// A builder's WatchesRawSource waits only for a source that has WaitForSync, too.
var _ source.TypedSyncingSource[reconcile.Request] = (*controller.Source[reconcile.Request])(nil)

// newSource returns a source of the names of all Secrets that change.
func newSource(cfg *rest.Config) (*controller.Source[reconcile.Request], error) {
	c, err := stream.NewClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	s, err := stream.New(c, secrets, &stream.Options{Objects: stream.Metadata})
	if err != nil {
		return nil, err
	}
	return controller.NewSource(s, func(ev stream.Event) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: controller.KeyOf(ev).NamespacedName}}
	}, &controller.SourceOptions{MaxQueued: 1000})
}

// reconciler counts. It prints a report after so many reconciles, and each Secret after that.
type reconciler struct {
	until  int64
	reader client.Reader // nil: reconciles read nothing
	// newObject makes what is read.
	newObject func() client.Object
	out       io.Writer
	count     atomic.Int64
}

// newMetadata makes an object for the metadata of a Secret.
func newMetadata() client.Object {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return o
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.reader != nil {
		if err := r.reader.Get(ctx, req.NamespacedName, r.newObject()); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	switch n := r.count.Add(1); {
	case n == r.until:
		m, err := memoryNow()
		if err != nil {
			return reconcile.Result{}, err
		}
		fmt.Fprintf(r.out, "report: reconciled %d, peak %d, resident %d, heap %d\n", n, m.peak, m.resident, m.heap)
	case n > r.until:
		fmt.Fprintf(r.out, "reconciled %s\n", req)
	}
	return reconcile.Result{}, nil
}

// memory is what this process takes, in bytes.
type memory struct {
	peak, resident uint64 // VmHWM and VmRSS, before the collection that finds heap
	heap           uint64 // live
}

func memoryNow() (memory, error) {
	self, err := procfs.Self()
	if err != nil {
		return memory{}, err
	}
	status, err := self.NewStatus()
	if err != nil {
		return memory{}, err
	}
	runtime.GC()
	time.Sleep(10 * time.Millisecond) // the sweep
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{status.VmHWM, status.VmRSS, stats.HeapAlloc}, nil
}
