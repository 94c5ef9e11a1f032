// Package source is a dynamic client over the list and watch functions of a test, and the way back to its types.
package source

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/features"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

type (
	Lister interface {
		List(metav1.ListOptions) (runtime.Object, error)
	}
	Watcher interface {
		Watch(metav1.ListOptions) (watch.Interface, error)
	}
)

// Stream returns a Stream of what l and w return. Without l its lists are forbidden. If l says that it is a fake, so
// does the client. It lists where client-go would, and where the source is client-go's FakeControllerSource, which
// refuses a watch without a version.
func Stream(l Lister, w Watcher) *stream.Stream {
	var c dynamic.Interface = client{list: l, watch: w}
	if f, ok := l.(interface{ IsWatchListSemanticsUnSupported() bool }); ok && f.IsWatchListSemanticsUnSupported() {
		c = fake{client{list: l, watch: w}}
	}
	_, old := l.(interface{ ResetWatch() })
	s, err := stream.New(c, gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "tests"}, Kind: "Test",
	}, &stream.Options{Requests: stream.Requests{
		PagedLists: old || !features.FeatureGates().Enabled(features.WatchListClient),
	}})
	if err != nil {
		panic(err)
	}
	return s
}

type client struct {
	dynamic.NamespaceableResourceInterface // for the methods that nobody calls
	list                                   Lister
	watch                                  Watcher
}

type fake struct{ client }

func (fake) IsWatchListSemanticsUnSupported() bool { return true }

func (c client) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c
}
func (c client) Namespace(string) dynamic.ResourceInterface { return c }

func (c client) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if c.list == nil {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "tests"}, "", nil)
	}
	var list runtime.Object
	var err error
	done := make(chan struct{})
	go func() { // their functions have no context, and some never return
		defer close(done)
		list, err = c.list.List(o)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion("v1")
	l.SetKind("TestList")
	l.SetResourceVersion(m.GetResourceVersion())
	l.SetContinue(m.GetContinue())
	for _, o := range objects {
		l.Items = append(l.Items, *ToUnstructured(o))
	}
	return l, nil
}

func (c client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	var w watch.Interface
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, err = c.watch.Watch(o)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err != nil || w == nil {
		return nil, err
	}
	return Map(w, func(o runtime.Object) runtime.Object { return ToUnstructured(o) }), nil
}

// Map returns w with other objects. The object of an ERROR stays as it is.
func Map(w watch.Interface, f func(runtime.Object) runtime.Object) watch.Interface {
	events := make(chan watch.Event)
	m := mapped{watch.NewProxyWatcher(events), w}
	go func() {
		defer close(events)
		for { // not all of their watches close the channel when they are stopped
			var ev watch.Event
			ok := false
			select {
			case ev, ok = <-w.ResultChan():
			case <-m.StopChan():
			}
			if !ok {
				return
			}
			if ev.Type != watch.Error {
				ev.Object = f(ev.Object)
			}
			select {
			case events <- ev:
			case <-m.StopChan():
				return
			}
		}
	}()
	return m
}

type mapped struct {
	*watch.ProxyWatcher
	of watch.Interface
}

func (m mapped) Stop() {
	m.ProxyWatcher.Stop()
	m.of.Stop()
}

// ToUnstructured returns what a server would send of an object of a test.
func ToUnstructured(o runtime.Object) *unstructured.Unstructured {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil { // random fields that no JSON has
		m, err := meta.Accessor(o)
		if err != nil {
			panic(err)
		}
		content = map[string]any{"metadata": map[string]any{
			"namespace": m.GetNamespace(), "name": m.GetName(), "resourceVersion": m.GetResourceVersion(),
		}}
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("v1")
	u.SetKind("Test")
	return u
}

// FromUnstructured returns an object of the type that like has.
func FromUnstructured(u *unstructured.Unstructured, like any) runtime.Object {
	if _, ok := like.(*unstructured.Unstructured); ok {
		return u
	}
	content := u.DeepCopy().Object
	delete(content, "apiVersion")
	delete(content, "kind")
	o := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, o); err != nil {
		panic(err)
	}
	return o
}
