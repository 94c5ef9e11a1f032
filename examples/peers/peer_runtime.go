package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// controllerRuntime passes a RESTMapper to the cache, so that the cache makes no discovery requests.
func controllerRuntime(l *lap) error {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kind.GroupVersion()})
	mapper.Add(kind, meta.RESTScopeNamespace)
	c, err := cache.New(l.config(), cache.Options{Scheme: runtime.NewScheme(), Mapper: mapper})
	if err != nil {
		return err
	}
	pod := &unstructured.Unstructured{}
	pod.SetGroupVersionKind(kind)
	informer, err := c.GetInformer(l.ctx, pod, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	start := func() {
		go func() {
			defer close(ended)
			if err := c.Start(l.ctx); err != nil {
				l.fail(err)
			}
		}()
	}
	err = consumeInformer(l, informer, start, func() { <-ended })
	if err == nil {
		return nil
	}
	if cause := context.Cause(l.ctx); cause != nil && cause != context.Canceled {
		return cause
	}
	return err
}
