package compact

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// watch adds a handler to the informer of the row's kind.
func (s *side) watch(name string) toolscache.ResourceEventHandlerRegistration {
	s.t.Helper()
	r, err := s.informer().AddEventHandler(s.handler(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func eventRows() []row {
	return []row{
		{why: "handlers get what was and what is, in order for each object", do: func(p *pair) {
			five(p)
			p.both(func(s *side) { s.watch("early") })
			p.start()
			p.called("early", "a/one", "added*")
			p.put("a/one", "size=2")
			p.put("a/one", "size=3", "team=x")
			p.delete("a/one")
			p.put("a/one", "size=4")
			p.put("a/new", "size=5")
			p.delete("b/one")
			p.called("early", "a/one", "added* updated updated deleted added")
			p.called("early", "a/new", "added")
			p.called("early", "b/one", "added* deleted")
			for _, name := range []string{"a/two", "b/three", "c/four"} {
				p.called("early", name, "added*")
			}
		}},
		{why: "several handlers, some added late, each with all", do: func(p *pair) {
			five(p)
			p.both(func(s *side) { s.watch("first"); s.watch("second") })
			p.start()
			p.put("a/one", "size=2")
			p.called("first", "a/one", "added* updated")
			p.both(func(s *side) {
				r := s.watch("late")
				s.await("the late handler has synced", r.HasSynced)
			})
			p.called("late", "a/one", "added*")
			p.put("a/one", "size=3")
			p.called("first", "a/one", "added* updated updated")
			p.called("second", "a/one", "added* updated updated")
			p.called("late", "a/one", "added* updated")
			p.called("late", "c/four", "added*")
		}},
		{why: "a handler that is removed is called no more; the others are", do: func(p *pair) {
			five(p)
			removed := map[*side]toolscache.ResourceEventHandlerRegistration{}
			p.both(func(s *side) { removed[s] = s.watch("removed"); s.watch("stays") })
			p.start()
			p.called("removed", "a/one", "added*")
			remove := func(s *side) any { return errorText(s.informer().RemoveEventHandler(removed[s])) }
			p.same("removal", remove)
			p.put("a/one", "size=2")
			p.delete("a/one")
			p.called("stays", "a/one", "added* updated deleted")
			p.called("removed", "a/one", "added*")
			p.same("a second removal", remove)
		}},
		{why: "handlers with options", do: func(p *pair) {
			five(p)
			p.both(func(s *side) {
				_, err := s.informer().AddEventHandlerWithOptions(s.handler("options"), toolscache.HandlerOptions{
					ResyncPeriod: ptr.To(time.Hour),
				})
				if err != nil {
					s.t.Fatal(err)
				}
				if _, err := s.informer().AddEventHandlerWithResyncPeriod(s.handler("period"), time.Hour); err != nil {
					s.t.Fatal(err)
				}
			})
			p.start()
			p.put("a/one", "size=2")
			p.called("options", "a/one", "added* updated")
			p.called("period", "a/one", "added* updated")
		}},
		{
			why: "the handlers of several namespaces' informers",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultNamespaces = map[string]cache.Config{"a": {}, "b": {Transform: mark}}
			},
			do: func(p *pair) {
				five(p)
				registered := map[*side]toolscache.ResourceEventHandlerRegistration{}
				p.both(func(s *side) { registered[s] = s.watch("h") })
				p.start()
				p.both(func(s *side) { s.await("the handler has synced", registered[s].HasSynced) })
				p.put("b/one", "size=2")
				p.put("a/one", "size=2")
				p.called("h", "b/one", "added* updated")
				p.called("h", "a/one", "added* updated")
				p.called("h", "c/four", "")
				p.same("informers", func(s *side) any {
					i := s.informer()
					return []any{i.HasSynced(), i.IsStopped(), errorText(i.RemoveEventHandler(registered[s]))}
				})
				p.both(func(s *side) {
					if _, err := s.informer().AddEventHandlerWithResyncPeriod(s.handler("late"), 0); err != nil {
						s.t.Fatal(err)
					}
				})
				p.called("late", "b/three", "added*")
				p.put("b/three", "size=2")
				p.called("late", "b/three", "added* updated")
				p.called("h", "b/three", "added*")
			},
		},
		{why: "an informer that is removed, and made again", do: func(p *pair) {
			five(p)
			p.both(func(s *side) { s.index(); s.watch("first") })
			p.start()
			p.called("first", "a/one", "added*")
			p.same("removal", func(s *side) any {
				i := s.informer()
				err := s.RemoveInformer(s.ctx, s.object())
				s.await("the informer is stopped", i.IsStopped)
				_, addErr := i.AddEventHandler(s.handler("stopped"))
				return []any{errorText(err), addErr != nil}
			})
			p.server.delete(p.resource, "a/two")
			p.server.put(p.resource, "a/new", "size=7")
			p.find("a/new a/one b/one b/three c/four")
			p.both(func(s *side) { s.watch("second") })
			p.put("a/one", "size=2")
			p.called("second", "a/one", "added* updated")
			p.called("second", "a/new", "added*")
			p.called("first", "a/one", "added*")
			p.same("removal of what does not exist", func(s *side) any {
				return errorText(s.RemoveInformer(s.ctx, secretKind.object()))
			})
		}},
		{why: "an informer by its kind", only: []string{"typed protobuf", "typed JSON"}, do: func(p *pair) {
			five(p)
			p.start()
			p.same("informers", func(s *side) any {
				i, err := s.GetInformerForKind(s.ctx, gvkOf(s.resource))
				if err != nil {
					s.t.Fatal(err)
				}
				unknown := schema.GroupVersionKind{Group: "no", Version: "v1", Kind: "None"}
				_, noErr := s.GetInformerForKind(s.ctx, unknown)
				return []any{i.HasSynced(), i == s.informer(), errorText(noErr)}
			})
			p.find(allFive)
		}},
		{
			why: "a resync calls with the same object as old and new", long: true,
			configure: func(_ kind, o *cache.Options) { o.SyncPeriod = ptr.To(time.Second) },
			do: func(p *pair) {
				five(p)
				p.both(func(s *side) { s.watch("h") })
				p.start()
				p.put("a/one", "size=2")
				p.same("the first resync of each object", func(s *side) any {
					r, found := s.recorders["h"], map[string]call{}
					s.await("a resync of all", func() bool {
						r.mu.Lock()
						defer r.mu.Unlock()
						for name, calls := range r.calls {
							i := slices.IndexFunc(calls, func(c call) bool {
								return c.Type == "updated" &&
									c.Old.GetResourceVersion() == c.New.GetResourceVersion()
							})
							if i >= 0 {
								found[name] = calls[i]
							}
						}
						return len(found) == 5
					})
					return found
				})
			},
		},
		{why: "both caches stop", do: func(p *pair) {
			five(p)
			informers := map[*side]cache.Informer{}
			p.both(func(s *side) { informers[s] = s.informer() })
			stop := p.start()
			p.find(allFive)
			stop()
			p.same("after the end", func(s *side) any {
				_, err := informers[s].AddEventHandler(s.handler("none"))
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				return []any{informers[s].IsStopped(), err != nil, s.get("a/one"), s.WaitForCacheSync(ctx)}
			})
		}},
	}
}
