package compact

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// five creates the objects that most rows begin with.
func five(p *pair) {
	s := p.server
	for _, name := range []string{"a/one", "a/two", "b/one", "b/three", "c/four"} {
		namespace, short := split(name)
		s.put(p.resource, name, "size="+short, "team="+namespace, "of=five")
	}
}

const allFive = "a/one a/two b/one b/three c/four"

func readRows() []row {
	return []row{
		{why: "Get finds what exists, by namespace and name", do: func(p *pair) {
			five(p)
			p.start()
			p.get("a/one", true)
			p.get("b/one", true)
			p.get("b/three", true)
			p.get("a/three", false)
			p.get("d/one", false)
			p.get("one", false)
		}},
		{why: "List has everything, or a namespace, labels and a limit", do: func(p *pair) {
			five(p)
			p.start()
			p.find(allFive)
			p.find("a/one a/two", client.InNamespace("a"))
			p.find("", client.InNamespace("d"))
			p.find("a/one b/one", client.MatchingLabels{"size": "one"})
			p.find("b/one", client.MatchingLabels{"size": "one"}, client.InNamespace("b"))
			p.find("a/one a/two b/one b/three", client.MatchingLabelsSelector{Selector: parse("team in (a, b)")})
			p.find("a/two b/three c/four", client.MatchingLabelsSelector{Selector: parse("size != one")})
			p.find("", client.MatchingLabelsSelector{Selector: parse("!of")})
			p.find(allFive, client.HasLabels{"of", "size"})
			p.find("c/four", client.InNamespace("c"), client.Limit(5))
			p.find(allFive, client.Limit(5))
			for limit := range int64(6) {
				p.same(fmt.Sprint("the number of objects with limit ", limit), func(s *side) any {
					return len(s.find(client.Limit(limit)).Objects)
				})
			}
			p.find("continue list option is not supported by the cache", client.Continue("x"))
		}},
		{why: "changes, deletions and new objects are seen", do: func(p *pair) {
			five(p)
			p.start()
			p.find(allFive)
			p.put("a/one", "size=9", "team=new")
			p.find("a/one", client.MatchingLabels{"team": "new"})
			p.find("a/two", client.MatchingLabels{"team": "a"})
			p.put("a/new", "size=9", "team=new")
			p.find("a/new a/one a/two", client.InNamespace("a"))
			p.delete("a/new")
			p.delete("c/four")
			p.get("c/four", false)
			p.find("", client.InNamespace("c"))
			p.put("c/four", "size=1")
			p.get("c/four", true)
			p.find(allFive)
		}},
		{why: "an object with a finalizer is marked before it goes", do: func(p *pair) {
			five(p)
			p.start()
			p.put("a/held", "size=1", "finalizer=example.com/hold")
			p.server.delete(p.resource, "a/held")
			p.both(func(s *side) {
				s.await("a/held is marked", func() bool {
					return s.get("a/held").Objects[0].GetDeletionTimestamp() != nil
				})
			})
			p.get("a/held", true)
			p.server.put(p.resource, "a/held", "size=1")
			p.await("a/held", "")
			p.find(allFive)
		}},
		{why: "a thousand objects, more than a dictionary is made of", do: func(p *pair) {
			for i := range 1000 {
				name := fmt.Sprintf("n%d/o%d", i%7, i)
				p.server.put(p.resource, name, fmt.Sprint("size=", i), fmt.Sprint("team=", i%3))
			}
			p.start()
			all := p.same("List of all", func(s *side) any { return s.find() }).(answer)
			if len(all.Objects) != 1000 {
				p.server.t.Fatalf("%d objects", len(all.Objects))
			}
			p.same("List of a third", func(s *side) any { return s.find(client.MatchingLabels{"team": "1"}) })
			for i := range 100 {
				p.get(fmt.Sprintf("n%d/o%d", i%7, i), true)
			}
			p.put("n0/o0", "size=new")
			p.get("n0/o0", true)
		}},
		{why: "what Get and List returned is the caller's", do: func(p *pair) {
			five(p)
			p.start()
			safe(p, false)
		}},
		{
			why:       "what Get and List returned without a copy is the caller's, if the cache is compact",
			configure: func(_ kind, o *cache.Options) { o.DefaultUnsafeDisableDeepCopy = ptr.To(true) },
			do: func(p *pair) {
				five(p)
				p.start()
				p.get("a/one", true)
				p.find(allFive)
				safe(p, true)
			},
		},
		{why: "UnsafeDisableDeepCopy may be an option of the call", do: func(p *pair) {
			five(p)
			p.start()
			p.get("a/one", true, client.UnsafeDisableDeepCopy)
			p.get("a/five", false, client.UnsafeDisableDeepCopy)
			p.find(allFive, client.UnsafeDisableDeepCopy)
			p.find("a/one b/one", client.MatchingLabels{"size": "one"}, client.UnsafeDisableDeepCopy)
		}},
		{
			why:       "a kind that nobody watches is refused, if the options say so",
			configure: func(_ kind, o *cache.Options) { o.ReaderFailOnMissingInformer = true },
			do: func(p *pair) {
				five(p)
				p.start()
				p.get("a/one", false)
				p.both(func(s *side) { s.informer() })
				p.both(func(s *side) { s.await("sync", func() bool { return s.WaitForCacheSync(s.ctx) }) })
				p.get("a/one", true)
			},
		},
		{why: "the informer's own store answers as client-go's does", do: func(p *pair) {
			five(p)
			p.start()
			p.find(allFive)
			p.same("the indexer", func(s *side) any { return s.indexer() })
		}},
	}
}

