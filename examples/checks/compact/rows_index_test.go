package compact

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// index makes the indexes "size", of the content, "team", of a label, and "both", with two values an object.
func (s *side) index() {
	s.t.Helper()
	one := func(f func(client.Object) string) client.IndexerFunc {
		return func(o client.Object) []string {
			if f(o) == "" {
				return nil
			}
			return []string{f(o)}
		}
	}
	team := func(o client.Object) string { return o.GetLabels()["team"] }
	err := errors.Join(
		s.IndexField(s.ctx, s.object(), "size", one(s.size)),
		s.IndexField(s.ctx, s.object(), "team", one(team)),
		s.IndexField(s.ctx, s.object(), "both", func(o client.Object) []string { return []string{s.size(o), team(o)} }))
	if err != nil {
		s.t.Fatal(err)
	}
}

func indexRows() []row {
	indexed := func(p *pair) {
		p.find("a/one b/one", client.MatchingFields{"size": "one"})
		p.find("b/one", client.MatchingFields{"size": "one"}, client.InNamespace("b"))
		p.find("", client.MatchingFields{"size": "one"}, client.InNamespace("c"))
		p.find("", client.MatchingFields{"size": "nine"})
		p.find("a/one", client.MatchingFields{"size": "one", "team": "a"})
		p.find("", client.MatchingFields{"size": "one", "team": "c"})
		p.find("a/one", client.MatchingFields{"size": "one", "team": "a", "both": "one"}, client.InNamespace("a"))
		p.find("a/one a/two", client.MatchingFields{"both": "a"})
		p.find("a/two", client.MatchingFields{"both": "two"})
		p.find("a/one", client.MatchingFields{"size": "one"}, client.MatchingLabels{"team": "a"})
		p.find("a/one b/one", client.MatchingFields{"size": "one"}, client.Limit(2))
		p.find("a/one b/one", client.MatchingFields{"size": "one"}, client.UnsafeDisableDeepCopy)
		p.find("Index with name field:none does not exist", client.MatchingFields{"none": "one"})
		p.find("index with name field:zone does not exist", client.MatchingFieldsSelector{
			Selector: fields.ParseSelectorOrDie("size=one,zone=x"),
		})
		p.find("non-exact field matches are not supported by the cache", client.MatchingFieldsSelector{
			Selector: fields.ParseSelectorOrDie("size!=one"),
		})
		p.put("a/one", "size=nine", "team=z")
		p.find("b/one", client.MatchingFields{"size": "one"})
		p.find("a/one", client.MatchingFields{"size": "nine", "team": "z"})
		p.find("a/one", client.MatchingFields{"both": "z"})
		p.delete("b/one")
		p.find("", client.MatchingFields{"size": "one"})
		p.put("b/one", "size=one", "team=b")
		p.find("b/one", client.MatchingFields{"size": "one"})
	}
	several := func(_ kind, o *cache.Options) {
		o.DefaultNamespaces = map[string]cache.Config{"a": {}, "b": {}, "c": {}}
	}
	return []row{
		{why: "field indexes made before the start", do: func(p *pair) {
			five(p)
			p.both((*side).index)
			p.start()
			indexed(p)
		}},
		{why: "field indexes made after the start", do: func(p *pair) {
			five(p)
			p.start()
			p.find(allFive)
			p.both((*side).index)
			indexed(p)
		}},
		{why: "field indexes of several namespaces", configure: several, do: func(p *pair) {
			five(p)
			p.both((*side).index)
			p.start()
			p.find("a/one b/one", client.MatchingFields{"size": "one"})
			p.find("a/one", client.MatchingFields{"size": "one", "team": "a"})
			p.find("b/three", client.MatchingFields{"both": "three"}, client.InNamespace("b"))
			p.put("c/four", "size=one")
			p.find("a/one b/one c/four", client.MatchingFields{"size": "one"})
		}},
		{
			why:       "an index of what a transform has left",
			configure: func(_ kind, o *cache.Options) { o.DefaultTransform = mark },
			do: func(p *pair) {
				five(p)
				p.both(func(s *side) {
					err := s.IndexField(s.ctx, s.object(), "mark", func(o client.Object) []string {
						return []string{o.GetAnnotations()["transformed"]}
					})
					if err != nil {
						s.t.Fatal(err)
					}
				})
				p.start()
				p.find("a/one b/one", client.MatchingFields{"mark": "one"})
				p.put("a/two", "size=one")
				p.find("a/one a/two b/one", client.MatchingFields{"mark": "one"})
			},
		},
		{why: "an index that exists already is refused", do: func(p *pair) {
			five(p)
			p.both((*side).index)
			p.same("again", func(s *side) any {
				return errorText(s.IndexField(s.ctx, s.object(), "size", func(client.Object) []string { return nil }))
			})
			p.start()
			p.find("a/one b/one", client.MatchingFields{"size": "one"})
		}},
		{why: "indexes of client-go, added to the informer, and removed from it by nobody", do: func(p *pair) {
			five(p)
			add := func(s *side) {
				err := s.informer().AddIndexers(toolscache.Indexers{"length": func(o any) ([]string, error) {
					return []string{fmt.Sprint(len(s.size(o.(client.Object))))}, nil
				}})
				if err != nil {
					s.t.Fatal(err)
				}
			}
			p.both(add)
			p.start()
			p.find(allFive)
			byLength := func(s *side) any {
				store := s.informer().(toolscache.SharedIndexInformer).GetIndexer()
				three, err := store.ByIndex("length", "3")
				keys, keysErr := store.IndexKeys("length", "5")
				values := sorted(store.ListIndexFuncValues("length"))
				return []any{byName(three), err, keys, keysErr, values, len(store.GetIndexers())}
			}
			p.same("by length", byLength)
			p.put("a/two", "size=three")
			p.same("by length", byLength)
			p.same("every indexer", func(s *side) any { return s.indexer() })
		}},
	}
}
