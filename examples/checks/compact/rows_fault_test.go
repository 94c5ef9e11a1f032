package compact

import (
	"context"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gap lets change happen while nobody can watch, and what the server knew before is forgotten: the informers list.
func gap(p *pair, change func()) {
	p.server.t.Helper()
	for _, r := range []string{"configmaps", "widgets"} {
		p.server.do(r+" forbid watch", r+" forbid list", r+" close watches")
	}
	change()
	p.server.do("compact")
	for _, r := range []string{"configmaps", "widgets"} {
		p.server.do(r+" allow watch", r+" allow list")
	}
}

func faultRows() []row {
	return []row{
		{why: "deleted while nobody watched: the last state known", long: true, do: func(p *pair) {
			five(p)
			p.both(func(s *side) { s.watch("h") })
			p.start()
			p.put("a/two", "size=2")
			p.called("h", "a/two", "added* updated")
			gap(p, func() {
				p.server.delete(p.resource, "a/two")
				p.server.put(p.resource, "a/one", "size=3")
				p.server.delete(p.resource, "b/one")
				p.server.put(p.resource, "b/one", "size=4") // another uid
				p.server.put(p.resource, "b/new", "size=5")
			})
			p.await("a/two", "")
			p.called("h", "a/two", "added* updated deleted?")
			p.called("h", "a/one", "added* updated")
			p.called("h", "b/new", "added")
			p.both(func(s *side) {
				s.await("b/one is the new one", func() bool {
					return s.get("b/one").Objects[0].GetLabels()["size"] == "4"
				})
			})
			p.called("h", "b/one", "added* updated")
			p.find("a/one b/new b/one b/three c/four")
		}},
		{
			why: "the handler of watch errors is called, and the cache catches up", long: true,
			configure: func(_ kind, o *cache.Options) {
				o.DefaultWatchErrorHandler = func(ctx context.Context, r *toolscache.Reflector, err error) {
					watchErrors.note(o, err)
				}
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.find(allFive)
				for _, r := range []string{"configmaps", "widgets"} {
					p.server.do(r+" forbid watch", r+" forbid list", r+" close watches")
				}
				p.both(func(s *side) {
					s.await("a watch error", func() bool { return watchErrors.has(s.options) })
				})
				for _, r := range []string{"configmaps", "widgets"} {
					p.server.do(r+" allow watch", r+" allow list")
				}
				p.put("a/one", "size=2")
				p.find(allFive)
			},
		},
		// Not unstructured: controller-runtime 0.25.2 counts their writes as those of the typed kind (writeTargetFor in
		// pkg/client/consistency.go), so that no read waits for them.
		{why: "a client reads what it has written", only: []string{"typed JSON", "typed protobuf"}, do: func(p *pair) {
			five(p)
			p.start()
			p.find(allFive)
			p.same("reads after writes", func(s *side) any {
				c := s.consistentClient()
				if c == nil {
					return nil // this controller-runtime has no such client
				}
				var got []any
				for _, size := range []string{"5", "6", "7"} {
					o := s.object()
					if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "one"}, o); err != nil {
						s.t.Fatal(err)
					}
					o.SetLabels(map[string]string{"size": size})
					o.SetResourceVersion("") // the other side has written, too
					if err := c.Update(s.ctx, o); err != nil {
						s.t.Fatal(err)
					}
					read, l := s.object(), s.list()
					err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "one"}, read)
					listErr := c.List(s.ctx, l, client.MatchingLabels{"size": size})
					got = append(got, errorText(err), read.GetLabels(), errorText(listErr), count(l))
				}
				return got
			})
		}},
	}
}

// consistentClient returns a client that waits in reads for its own writes, or nil before controller-runtime 0.25.
func (s *side) consistentClient() client.Client {
	o := client.Options{Scheme: newScheme(), Cache: &client.CacheOptions{Reader: s.Cache}}
	f := reflect.ValueOf(o.Cache).Elem().FieldByName("EnableReadYourWritesConsistency")
	if !f.IsValid() {
		return nil
	}
	f.Set(reflect.ValueOf(ptr.To(true)))
	config := rest.CopyConfig(s.server.config)
	config.ContentType = "application/json" // what streamtest takes
	c, err := client.New(config, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// errorsOf has the errors that the handlers of caches were called with.
type errorsOf struct {
	mu    sync.Mutex
	found map[*cache.Options][]error
}

var watchErrors = errorsOf{found: map[*cache.Options][]error{}}

func (e *errorsOf) note(o *cache.Options, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found[o] = append(e.found[o], err)
}

func (e *errorsOf) has(o *cache.Options) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.found[o] {
		if apierrors.IsForbidden(err) {
			return true
		}
	}
	return false
}
