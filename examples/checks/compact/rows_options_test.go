package compact

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func optionRows() []row {
	return []row{
		{
			why: "DefaultNamespaces: one",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultNamespaces = map[string]cache.Config{"a": {}}
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.find("a/one a/two")
				p.get("a/one", true)
				p.get("b/one", false)
				p.find("unable to list: b because of unknown namespace for the cache", client.InNamespace("b"))
				p.server.put(p.resource, "b/new", "size=1")
				p.put("a/new", "size=1")
				p.find("a/new a/one a/two")
			},
		},
		{
			why: "DefaultNamespaces: several, each with its own selectors",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultNamespaces = map[string]cache.Config{
					"a": {LabelSelector: parse("size=one")},
					"b": {FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "one"), Transform: mark},
					"d": {UnsafeDisableDeepCopy: ptr.To(true)},
				}
			},
			do: func(p *pair) {
				five(p)
				p.server.put(p.resource, "d/five", "size=5")
				p.start()
				p.find("a/one b/three d/five")
				p.get("a/one", true)
				p.get("a/two", false)
				p.get("b/one", false)
				p.get("b/three", true)
				p.get("c/four", false)
				p.get("d/five", true)
				p.find("b/three", client.InNamespace("b"))
				p.server.put(p.resource, "a/one", "size=2") // leaves the selection
				p.await("a/one", "")
				p.find("b/three d/five")
				p.put("a/two", "size=one") // enters it
				p.find("a/two b/three d/five")
			},
		},
		{
			why: "DefaultNamespaces: all, but one with a selector of its own",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultNamespaces = map[string]cache.Config{
					cache.AllNamespaces: {FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "four")},
					"a":                 {LabelSelector: parse("size=two")},
				}
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.find("a/two b/one b/three")
				p.get("a/one", false)
				p.get("a/two", true)
				p.get("b/one", true)
				p.get("c/four", false)
				p.find("b/one b/three", client.InNamespace("b"))
				p.find("b/one", client.MatchingLabels{"size": "one"})
			},
		},
		{
			why:       "DefaultLabelSelector",
			configure: func(_ kind, o *cache.Options) { o.DefaultLabelSelector = parse("size in (one, three)") },
			do: func(p *pair) {
				five(p)
				p.start()
				p.find("a/one b/one b/three")
				p.get("a/two", false)
				p.server.put(p.resource, "b/one", "size=7")
				p.await("b/one", "")
				p.put("a/two", "size=three")
				p.find("a/one a/two b/three")
			},
		},
		{
			why: "DefaultFieldSelector",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.name", "one")
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.find("a/one b/one")
				p.get("a/two", false)
				p.get("b/one", true)
			},
		},
		{
			why: "a field selector of the namespace is a request in that namespace",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", "b")
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.find("b/one b/three")
				p.get("a/one", false)
			},
		},
		{
			why: "ByObject: namespaces, selectors, transform and copies of one type; another has the defaults",
			configure: func(k kind, o *cache.Options) {
				o.DefaultLabelSelector = parse("size!=two")
				o.DefaultTransform = cache.TransformStripManagedFields()
				o.ByObject = map[client.Object]cache.ByObject{k.object(): {
					Namespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: parse("size=three")}},
					Label:      parse("size=two"), Transform: mark, UnsafeDisableDeepCopy: ptr.To(true),
				}}
			},
			do: func(p *pair) {
				five(p)
				p.server.put(secrets, "z/one", "size=1")
				p.server.put(secrets, "z/two", "size=two")
				p.start()
				p.find("a/two b/three")
				p.get("a/two", true)
				p.get("a/one", false)
				p.same("secrets", func(s *side) any {
					s.kind = secretKind
					defer func() { s.kind = p.kind }()
					return []any{s.find(), s.get("z/one"), s.get("z/two")}
				})
			},
		},
		{
			why: "ByObject: a selector of fields for the whole cluster",
			configure: func(k kind, o *cache.Options) {
				o.DefaultNamespaces = map[string]cache.Config{"a": {}}
				o.ByObject = map[client.Object]cache.ByObject{k.object(): {
					Namespaces: map[string]cache.Config{}, // not the default
					Field:      fields.OneTermEqualSelector("metadata.name", "one"),
				}}
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.same("List", func(s *side) any { return s.find() })
				p.get("a/one", true)
				p.get("a/two", false)
			},
		},
		{
			why: "what is not in a namespace is in no namespace's cache",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultNamespaces = map[string]cache.Config{"a": {}, "b": {}}
			},
			do: func(p *pair) {
				p.server.put(namespaces, "a", "size=1")
				p.server.put(namespaces, "b", "size=1")
				p.start()
				p.same("namespaces", func(s *side) any {
					s.kind = namespaceKind
					defer func() { s.kind = p.kind }()
					return []any{s.find(), s.get("a"), s.get("b"), s.get("x/a"), s.get("c")}
				})
			},
		},
		{
			why:       "TransformStripManagedFields",
			configure: func(_ kind, o *cache.Options) { o.DefaultTransform = cache.TransformStripManagedFields() },
			do: func(p *pair) {
				five(p)
				p.start()
				p.find(allFive)
				p.put("a/one", "size=8")
				p.get("a/one", true)
				p.same("managed fields", func(s *side) any { return s.get("a/one").Objects[0].GetManagedFields() })
			},
		},
		{
			why: "a transform gets the type that was asked for, each time",
			configure: func(k kind, o *cache.Options) {
				o.DefaultTransform = func(in any) (any, error) {
					want := fmt.Sprintf("%T", k.object())
					if got := fmt.Sprintf("%T", in); got != want {
						return nil, fmt.Errorf("the transform gets %s, want %s", got, want)
					}
					return mark(in)
				}
			},
			do: func(p *pair) {
				five(p)
				p.both(func(s *side) { s.watch("h") })
				p.start()
				p.find(allFive)
				p.put("a/one", "size=8")
				p.put("a/one", "size=9")
				p.delete("b/one")
				p.called("h", "a/one", "added* updated updated")
				p.called("h", "b/one", "added* deleted")
				p.find("a/one a/two b/three c/four")
			},
		},
		{
			why: "a transform that fails for one object",
			configure: func(_ kind, o *cache.Options) {
				o.DefaultTransform = func(in any) (any, error) {
					if o, err := meta.Accessor(in); err != nil || o.GetName() == "bad" {
						return nil, errors.New("bad")
					}
					return in, nil
				}
			},
			do: func(p *pair) {
				five(p)
				p.start()
				p.find(allFive)
				p.server.put(p.resource, "a/bad", "size=8")
				p.put("a/good", "size=8")
				p.get("a/bad", false)
				p.find("a/good a/one a/two", client.InNamespace("a"))
			},
		},
		{
			why: "a transform that returns another type",
			configure: func(k kind, o *cache.Options) {
				o.DefaultTransform = func(in any) (any, error) {
					from, err := meta.Accessor(in)
					if err != nil {
						return nil, err
					}
					out := &metav1.PartialObjectMetadata{}
					out.Namespace, out.Name, out.UID = from.GetNamespace(), from.GetName(), from.GetUID()
					out.ResourceVersion = from.GetResourceVersion()
					return out, nil
				}
			},
			do: func(p *pair) {
				five(p)
				p.both(func(s *side) { s.watch("h") })
				p.start()
				p.called("h", "a/one", "added*")
				p.same("Get", func(s *side) any { return s.get("a/one") })
			},
		},
		{
			why: "without bookmarks, which streaming lists end with", paged: true,
			configure: func(_ kind, o *cache.Options) { o.DefaultEnableWatchBookmarks = ptr.To(false) },
			do: func(p *pair) {
				five(p)
				p.start()
				p.find(allFive)
				p.put("a/one", "size=8")
			},
		},
	}
}

// mark is a transform that changes an object.
func mark(in any) (any, error) {
	o, err := meta.Accessor(in)
	if err != nil {
		return nil, err
	}
	o.SetAnnotations(map[string]string{"transformed": o.GetLabels()["size"]})
	o.SetManagedFields(nil)
	return in, nil
}
