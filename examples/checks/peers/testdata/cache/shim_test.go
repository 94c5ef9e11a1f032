package cache

import (
	"context"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/gvrwatch/gvrwatch/peers/source"
)

// Set by ours_test.go, which may import our package informer: that package imports this one.
var (
	OursInformer      func(ListerWatcher, SharedIndexInformerOptions) SharedIndexInformer
	OursListerWatcher func(ListerWatcher) ListerWatcherWithContext
)

// newSource returns a source whose first list has a version above 0, as an API server's has.
func newSource() *fcache.FakeControllerSource {
	s := fcache.NewFakeControllerSource()
	s.Add(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "before"}})
	s.Delete(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "before"}})
	return s
}

// oursInformer is our informer, with the objects of the tests. What tests look at inside is client-go's informer, which
// ours has inside, too.
type oursInformer struct {
	*sharedIndexInformer
	ours SharedIndexInformer
	like runtime.Object
}

func newOursInformer(lw ListerWatcher, like runtime.Object, resync time.Duration) SharedInformer {
	i := &oursInformer{ours: OursInformer(lw, SharedIndexInformerOptions{ResyncPeriod: resync}), like: like}
	inside := reflect.ValueOf(i.ours).Elem().FieldByName("SharedIndexInformer").Interface()
	i.sharedIndexInformer = inside.(*sharedIndexInformer)
	if err := i.SetTransform(func(o any) (any, error) { return o, nil }); err != nil {
		panic(err)
	}
	return i
}

func (i *oursInformer) Run(stop <-chan struct{})           { i.ours.Run(stop) }
func (i *oursInformer) RunWithContext(ctx context.Context) { i.ours.RunWithContext(ctx) }

func (i *oursInformer) SetTransform(f TransformFunc) error {
	return i.ours.SetTransform(func(o any) (any, error) {
		return f(source.FromUnstructured(o.(*unstructured.Unstructured), i.like))
	})
}

func newOurs(lw ListerWatcher, like runtime.Object, resync time.Duration, h ResourceEventHandler) (Store, Controller) {
	return NewInformer(ours(lw, like), like, resync, h)
}

func newOursTransforming(lw ListerWatcher, like runtime.Object, resync time.Duration, h ResourceEventHandler,
	t TransformFunc) (Store, Controller) {
	return NewTransformingInformer(ours(lw, like), like, resync, h, t)
}

func newOursController(c *Config) Controller {
	other := *c
	other.ListerWatcher = ours(c.ListerWatcher, c.ObjectType)
	return New(&other)
}

// ours returns our ListerWatcher, with objects of the type that like has.
func ours(lw ListerWatcher, like runtime.Object) ListerWatcher {
	return typed{OursListerWatcher(lw), like}
}

type typed struct {
	of   ListerWatcherWithContext
	like runtime.Object
}

func (t typed) List(o metav1.ListOptions) (runtime.Object, error) {
	return t.ListWithContext(context.Background(), o)
}

func (t typed) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return t.WatchWithContext(context.Background(), o)
}

func (t typed) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	got, err := t.of.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	items := got.(*unstructured.UnstructuredList)
	objects := make([]runtime.Object, len(items.Items))
	for i := range items.Items {
		objects[i] = source.FromUnstructured(&items.Items[i], t.like)
	}
	list := &v1.List{}
	list.ResourceVersion = items.GetResourceVersion()
	return list, meta.SetList(list, objects)
}

func (t typed) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := t.of.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return source.Map(w, func(o runtime.Object) runtime.Object {
		return source.FromUnstructured(o.(*unstructured.Unstructured), t.like)
	}), nil
}
