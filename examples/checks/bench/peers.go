package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

// peer is one way to watch.
type peer struct {
	Name, What string
	thousands  int    // of events, so that a run takes seconds; zero for none
	kinds      string // of measurements, besides that of events
	run        func(*lap)
}

var peers = slices.Concat(cachePeers, []peer{
	{"bytes", "the bytes of a watch, not decoded", 2000, "", readingBytes},
	{"dynamic", "client-go's dynamic Watch", 40, "11k gogc400 live64 latency1000 latency4000 devserver",
		watching(stock)},
	{"retrywatcher", "client-go's RetryWatcher on it", 40, "", retrying},
	{"dynamicinformer", "client-go's dynamicinformer", 40, "latency1000 latency4000 heap", informing(stock)},
	{"controller-runtime", "controller-runtime's unstructured cache", 40, "", controllerRuntime},
	{"metadata-informer", "client-go's metadatainformer, protobuf", 400, "devserver", metadataInformer},
	{"dynamic-on-ours", "dynamic Watch on NewClient", 200, "", watching(ours(nil))},
	{"informer-on-ours", "dynamicinformer on NewClient", 200, "", informing(ours(nil))},
	{"ours-stock", "Stream on client-go's dynamic client", 40, "", streaming(stock)},
	{"ours", "Stream on NewClient", 300, "11k gogc400 live64 latency1000 latency4000 heap devserver",
		streaming(ours(nil))},
	{"ours-nomanaged", "Stream, DropManagedFields", 300, "", streaming(ours(noManaged))},
	{"ours-raw", "Stream, raw objects", 1000, "11k devserver", streaming(ours(nil), raw)},
	{"ours-metadata", "Stream, metadata", 1000, "devserver", streaming(ours(nil), metadataOnly)},
	{"ours-select10", "Stream, Select passes 10 %", 1000, "devserver", streaming(ours(nil), selecting(canaryEvery))},
	{"ours-select0", "Stream, Select passes none", 2000, "", streaming(ours(nil), selecting(0))},
	{"ours-mux8", "Mux of eight Streams, one for each namespace", 300, "", mux8()},
	{"ours-mux8-raw", "Mux of eight, raw objects", 1000, "", mux8(raw)},
	{"ours-mux8-metadata", "Mux of eight, metadata", 1000, "", mux8(metadataOnly)},
	{"ours-mux8-select10", "Mux of eight, Select passes 10 %", 1000, "", mux8(selecting(canaryEvery))},
	{"ours-informer", "factory.New on NewClient", 200, "latency1000 latency4000 heap", informingFromStream},
	{"relay", "Relay, raw objects, JetStream in the process with file storage", 100, "latency1000", relaying},
	{"ours-checkpoint", "Stream, checkpoint in a file, each event acked", 200, "", checkpointed},

	{"dynamic-list", "client-go's dynamic List, whole", 0, "snapshot", listing(0)},
	{"dynamic-pages", "client-go's dynamic List, pages of 500", 0, "snapshot", listing(500)},
	{"informer-snapshot", "client-go's dynamicinformer", 0, "snapshot", informing(stock)},
	{"ours-watchlist", "Stream on NewClient, streaming list", 0, "snapshot", streaming(ours(nil))},
	{"ours-pages", "Stream on NewClient, pages of 500", 0, "snapshot", streaming(ours(nil), paged)},
	{"ours-store", "Store", 0, "snapshot heap", storing(&store.Options{})},
	{"ours-store-compressed", "Store, Compress", 0, "snapshot heap", storing(&store.Options{Compress: true})},

	{"create", "creates the objects of the embedded API server", 0, "", create},
})

var (
	pods      = resource("", "Pod")
	secrets   = resource("", "Secret")
	podLikes  = resource("bench.example.com", "PodLike") // on the embedded API server, which has no pods
	noManaged = &stream.ClientOptions{DropManagedFields: true}
)

func resource(group, kind string) gvr.Resource {
	of, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	return gvr.Resource{GroupVersionResource: of, Kind: kind, Namespaced: true, Verbs: []string{"list", "watch"}}
}

// newClient makes the dynamic client of a peer.
type newClient func(*lap) dynamic.Interface

