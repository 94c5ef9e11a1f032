package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Key identifies what is reconciled: usually an object, by resource, namespace and name. It has no version and no uid,
// so an object keeps its key if it is served in another version, and one that is recreated has the key of the old one.
type Key struct {
	Resource schema.GroupResource
	types.NamespacedName
}

// String returns the resource, namespace and name: "deployments.apps shop/web".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource.String() + " " + k.Name
	}
	return k.Resource.String() + " " + k.NamespacedName.String()
}

// KeyOf returns the key of the object of an event. Without an object it has no name.
func KeyOf(ev stream.Event) Key { return Key{ev.Resource.GroupResource(), ev.NamespacedName()} }

// ControllerOf returns a KeyFunc for a Mux of owners and of what they own. An event of an owner leads to its own key.
// An event of another object leads to the key of its controller (the owner reference with controller: true) if that is
// an owner, and else to none.
//
// It reads the owner references that the event has. Those of an inferred DELETED are not known, so an object that is
// deleted during a gap leads to no key, and an object that changes its controller leads to the new one only. Where this
// matters, ask for RequeueAfter.
func ControllerOf(owner gvr.Resource) func(stream.Event) []Key {
	return func(ev stream.Event) []Key {
		if ev.Resource.GroupResource() == owner.GroupResource() {
			return []Key{KeyOf(ev)}
		}
		m := ev.Meta()
		for _, ref := range m.GetOwnerReferences() {
			if !controls(ref, owner) {
				continue
			}
			k := Key{Resource: owner.GroupResource(), NamespacedName: types.NamespacedName{Name: ref.Name}}
			if owner.Namespaced {
				k.Namespace = m.GetNamespace()
			}
			return []Key{k}
		}
		return nil
	}
}

func controls(ref metav1.OwnerReference, owner gvr.Resource) bool {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	isOwner := err == nil && group.Group == owner.Group && ref.Kind == owner.Kind
	return isOwner && ref.Controller != nil && *ref.Controller
}
