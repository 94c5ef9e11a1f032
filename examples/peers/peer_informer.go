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

// handled is what an informer has to have for a peer: those of controller-runtime
// have no more.
type eventInformer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// informed counts what an informer tells its handler.
func consumeInformer(l *lap, informer eventInformer, start, shutdown func()) error {
	last := false
	known := 0 // written by the handler before HasSynced, read after it
	told, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { known++ },
		UpdateFunc: func(_, o any) {
			if !last {
				last = l.event(o.(metav1.Object))
			}
		},
		DeleteFunc: func(any) { l.fail(errors.New("a deletion was told, and there was none")) },
	})
	if err != nil {
		return err
	}
	start()
	defer shutdown()
	defer l.cancel(nil) // which comes first: shutdown waits for it
	if !cache.WaitForCacheSync(l.ctx.Done(), told.HasSynced) {
		return context.Cause(l.ctx)
	}
	if known != l.Scenario.Objects {
		return fmt.Errorf("%d objects were told, and there are %d", known, l.Scenario.Objects)
	}
	if err := l.synced(); err != nil {
		return err
	}
	return l.wait()
}