func stock(l *lap) dynamic.Interface {
	c, err := dynamic.NewForConfig(l.config())
	check(err)
	return c
}

func ours(o *stream.ClientOptions) newClient {
	return func(l *lap) dynamic.Interface {
		c, err := stream.NewClient(l.config(), o)
		check(err)
		return c
	}
}

// watching is a plain watch. It reads existing objects only if their snapshot is measured.
func watching(client newClient) func(*lap) {
	return func(l *lap) {
		o := metav1.ListOptions{AllowWatchBookmarks: true, ResourceVersion: strconv.Itoa(firstVersion)}
		if l.of.snapshot() {
			o.ResourceVersion, o.SendInitialEvents = "", new(true)
			o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		}
		w, err := client(l).Resource(l.resource.GroupVersionResource).Watch(context.Background(), o)
		check(err)
		l.read(w)
	}
}

// readingBytes only counts the line ends, to show what is left to a peer besides the server and the network.
func readingBytes(l *lap) {
	client, err := rest.HTTPClientFor(l.config())
	check(err)
	resp, err := client.Get(fmt.Sprintf("%s/api/v1/pods?watch=true&resourceVersion=%d", l.server, firstVersion))
	check(err)
	l.mixed = true
	l.synced(l.of.Load.Objects)
	for buf := make([]byte, batch); l.n <= l.of.Load.Events; { // a bookmark follows
		n, err := resp.Body.Read(buf)
		check(err)
		l.n += bytes.Count(buf[:n], []byte("\n"))
	}
	l.n--
	l.finish()
}

func retrying(l *lap) {
	client := stock(l)
	version := strconv.Itoa(firstVersion)
	w, err := watchtools.NewRetryWatcherWithContext(context.Background(), version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(l.resource.GroupVersionResource).Watch(ctx, o)
		},
	})
	check(err)
	l.read(w)
}

// read counts the events of a watch.
func (l *lap) read(w watch.Interface) {
	objects := 0
	if !l.of.snapshot() {
		l.synced(l.of.Load.Objects)
	}
	for ev := range w.ResultChan() {
		switch ev.Type {
		case watch.Added:
			objects++
		case watch.Modified:
			l.event(func() stream.Meta { return ev.Object.(metav1.Object) })
		case watch.Bookmark:
			l.synced(objects)
		default:
			log.Fatalf("an event of type %s: %v", ev.Type, apierrors.FromObject(ev.Object))
		}
	}
}

// listing reads all objects, in pages if limit is not zero. It drops each page before it requests the next.
func listing(limit int64) func(*lap) {
	return func(l *lap) {
		client, n := stock(l).Resource(l.resource.GroupVersionResource), 0
		for o := (metav1.ListOptions{Limit: limit}); n == 0 || o.Continue != ""; {
			list, err := client.List(context.Background(), o)
			check(err)
			n += len(list.Items)
			o.Continue = list.GetContinue()
		}
		l.synced(n)
	}
}

// handle counts the events that an informer passes to its handler.
func (l *lap) handle(start func(), informer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}) {
	objects := 0
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { objects++ },
		UpdateFunc: func(_, o any) { l.event(func() stream.Meta { return o.(metav1.Object) }) },
		DeleteFunc: func(any) { log.Fatal("the informer reported a deletion, though nothing was deleted") },
	})
	check(err)
	start()
	cache.WaitForCacheSync(nil, registration.HasSynced)
	l.synced(objects)
	select {} // the last event ends the process
}

func informing(client newClient) func(*lap) {
	return func(l *lap) {
		f := dynamicinformer.NewDynamicSharedInformerFactory(client(l), 0)
		informer := f.ForResource(l.resource.GroupVersionResource).Informer()
		l.handle(func() { f.Start(nil) }, informer)
	}
}

// informingFromStream is informing with package factory.
func informingFromStream(l *lap) {
	f, err := factory.New(ours(nil)(l), 0, nil)
	check(err)
	i := f.ForResource(l.resource.GroupVersionResource).Informer()
	l.handle(func() { f.Start(nil) }, i)
}

