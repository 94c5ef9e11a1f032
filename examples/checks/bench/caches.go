package main

import (
	"context"
	"log"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
)

const (
	// cacheKinds are the measurements of caches: of pods and of Secrets, which are read as a streamed list or in pages.
	cacheKinds = "pods pods-paged secrets secrets-paged"
	// compacts ends the name of a cache that differs from that of the name before it in its informer only.
	compacts = "-compact"
)

// cachePeers come in pairs: a plain cache and a compact one.
var cachePeers = []peer{
	{"typed", "controller-runtime's cache, typed, protobuf", 0, cacheKinds, caching(asTyped, plainInformer)},
	{"typed" + compacts, "... on NewCompact", 0, cacheKinds, caching(asTyped, informer.NewCompact)},
	{"unstructured", "controller-runtime's cache, unstructured", 0, cacheKinds,
		caching(asUnstructured, plainInformer)},
	{"unstructured" + compacts, "... on NewCompact", 0, cacheKinds, caching(asUnstructured, informer.NewCompact)},
	{"metadata", "controller-runtime's cache, metadata, protobuf", 0, cacheKinds, caching(asMetadata, plainInformer)},
	{"metadata" + compacts, "... on NewCompact", 0, cacheKinds, caching(asMetadata, informer.NewCompact)},
	{"door", "factory.New on NewClient", 0, cacheKinds, cachingFromStream()},
	{"door" + compacts, "... with Compact", 0, cacheKinds, cachingFromStream(informer.Compact())},
}

// isCache reports whether a cache is measured.
func (m measurement) isCache() bool { return slices.Contains(strings.Fields(cacheKinds), m.Kind) }

func (m measurement) paged() bool { return strings.HasSuffix(m.Kind, "-paged") }

// representation makes an empty object and an empty list of a kind.
type representation func(kind string) (client.Object, client.ObjectList)

func asTyped(kind string) (client.Object, client.ObjectList) {
	if kind == secrets.Kind {
		return &corev1.Secret{}, &corev1.SecretList{}
	}
	return &corev1.Pod{}, &corev1.PodList{}
}

func asUnstructured(kind string) (client.Object, client.ObjectList) {
	return ofKind(kind, &unstructured.Unstructured{}, &unstructured.UnstructuredList{})
}

func asMetadata(kind string) (client.Object, client.ObjectList) {
	return ofKind(kind, &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{})
}

func ofKind(kind string, o client.Object, l client.ObjectList) (client.Object, client.ObjectList) {
	o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	l.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	return o, l
}

