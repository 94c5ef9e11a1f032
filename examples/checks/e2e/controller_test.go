package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
)

// reconciled has the last version of each object that was reconciled; "gone" after a deletion.
type reconciled struct {
	mu       sync.Mutex
	versions map[string]string
	calls    int
}

func (r *reconciled) note(name, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[name] = version
	r.calls++
}

func (r *reconciled) is(want map[string]string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Equal(want, r.versions)
}

// TestControllerResumesFromItsCheckpoint runs a reconcile loop several times while objects change. Reconciles fail at
// random, and each run ends at a random moment; the next one continues at the checkpoint.
func TestControllerResumesFromItsCheckpoint(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	namespace, path := unique("controller"), filepath.Join(t.TempDir(), "positions.db")
	seen := &reconciled{versions: map[string]string{}}
	run := func(ctx context.Context) error {
		store, err := file.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
			Cluster: checkpoint.Cluster{UID: "e2e"}, Interval: 20 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := newStream(t, c.client, r, &stream.Options{Namespaces: []string{namespace}})
		err = controller.Run(ctx, s.With(stream.Run{Checkpoint: tracker}).Events(ctx), func(
			_ context.Context, k controller.Key, ev stream.Event,
		) (controller.Result, error) {
			switch {
			case rand.IntN(4) == 0:
				return controller.Result{}, errors.New("at random")
			case ev.Type == stream.Deleted:
				seen.note(k.Name, "gone")
			default:
				seen.note(k.Name, ev.ResourceVersion)
			}
			return controller.Result{}, nil
		}, &controller.Options{Workers: 3, MaxPending: 4})
		if err := tracker.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		return err
	}
	want := map[string]string{}
	for i := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		for j := range 8 {
			name := fmt.Sprint("w", (i+j)%6)
			switch version, ok := want[name]; {
			case !ok || version == "gone":
				want[name] = c.create(widgets, namespace, name).GetResourceVersion()
			case rand.IntN(3) == 0:
				c.delete(widgets, namespace, name)
				want[name] = "gone"
			default:
				c.touch(widgets, namespace, name)
				want[name] = c.writes[len(c.writes)-1].rv
			}
		}
		if i == 4 && !poll(t.Context(), timeout, func() bool { return seen.is(want) }) {
			t.Errorf("reconciled (-want +got):\n%s", cmp.Diff(want, seen.versions))
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("run %d: %v", i, err)
		}
	}
	calls := seen.calls
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := run(ctx); err != context.DeadlineExceeded || seen.calls != calls {
		t.Errorf("the last run: %d reconciles of what was handled, error %v", seen.calls-calls, err)
	}
}

// TestManagerWithSource runs a manager of controller-runtime whose controller has no cache.
func TestManagerWithSource(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	namespace := unique("manager")
	c.create(widgets, namespace, "before")
	s := newStream(t, dynamic.NewForConfigOrDie(shared.Config()), r, &stream.Options{
		Namespaces: []string{namespace}, Objects: stream.Metadata,
	})
	src, err := controller.NewSource(s, func(ev stream.Event) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: controller.KeyOf(ev).NamespacedName}}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctrl.SetLogger(klog.Background())
	mgr, err := ctrl.NewManager(shared.Config(), ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var names []string
	err = errors.Join(mgr.Add(manager.RunnableFunc(src.Wait)),
		ctrl.NewControllerManagedBy(mgr).Named(unique("controller")).WatchesRawSource(src).Complete(
			reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, req.Name)
				return reconcile.Result{}, nil
			})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	await := func(want ...string) {
		t.Helper()
		got := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(names)
		}
		if !poll(t.Context(), timeout, func() bool { return len(got()) >= len(want) }) || !slices.Equal(want, got()) {
			t.Errorf("reconciled %q, want %q", got(), want)
		}
	}
	await("before")
	c.create(widgets, namespace, "after")
	await("before", "after")
	c.delete(widgets, namespace, "before")
	await("before", "after", "before")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the manager ended with %v", err)
	}
}
