package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// informer has the event handlers of a dynamic informer for each resource.
type informer struct{}

func (informer) subject() subject { return subject{Name: "dynamicinformer", ByObject: true} }

func (informer) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(true), true)
	if err != nil {
		return err
	}
	f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	defer f.Shutdown()
	return each(w.resources(), func(info crdInfo) error {
		i := f.ForResource(info.GVR).Informer()
		registration, err := i.AddEventHandler(informerHandler{info, rec})
		if err != nil {
			return err
		}
		f.Start(ctx.Done())
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			rec.add(peerSynced(info, i.LastSyncResourceVersion()))
		}
		<-ctx.Done()
		return nil
	})
}

type informerHandler struct {
	info crdInfo
	rec  *recording
}

func (h informerHandler) OnAdd(o any, _ bool) {
	h.rec.add(peerReport(added, h.info, o.(*unstructured.Unstructured), false))
}

func (h informerHandler) OnUpdate(before, now any) {
	o := now.(*unstructured.Unstructured)
	if before.(*unstructured.Unstructured).GetResourceVersion() == o.GetResourceVersion() {
		return // listed again, and unchanged
	}
	h.rec.add(peerReport(modified, h.info, o, false))
}

func (h informerHandler) OnDelete(o any) {
	last, inferred := o.(cache.DeletedFinalStateUnknown)
	if inferred {
		o = last.Obj
	}
	h.rec.add(peerReport(deleted, h.info, o.(*unstructured.Unstructured), inferred))
}

// first distinguishes the first call for each resource from later ones.
type first struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newFirst() *first { return &first{seen: map[string]bool{}} }

func (f *first) is(c crdInfo) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := !f.seen[c.resource()]
	f.seen[c.resource()] = true
	return is
}