// newInformer is the hook of controller-runtime.
type newInformer func(cache.ListerWatcher, kruntime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

func plainInformer(lw cache.ListerWatcher, example kruntime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(lw, example, resync, indexers)
}

// caching measures the cache of controller-runtime with a hook.
func caching(as representation, hook newInformer) func(*lap) {
	return func(l *lap) {
		m := cacheLap{lap: l, as: as}
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(l.resource.GroupVersion().WithKind(l.resource.Kind), meta.RESTScopeNamespace)
		o := ctrlcache.Options{Scheme: scheme.Scheme, Mapper: mapper}
		o.NewInformer = func(lw cache.ListerWatcher, example kruntime.Object, resync time.Duration,
			indexers cache.Indexers) cache.SharedIndexInformer {
			m.informer = hook(lw, example, resync, indexers)
			return m.informer
		}
		c, err := ctrlcache.New(l.config(), o)
		check(err)
		example, _ := as(l.resource.Kind)
		some := l.some()
		check(c.IndexField(context.Background(), example, "some", func(o client.Object) []string { return some(o) }))
		m.reader, m.start = c, func() { go func() { check(c.Start(context.Background())) }() }
		m.measure()
	}
}

// cachingFromStream measures an informer of package factory. It has no reader.
func cachingFromStream(of ...informer.Option) func(*lap) {
	return func(l *lap) {
		o := &stream.Options{Requests: stream.Requests{PagedLists: l.of.paged()}}
		f, err := factory.New(ours(nil)(l), 0, o, of...)
		check(err)
		i, some := f.ForResource(l.resource.GroupVersionResource).Informer(), l.some()
		check(i.AddIndexers(cache.Indexers{someIndex: func(o any) ([]string, error) {
			if len(some(o.(metav1.Object))) == 0 {
				return nil, nil
			}
			return []string{someKey}, nil
		}}))
		m := cacheLap{lap: l, informer: i, start: func() { f.Start(nil) }}
		m.measure()
	}
}

const (
	listed = 100 // objects in the index
	// What controller-runtime calls the index of the field "some", and the value "yes" in any namespace.
	someIndex, someKey = "field:some", "__all_namespaces/yes"
)

// some returns the function of an index that has few objects, so that it takes no memory to speak of.
func (l *lap) some() func(metav1.Object) []string {
	prefixes := map[string]bool{}
	for n := range max(1, listed*min(templates, l.of.Load.Objects)/l.of.Load.Objects) {
		prefix, _, _ := strings.Cut(example(l.of.Load.Size, n).GetName(), placeholders[identity])
		prefixes[prefix] = true
	}
	return func(o metav1.Object) []string {
		name := o.GetName() // prefix, identity and, of a Secret, the revision
		if prefixes[name[:strings.LastIndexByte(name, '-')+1]] {
			return []string{"yes"}
		}
		return nil
	}
}

// cacheLap is the measurement of a cache.
type cacheLap struct {
	lap      *lap
	informer cache.SharedIndexInformer
	start    func()
	reader   client.Reader // nil if it has none
	as       representation
	figures  map[string]float64
	events   atomic.Int64
}

// measure makes the measurements of a cache, prints the figures, and ends the process.
func (m *cacheLap) measure() {
	n, objects := float64(m.lap.of.Load.Objects), atomic.Int64{}
	m.figures = map[string]float64{}
	end := m.lap.phase("start")
	handle := func(h cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
		registration, err := m.informer.AddEventHandler(h)
		check(err)
		return registration
	}
	registration := handle(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { objects.Add(1) },
		UpdateFunc: func(any, any) { m.events.Add(1) },
		DeleteFunc: func(any) { log.Fatal("the informer reported a deletion, though nothing was deleted") },
	})
	m.start()
	<-registration.HasSyncedChecker().Done()
	seconds, used := end()
	if got := objects.Load(); got != int64(n) {
		log.Fatalf("the handler knows %d objects, want %.0f", got, n)
	}
	_, peak, _ := usage()
	if m.lap.of.paged() {
		m.figures["cache_paged_start_s"], m.figures["cache_paged_start_cpu_us"] = seconds, used[cpu]/n
		m.figures["cache_paged_peak_mb"] = peak
		m.lap.print(m.figures)
	}
	m.figures["cache_start_s"], m.figures["cache_start_cpu_us"] = seconds, used[cpu]/n
	m.figures["cache_peak_mb"], m.figures["cache_base_mb"] = peak, m.lap.baseMB // of the only phase until now
	time.Sleep(4 * m.lap.of.Window)
	_, _, m.figures["cache_settled_mb"] = usage()
	m.figures["cache_heap_bytes"] = (float64(reachable()) - float64(m.lap.live)) / n
	m.figures["cached_objects"] = n

	end = m.lap.phase("reads")
	m.reads()
	end()
	resp, err := http.Post(m.lap.server+"/start", "", nil)
	check(err)
	resp.Body.Close()
	m.steady("cache_cpu_us_1")
	for range 9 {
		more := handle(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}, UpdateFunc: func(any, any) {}})
		<-more.HasSyncedChecker().Done()
	}
	m.steady("cache_cpu_us_10")
	m.lap.print(m.figures)
}

// steady measures what an event costs at the rate, in two windows, since a large heap may have no collection in one.
// Free memory is given back before, so that its return is not measured.
func (m *cacheLap) steady(figure string) {
	debug.FreeOSMemory()
	end := m.lap.phase(figure)
	before := m.events.Load()
	for began := true; began || m.events.Load() == before; began = false {
		time.Sleep(2 * m.lap.of.Window)
	}
	_, used := end()
	m.figures[figure] = used[cpu] / float64(m.events.Load()-before)
}

// reads measures reads of one object, of those in the index, and of all.
func (m *cacheLap) reads() {
	indexer := m.informer.GetIndexer()
	keys := indexer.ListKeys()
	random := rand.New(rand.NewPCG(1, 1))
	slices.Sort(keys)
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	get := func(i int) {
		o, exists, err := indexer.GetByKey(keys[i])
		must(err == nil && exists && o != nil, "GetByKey", err)
	}
	want := min(listed, len(keys))
	if len(keys) > listed {
		items, err := indexer.ByIndex(someIndex, someKey)
		want = len(items)
		must(want > 0, "ByIndex", err)
	}
	warm := func(f func(int)) func(int) { return func(i int) { f(i % min(10, len(keys))) } }
	m.timed("cache_get_cold", 1, len(keys), get)
	m.timed("cache_get_warm", 1, len(keys)/5, warm(get))
	m.timed("cache_list_100", 1, max(len(keys)/500, 1), func(int) {
		items, err := indexer.ByIndex(someIndex, someKey)
		must(err == nil && len(items) == want, "ByIndex", err)
	})
	m.timed("cache_list_all", 1e3, 3, func(int) { must(len(indexer.List()) == len(keys), "List", nil) })
	if m.reader == nil {
		return
	}
	ctx := context.Background()
	clientGet := func(i int) {
		o, _ := m.as(m.lap.resource.Kind)
		namespace, name, _ := strings.Cut(keys[i], "/")
		check(m.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o))
	}
	m.timed("cache_client_get_cold", 1, len(keys), clientGet)
	m.timed("cache_client_get_warm", 1, len(keys)/5, warm(clientGet))
	list := func(want int, o ...client.ListOption) func(int) {
		return func(int) {
			_, l := m.as(m.lap.resource.Kind)
			err := m.reader.List(ctx, l, o...)
			must(err == nil && meta.LenList(l) == want, "client.List", err)
		}
	}
	m.timed("cache_client_list_100", 1, max(len(keys)/500, 1), list(want, client.MatchingFields{"some": "yes"}))
	m.timed("cache_client_list_all", 1e3, 3, list(len(keys)))
}