// safe changes everything that reads return, and compares later reads with what there was. Without a copy only what the
// compact cache returns may be changed.
func safe(p *pair, unsafe bool) {
	p.server.t.Helper()
	before := p.same("Get and List at first", everything)
	p.both(func(s *side) {
		if s.compact || !unsafe {
			for _, o := range everything(s).([]client.Object) {
				damage(o)
			}
		}
		if s.compact {
			for _, o := range s.find(client.UnsafeDisableDeepCopy).Objects {
				damage(o)
			}
			damage(s.get("a/one", client.UnsafeDisableDeepCopy).Objects[0])
		}
	})
	after := p.same("Get and List after what they had returned was changed", everything)
	if !equal(before, after) {
		p.server.t.Fatalf("the plain cache itself was changed:\n%s", difference(before, after))
	}
}

// everything reads all five objects in three ways.
func everything(s *side) any {
	all := s.find().Objects
	for _, o := range s.find().Objects {
		all = append(all, s.get(nameOf(o)).Objects...)
	}
	return append(all, s.find(client.InNamespace("a")).Objects...)
}

// indexer is what a program finds in the informer's store without controller-runtime.
func (s *side) indexer() any {
	i, ok := s.informer().(toolscache.SharedIndexInformer)
	if !ok {
		s.t.Fatalf("the informer is %T", s.informer())
	}
	store := i.GetIndexer()
	one := s.get("a/one").Objects[0]
	got, exists, err := store.Get(one)
	other, otherExists, otherErr := store.GetByKey("a/three")
	in, inErr := store.Index(toolscache.NamespaceIndex, one)
	by, byErr := store.ByIndex(toolscache.NamespaceIndex, "b")
	keys, keysErr := store.IndexKeys(toolscache.NamespaceIndex, "b")
	_, noErr := store.ByIndex("none", "b")
	values := sorted(store.ListIndexFuncValues(toolscache.NamespaceIndex))
	var indexes []string
	for name, f := range store.GetIndexers() {
		v, err := f(one)
		indexes = append(indexes, fmt.Sprint(name, v, err))
	}
	return []any{
		got, exists, err, other, otherExists, otherErr, byName(in), inErr, byName(by), byErr, sorted(keys), keysErr,
		fmt.Sprint(noErr), values, sorted(indexes), sorted(store.ListKeys()), byName(store.List()),
		byName(i.GetStore().List()), i.HasSynced(), i.IsStopped(), i.LastSyncResourceVersion() != "",
		i.GetController().HasSynced(),
	}
}

func parse(s string) labels.Selector {
	selector, err := labels.Parse(s)
	if err != nil {
		panic(err)
	}
	return selector
}
