package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
)

// informerPeer has the event handlers of an informer for each resource: of client-go's factory or, if door is set, of
// ours. Handlers receive no GAP, so even ours is judged as a peer: what it is to report is not known exactly.
type informerPeer struct{ door bool }

func (p informerPeer) subject() subject {
	if p.door {
		return subject{Name: "informer-door", ByObject: true}
	}
	return subject{Name: "dynamicinformer", ByObject: true}
}

func (p informerPeer) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(true), !p.door)
	if err != nil {
		return err
	}
	f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	if p.door {
		if f, err = factory.New(client, 0, &stream.Options{Requests: requests}); err != nil {
			return err
		}
	}
	defer f.Shutdown()
	return each(w.definitions.resources(), func(info crdInfo) error {
		i := f.ForResource(info.GVR).Informer()
		registration, err := i.AddEventHandler(informerHandler{info, rec, map[types.UID]string{}})
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
	last map[types.UID]string // version of each object
}

func (h informerHandler) OnAdd(o any, _ bool) {
	h.add(added, o.(*unstructured.Unstructured), false)
}

func (h informerHandler) add(kind Kind, o *unstructured.Unstructured, inferred bool) {
	h.last[o.GetUID()] = o.GetResourceVersion()
	h.rec.add(peerReport(kind, h.info, o, inferred))
}

func (h informerHandler) OnUpdate(before, now any) {
	o := now.(*unstructured.Unstructured)
	if before.(*unstructured.Unstructured).GetResourceVersion() == o.GetResourceVersion() {
		return // listed again, and unchanged
	}
	h.add(modified, o, false)
}

func (h informerHandler) OnDelete(o any) {
	unknown, inferred := o.(cache.DeletedFinalStateUnknown)
	if inferred {
		o = unknown.Obj
	}
	last := o.(*unstructured.Unstructured)
	// The door hands over the last state, which does not have the version of the deletion.
	h.add(deleted, last, inferred || h.last[last.GetUID()] == last.GetResourceVersion())
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
