package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// cacheClient has the cache of controller-runtime, on client-go's informer or, if compact is set, on ours. Every few
// seconds it begins with a new one: client-go's informer may not notice that etcd was restored, and then gets nothing.
//
// What its handlers receive is judged as that of a peer, because both informers have client-go's loop over list and
// watch, which says nothing of a gap. What the caches contain is judged: at each sync it must be exactly what the
// server's answers lead to, by all ways to read it, while this client changes what it reads; and what etcd had at some
// version after the last one, but for typed caches after the fault "empty-object": those take {} for an empty list.
type cacheClient struct{ compact bool }

func (c cacheClient) subject() subject {
	if c.compact {
		return subject{Name: "controller-runtime's cache on the compact informer", ByObject: true}
	}
	return subject{Name: "controller-runtime's cache", ByObject: true}
}

// setLogger directs the log of controller-runtime to that of client-go.
var setLogger = sync.OnceFunc(func() { log.SetLogger(klog.Background()) })

func (c cacheClient) run(ctx context.Context, w *world, rec *recording) error {
	setLogger()
	cfg := withFreshToken(w.config(true))
	known := map[types.UID]report{} // to the handlers of all caches so far
	for run := 1; ctx.Err() == nil; run++ {
		l := &cacheLife{run: run, compact: c.compact, world: w, rec: rec, known: known}
		lifeCtx, cancel := context.WithCancel(ctx)
		stopAtCalm := func() {}
		select {
		case <-rec.calm:
			l.last = true
		default:
			stopAtCalm = cancelAt(cancel, rec.calm, 8*time.Second+rand.N(12*time.Second))
		}
		views, err := l.live(lifeCtx, cfg)
		stopAtCalm()
		cancel()
		if err != nil {
			return err
		}
		if ctx.Err() == nil {
			known = l.allKnown(views)
		}
	}
	return nil
}

// cancelAt calls cancel after a while, or once a channel is closed, until stop is called.
func cancelAt(cancel func(), closed <-chan struct{}, after time.Duration) (stop func()) {
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-closed:
		case <-time.After(after):
		case <-done:
		}
		cancel()
	})
	return func() { close(done); waiting.Wait() }
}

// cacheLife is one cache, from its first list to its end.
type cacheLife struct {
	run     int
	compact bool
	last    bool // it began when nothing was broken any more
	world   *world
	rec     *recording
	known   map[types.UID]report // to the handlers of the cache before
}

// changesInPlace reports whether handlers change what they receive. With a resync, a handler would receive it again.
func (l *cacheLife) changesInPlace() bool { return l.compact && l.run%2 == 0 }

// live returns when ctx has ended, after a last look at what the cache contains.
func (l *cacheLife) live(ctx context.Context, cfg *rest.Config) (views []*cacheView, err error) {
	crds := l.world.definitions.resources()
	var made *cacheView
	o := cache.Options{Scheme: cacheScheme(), Mapper: cacheMapper(crds)}
	o.DefaultWatchErrorHandler = func(_ context.Context, _ *toolscache.Reflector, err error) { l.rec.fail(err) }
	if !l.changesInPlace() {
		resync := 2 * time.Second
		o.SyncPeriod = &resync
	}
	o.NewInformer = func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		made.tape = newTape(lw, rand.N(2) == 0)
		made.informer = toolscache.NewSharedIndexInformer(made.tape, example, resync, indexers)
		if l.compact {
			made.informer = informer.NewCompact(made.tape, example, resync, indexers)
		}
		return made.informer
	}
	caches, err := cache.New(cfg, o)
	if err != nil {
		return nil, err
	}
	for _, what := range cachedOf(crds) {
		made = &cacheView{
			cached: what, life: l, reader: caches, versions: map[string]string{}, reported: map[types.UID]report{},
		}
		if what.as == untyped {
			l.rec.add(report{At: time.Now(), Run: l.run, Kind: gap, Resource: what.info.resource(), Reason: anyReason,
				Acked: true})
		}
		if err := made.prepare(ctx, caches); err != nil {
			return nil, err
		}
		views = append(views, made)
	}
	cacheCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := caches.Start(cacheCtx); err != nil {
			l.rec.fail(err)
		}
	})
	var looking sync.WaitGroup
	for _, v := range views {
		looking.Go(func() { v.run(ctx, caches) })
	}
	looking.Wait()
	stop()
	running.Wait()
	return views, nil
}

