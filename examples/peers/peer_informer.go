package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/stream"
)

func stockInformer(l *lap) error {
	client, err := dynamic.NewForConfig(l.config())
	if err != nil {
		return err
	}
	return dynamicInformer(l, client)
}

func fastInformer(l *lap) error {
	client, err := stream.NewClient(l.config(), nil)
	if err != nil {
		return err
	}
	return dynamicInformer(l, client)
}

func dynamicInformer(l *lap, client dynamic.Interface) error {
	f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := f.ForResource(pods).Informer()
	return consumeInformer(l, informer, func() { f.Start(l.ctx.Done()) }, f.Shutdown)
}

func metadataInformer(l *lap) error {
	client, err := metadata.NewForConfig(l.config())
	if err != nil {
		return err
	}
	f := metadatainformer.NewSharedInformerFactory(client, 0)
	informer := f.ForResource(pods).Informer()
	return consumeInformer(l, informer, func() { f.Start(l.ctx.Done()) }, f.Shutdown)
}

// eventInformer is the part of an informer that client-go and controller-runtime have in common.
type eventInformer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// consumeInformer counts the events that an informer passes to its handler.
func consumeInformer(l *lap, informer eventInformer, start, shutdown func()) error {
	last := false
	known := 0 // written by the handler before HasSynced, read after it
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { known++ },
		UpdateFunc: func(_, o any) {
			if !last {
				last = l.event(o.(metav1.Object))
			}
		},
		DeleteFunc: func(any) { l.fail(errors.New("the informer reported a deletion, though nothing was deleted")) },
	})
	if err != nil {
		return err
	}
	start()
	defer shutdown()
	defer l.cancel(nil) // runs before shutdown, which waits for it
	if !cache.WaitForCacheSync(l.ctx.Done(), registration.HasSynced) {
		return context.Cause(l.ctx)
	}
	if known != l.Scenario.Objects {
		return fmt.Errorf("the informer reported %d objects, want %d", known, l.Scenario.Objects)
	}
	if err := l.synced(); err != nil {
		return err
	}
	return l.wait()
}
