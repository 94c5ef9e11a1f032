package controller

import (
	"strings"

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

// KeyOf returns the key of the object of an event. Without an object it has no name. It copies the namespace and the
// name, so that a key retains nothing of the object.
func KeyOf(ev stream.Event) Key { return cloned(Key{ev.Resource.GroupResource(), ev.NamespacedName()}) }

// cloned copies the strings of an object, which are often parts of a longer one.
func cloned(k Key) Key {
	k.Namespace, k.Name = strings.Clone(k.Namespace), strings.Clone(k.Name)
	return k
}

// ControllerOf returns a KeyFunc for a Mux of owners and of what they own. An event of an owner leads to its own key.
// An event of another object leads to the key of its controller (the owner reference with controller: true) if that is
// an owner, also of the one before if that has changed, and else to none.
//
// The function remembers the controller of each object that has one, in about 300 bytes, because an inferred DELETED
// has no owner references. It serves one run at a time. A run that resumes from a checkpoint does not know the
// controllers of objects that were deleted before it began: their deletion leads to no key.
func ControllerOf(owner gvr.Resource) func(stream.Event) []Key {
	known := map[types.UID]Key{}
	return func(ev stream.Event) (keys []Key) {
		if ev.Resource.GroupResource() == owner.GroupResource() {
			return []Key{KeyOf(ev)}
		}
		m := ev.Meta()
		before, hadOne := known[m.GetUID()]
		now, hasOne := controllerOf(m, owner)
		if hadOne {
			keys = append(keys, before)
		}
		if hasOne && now != before {
			now = cloned(now)
			keys = append(keys, now)
		}
		switch {
		case ev.Type == stream.Deleted || !hasOne:
			delete(known, m.GetUID())
		case now != before:
			known[types.UID(strings.Clone(string(m.GetUID())))] = now
		}
		return keys
	}
}

// controllerOf returns the key of the controller of an object, if that is an owner.
func controllerOf(m stream.Meta, owner gvr.Resource) (k Key, ok bool) {
	for _, ref := range m.GetOwnerReferences() {
		if !controls(ref, owner) {
			continue
		}
		k = Key{Resource: owner.GroupResource(), NamespacedName: types.NamespacedName{Name: ref.Name}}
		if owner.Namespaced {
			k.Namespace = m.GetNamespace()
		}
		return k, true
	}
	return Key{}, false
}

func controls(ref metav1.OwnerReference, owner gvr.Resource) bool {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	isOwner := err == nil && group.Group == owner.Group && ref.Kind == owner.Kind
	return isOwner && ref.Controller != nil && *ref.Controller
}