// allKnown returns the last report of each object that the handlers know, in this cache or, where it has not synced, in
// the one before.
func (l *cacheLife) allKnown(views []*cacheView) map[types.UID]report {
	all := map[types.UID]report{}
	for uid, r := range l.known {
		all[uid] = r
	}
	for _, v := range views {
		v.mu.Lock()
		for uid, r := range v.reported {
			if all[uid] = r; r.Kind == deleted {
				delete(all, uid)
			}
		}
		v.mu.Unlock()
	}
	return all
}

// cacheView is an informer of a cache.
type cacheView struct {
	cached   // whose methods make objects and lists
	life     *cacheLife
	tape     *tape
	informer toolscache.SharedIndexInformer
	reader   crclient.Reader
	handled  toolscache.ResourceEventHandlerRegistration

	mu       sync.Mutex
	versions map[string]string    // uid and version by key, as the first handler knows it
	reported map[types.UID]report // last report of each object
}

const (
	earlyIndex = "early" // a field index that is added before the informer starts
	lateIndex  = "late"  // one that is added when it has objects
)

// prepare makes the informer.
func (v *cacheView) prepare(ctx context.Context, caches cache.Cache) error {
	if err := caches.IndexField(ctx, v.object(), earlyIndex, indexed); err != nil {
		return fmt.Errorf("%s of %s: %w", v.as, v.info.resource(), err)
	}
	var err error
	if v.handled, err = v.informer.AddEventHandler(&cacheHandler{v, true}); err != nil {
		return err
	}
	if !v.life.changesInPlace() { // what one handler changes, the other would receive
		_, err = v.informer.AddEventHandler(&cacheHandler{v, false})
	}
	return err
}

// run compares what the cache contains with what the server answered, after each list and once a second.
func (v *cacheView) run(ctx context.Context, caches cache.Cache) {
	if !toolscache.WaitForCacheSync(ctx.Done(), v.handled.HasSynced) {
		if !v.life.last {
			return
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), truthTime)
		defer cancel()
		if !toolscache.WaitForCacheSync(late.Done(), v.handled.HasSynced) {
			v.report(nil, "it has not synced, and nothing was broken any more", false)
			return
		}
	}
	if v.as == untyped {
		v.reportSynced()
	}
	if err := caches.IndexField(context.WithoutCancel(ctx), v.object(), lateIndex, indexed); err != nil {
		v.report(nil, err.Error(), false)
		return
	}
	for ctx.Err() == nil {
		v.compare(ctx)
		select {
		case <-v.tape.listed:
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	if v.life.last {
		v.compareLast()
	}
}

// reportSynced reports what the handlers of the cache before knew, and those of this one do not, as deleted.
func (v *cacheView) reportSynced() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid, r := range v.life.known {
		if _, found := v.reported[uid]; found || r.Resource != v.info.resource() {
			continue
		}
		r.At, r.Run, r.Kind, r.Inferred = time.Now(), v.life.run, deleted, true
		v.life.rec.add(r)
		v.reported[uid] = r
	}
	// Its version is not known: that of the informer is what it has read, not what handlers have received.
	v.life.rec.add(report{
		At: time.Now(), Run: v.life.run, Kind: synced, Resource: v.info.resource(), Acked: true,
	})
}

// report reports what the cache has, and what is wrong with it, if anything is.
func (v *cacheView) report(has map[types.UID]string, wrong string, unversioned bool) {
	v.life.rec.add(report{
		At: time.Now(), Run: v.life.run, Kind: contents, Resource: v.info.resource(), Worker: string(v.as), Has: has,
		Wrong: wrong, Unversioned: unversioned, Acked: true,
	})
}
