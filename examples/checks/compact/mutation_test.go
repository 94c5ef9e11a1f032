package compact

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// broken is a compact informer with a mistake.
type broken struct {
	toolscache.SharedIndexInformer
	reads     func(read) []any // nil changes nothing
	handler   func(handler) handler
	transform bool // forgets it
	errors    bool // forgets the handler of watch errors
	removal   bool // removes no handler
	indexers  bool // forgets those that are added
}

// read is what an Indexer is asked, and answers.
type read struct {
	toolscache.Indexer
	call string // GetByKey, List, ByIndex
	args string
	got  []any
}

func (b *broken) SetTransform(f toolscache.TransformFunc) error {
	if b.transform {
		f = nil
	}
	return b.SharedIndexInformer.SetTransform(f)
}

func (b *broken) SetWatchErrorHandlerWithContext(h toolscache.WatchErrorHandlerWithContext) error {
	if b.errors {
		h = func(context.Context, *toolscache.Reflector, error) {}
	}
	return b.SharedIndexInformer.SetWatchErrorHandlerWithContext(h)
}

func (b *broken) AddIndexers(added toolscache.Indexers) error {
	if b.indexers {
		for name := range added {
			added[name] = func(any) ([]string, error) { return nil, nil }
		}
	}
	return b.SharedIndexInformer.AddIndexers(added)
}

func (b *broken) AddEventHandler(h handler) (toolscache.ResourceEventHandlerRegistration, error) {
	if b.handler != nil {
		h = b.handler(h)
	}
	return b.SharedIndexInformer.AddEventHandler(h)
}

func (b *broken) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if b.removal {
		return nil
	}
	return b.SharedIndexInformer.RemoveEventHandler(r)
}

func (b *broken) GetIndexer() toolscache.Indexer {
	if b.reads == nil {
		return b.SharedIndexInformer.GetIndexer()
	}
	return &brokenIndexer{b.SharedIndexInformer.GetIndexer(), b.reads}
}

type brokenIndexer struct {
	toolscache.Indexer
	reads func(read) []any
}

func (i *brokenIndexer) GetByKey(key string) (any, bool, error) {
	o, exists, err := i.Indexer.GetByKey(key)
	if err != nil || !exists {
		return o, exists, err
	}
	return i.reads(read{i.Indexer, "GetByKey", key, []any{o}})[0], true, nil
}

func (i *brokenIndexer) List() []any { return i.reads(read{i.Indexer, "List", "", i.Indexer.List()}) }

func (i *brokenIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := i.Indexer.ByIndex(name, value)
	if err != nil {
		return nil, err
	}
	return i.reads(read{i.Indexer, "ByIndex", name + value, found}), nil
}

type handler = toolscache.ResourceEventHandler

// handling returns an informer that changes its handlers.
func handling(change func(handler) handler) func() *broken {
	return func() *broken { return &broken{handler: change} }
}

// sameOld is a handler that gets the new object as the old one.
type sameOld struct{ handler }

func (h sameOld) OnUpdate(_, o any) { h.handler.OnUpdate(o, o) }

// noDeletion is a handler that gets no deletions.
type noDeletion struct{ handler }

func (noDeletion) OnDelete(any) {}

// allInitial is a handler to which all is new.
type allInitial struct{ handler }

func (h allInitial) OnAdd(o any, _ bool) { h.handler.OnAdd(o, true) }

// sharing returns the same pointers each time.
func sharing() func(read) []any {
	var mu sync.Mutex
	given := map[string]any{}
	return func(r read) []any {
		mu.Lock()
		defer mu.Unlock()
		for i, o := range r.got {
			id := string(o.(client.Object).GetUID())
			if given[id] == nil {
				given[id] = o
			}
			r.got[i] = given[id]
		}
		return r.got
	}
}

// TestTableSeesMistakes breaks the compact informer in ways of which a row says that they must not happen.
func TestTableSeesMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the table itself runs")
	}
	const calls = "handlers get what was and what is, in order for each object"
	for _, m := range []struct {
		why   string
		row   string // that must see it
		wrong func() *broken
	}{
		{"a label is lost", "Get finds what exists, by namespace and name", func() *broken {
			return &broken{reads: func(r read) []any {
				for _, o := range r.got {
					delete(o.(client.Object).GetLabels(), "of")
				}
				return r.got
			}}
		}},
		{"an object of another namespace", "List has everything, or a namespace, labels and a limit", func() *broken {
			return &broken{reads: func(r read) []any {
				if r.call == "ByIndex" {
					return r.List()
				}
				return r.got
			}}
		}},
		{"List lacks an object", "field indexes of several namespaces", func() *broken {
			return &broken{reads: func(r read) []any {
				if r.call == "GetByKey" {
					return r.got
				}
				return r.got[min(1, len(r.got)):]
			}}
		}},
		{"a pointer is shared", "what Get and List returned without a copy is the caller's, if the cache is compact",
			func() *broken { return &broken{reads: sharing()} }},
		{"a pointer is shared, and Get returns what there was",
			"changes, deletions and new objects are seen", func() *broken { return &broken{reads: sharing()} }},
		{"the transform is forgotten", "TransformStripManagedFields",
			func() *broken { return &broken{transform: true} }},
		{"the transform is forgotten",
			"ByObject: namespaces, selectors, transform and copies of one type; another has the defaults",
			func() *broken { return &broken{transform: true} }},
		{"indexers are forgotten", "field indexes made after the start",
			func() *broken { return &broken{indexers: true} }},
		{"old is new", calls, handling(func(h handler) handler { return sameOld{h} })},
		{"no deletions", calls, handling(func(h handler) handler { return noDeletion{h} })},
		{"all is initial", calls, handling(func(h handler) handler { return allInitial{h} })},
		{"handlers stay", "a handler that is removed is called no more; the others are", func() *broken {
			return &broken{removal: true}
		}},
		{"watch errors are dropped", "the handler of watch errors is called, and the cache catches up", func() *broken {
			return &broken{errors: true}
		}},
	} {
		t.Run(m.why+"/"+m.row, func(t *testing.T) {
			t.Parallel()
			all := rows()
			n := slices.IndexFunc(all, func(r row) bool { return r.why == m.row })
			if n < 0 {
				t.Fatal("there is no such row")
			}
			second := func(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers,
			) toolscache.SharedIndexInformer {
				b := m.wrong()
				b.SharedIndexInformer = informer.NewCompact(lw, o, resync, by)
				return b
			}
			p := newPair(t, newServer(t), kinds()[1], second, all[n].configure)
			p.sides[1].timeout = 2 * time.Second
			p.run(all[n].do)
			if len(p.differences) == 0 {
				t.Error("no difference")
			}
		})
	}
}