func metadataInformer(l *lap) {
	client, err := metadata.NewForConfig(l.config())
	check(err)
	f := metadatainformer.NewSharedInformerFactory(client, 0)
	informer := f.ForResource(l.resource.GroupVersionResource).Informer()
	l.handle(func() { f.Start(nil) }, informer)
}

// controllerRuntime passes a RESTMapper to the cache, so that the cache makes no discovery requests.
func controllerRuntime(l *lap) {
	kind := l.resource.GroupVersion().WithKind(l.resource.Kind)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	c, err := ctrlcache.New(l.config(), ctrlcache.Options{Scheme: runtime.NewScheme(), Mapper: mapper})
	check(err)
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	informer, err := c.GetInformer(context.Background(), o, ctrlcache.BlockUntilSynced(false))
	check(err)
	l.handle(func() { go func() { check(c.Start(context.Background())) }() }, informer)
}

// change adjusts the options of a Stream.
type change func(*lap, *stream.Options)

func paged(_ *lap, o *stream.Options)        { o.Requests.PagedLists = true }
func metadataOnly(_ *lap, o *stream.Options) { o.Objects = stream.Metadata }
func raw(_ *lap, o *stream.Options)          { o.Objects = stream.Raw }

// selecting passes one canary in so many events, or nothing.
func selecting(every int) change {
	return func(l *lap, o *stream.Options) {
		l.every = every
		o.Select = func(m stream.Meta) bool {
			l.selected.Add(1)
			return every > 0 && m.GetLabels()["canary"] == "true"
		}
	}
}

// stream returns a Stream whose server sends a bookmark after the last event.
func (l *lap) stream(client dynamic.Interface, changes []change, namespaces ...string) *stream.Stream {
	l.bookmark = true
	o := &stream.Options{Namespaces: namespaces}
	for _, c := range changes {
		c(l, o)
	}
	s, err := stream.New(client, l.resource, o)
	check(err)
	return s
}

func streaming(client newClient, changes ...change) func(*lap) {
	return func(l *lap) {
		l.consume(l.stream(client(l), changes).With(withBookmarks).Events(context.Background()), 1)
	}
}

// withBookmarks delivers the bookmark after the last event.
var withBookmarks = stream.Run{Bookmarks: true}

// mux8 is a Mux with one Stream for each namespace.
func mux8(changes ...change) func(*lap) {
	return func(l *lap) {
		l.mixed = true
		client := ours(nil)(l)
		var sources []mux.Source
		for i := range namespaces {
			sources = append(sources, l.stream(client, changes, namespaceOf(i)).With(withBookmarks))
		}
		m, err := mux.New(nil, sources...)
		check(err)
		l.consume(m.Events(context.Background()), namespaces)
	}
}

func checkpointed(l *lap) {
	dir, err := os.MkdirTemp("", "checkpoint-") // in a folder that the parent removes
	check(err)
	store, err := file.Open(filepath.Join(dir, "positions.db"))
	check(err)
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "bench"}})
	check(err)
	s := l.stream(ours(nil)(l), nil).With(stream.Run{Checkpoint: tracker, Bookmarks: true})
	l.consume(stream.Acked(s.Events(context.Background())), 1)
}

// storing fills a Store.
func storing(o *store.Options) func(*lap) {
	return func(l *lap) {
		st, err := store.New(l.stream(ours(nil)(l), []change{raw}), o)
		check(err)
		go func() { check(st.Run(context.Background())) }()
		check(st.WaitSynced(context.Background()))
		l.synced(st.Len())
	}
}

// consume counts the events of a sequence. In each source a bookmark follows the last event.
func (l *lap) consume(events iter.Seq2[stream.Event, error], sources int) {
	objects, synced, ended := 0, 0, 0
	for ev, err := range events {
		check(err)
		switch ev.Type {
		case stream.Added:
			objects++
		case stream.Modified:
			l.event(ev.Meta)
		case stream.Synced:
			if synced++; synced == sources {
				l.synced(objects)
			}
		case stream.Bookmark:
			if ended++; ended == sources {
				l.finish()
			}
		default:
			log.Fatalf("unexpected event of type %s", ev.Type)
		}
	}
}