// must ends the process if a read is not right.
func must(ok bool, read string, err error) {
	if !ok {
		log.Fatalf("%s returned something else than what is in the cache: %v", read, err)
	}
}

// timed calls f so many times, and notes the median and the 99th percentile, in so many microseconds.
func (m *cacheLap) timed(figure string, unit float64, times int, f func(int)) {
	took := make([]time.Duration, times)
	for i := range took {
		began := time.Now()
		f(i)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	for name, share := range map[string]float64{"_p50": 0.5, "_p99": 0.99} {
		at := took[int(share*float64(times-1)+0.5)]
		m.figures[figure+name] = float64(at) / float64(time.Microsecond) / unit
	}
}

// cacheTables are the tables of the caches: titles and columns.
var cacheTables = [][2]string{
	{"Caches: memory",
		"cache_heap_bytes cache_settled_mb cache_peak_mb cache_paged_peak_mb cache_base_mb cached_objects"},
	{"Caches: Get, in microseconds", "cache_get_warm_p50 cache_get_warm_p99 cache_get_cold_p50 cache_get_cold_p99 " +
		"cache_client_get_warm_p50 cache_client_get_warm_p99 cache_client_get_cold_p50 cache_client_get_cold_p99"},
	{"Caches: List of 100 in microseconds, of all in milliseconds", "cache_list_100_p50 cache_list_100_p99 " +
		"cache_list_all_p50 cache_client_list_100_p50 cache_client_list_100_p99 cache_client_list_all_p50"},
	{"Caches: time to start, and CPU time in microseconds of an object, and of an event at 500/s with 1 or 10 handlers",
		"cache_start_s cache_paged_start_s cache_start_cpu_us cache_paged_start_cpu_us cache_cpu_us_1 cache_cpu_us_10"},
}

// withRatios adds a row after each compact cache, with its figures divided by those of the plain one.
func withRatios(rows []row) (all []row) {
	for _, r := range rows {
		all = append(all, r)
		plain, is := strings.CutSuffix(r["name"].(string), compacts)
		if !is {
			continue
		}
		ratio := row{"name": "... ratio"}
		for f, v := range r {
			if v, ok := v.(float64); ok && strings.HasPrefix(f, "cache_") {
				ratio[f] = v / figure(rows, plain, f)
			}
		}
		all = append(all, ratio)
	}
	return all
}

// cacheTargets are those of the compact caches: the live heap, Get, and the CPU time of each representation.
func cacheTargets() (all []target) {
	for _, of := range []string{"pods-", "secrets-"} {
		heaps := []target{{figure: "typed", bound: 5}, {figure: "unstructured", bound: 10}, {figure: "door", bound: 10}}
		for _, t := range heaps {
			name := of + t.figure
			what := name + ": heap, plain to compact"
			all = append(all, target{what, "cache_heap_bytes", name, name + compacts, t.bound})
		}
		for _, p := range cachePeers {
			name, is := strings.CutSuffix(of+p.Name, compacts)
			if !is {
				continue
			}
			if of == "pods-" {
				all = append(all, target{name + ": Get, p50, us", "cache_get_cold_p50", name + compacts, "", -25})
			}
			for _, c := range []struct{ what, figure string }{
				{"start", "cache_start_cpu_us"}, {"start in pages", "cache_paged_start_cpu_us"},
				{"1 handler", "cache_cpu_us_1"}, {"10 handlers", "cache_cpu_us_10"},
			} {
				what := name + ": CPU, " + c.what + ", compact to plain"
				all = append(all, target{what, c.figure, name + compacts, name, -2})
			}
		}
	}
	return all
}
