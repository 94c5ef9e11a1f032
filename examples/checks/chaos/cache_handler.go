package main

import (
	"fmt"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheHandler is an event handler of a cache. It checks what it receives, and then changes that or a copy of it.
type cacheHandler struct {
	view  *cacheView
	first bool // whether it keeps what it knows, and reports it
}

func (h *cacheHandler) OnAdd(o any, _ bool) { h.receive(added, nil, o, false) }

func (h *cacheHandler) OnUpdate(before, now any) { h.receive(modified, before, now, false) }

func (h *cacheHandler) OnDelete(o any) {
	unknown, inferred := o.(toolscache.DeletedFinalStateUnknown)
	if inferred {
		o = unknown.Obj
	}
	h.receive(deleted, nil, o, inferred)
}

func (h *cacheHandler) receive(kind Kind, before, now any, inferred bool) {
	o, ok := now.(crclient.Object)
	if !ok || fmt.Sprintf("%T", o) != fmt.Sprintf("%T", h.view.object()) {
		h.view.report(nil, fmt.Sprintf("a handler received %s of a %T", kind, now), false)
		return
	}
	all := []crclient.Object{o}
	if old, ok := before.(crclient.Object); ok && old != o {
		all = append(all, old)
	}
	for _, one := range all {
		if !h.view.tape.isSent(one) {
			h.view.report(nil, fmt.Sprintf("a handler received %s of %s, which the server never sent: %.300v",
				kind, nameOf(one), one), false)
		}
	}
	if h.first {
		h.view.know(kind, o, inferred)
	}
	for _, one := range all {
		if !h.view.life.changesInPlace() {
			one = one.DeepCopyObject().(crclient.Object)
		}
		spoil(one)
	}
}

// know keeps what the first handler knows, and reports it.
func (v *cacheView) know(kind Kind, o crclient.Object, inferred bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key, version := keyOf(o), versionOf(o)
	again := v.versions[key] == version && kind == modified
	if v.versions[key] = version; kind == deleted {
		delete(v.versions, key)
	}
	if again || v.as != untyped {
		return // a resync, or listed again, and unchanged
	}
	last := v.reported[o.GetUID()]
	r := report{
		At: time.Now(), Run: v.life.run, Kind: kind, Resource: v.info.resource(), Namespace: o.GetNamespace(),
		Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Acked: true,
		Inferred: inferred || kind == deleted && last.ResourceVersion == o.GetResourceVersion(),
	}
	v.reported[r.UID] = r
	v.life.rec.add(r)
}

// versionOf returns the uid and the resourceVersion of an object.
func versionOf(o crclient.Object) string { return string(o.GetUID()) + " at " + o.GetResourceVersion() }
