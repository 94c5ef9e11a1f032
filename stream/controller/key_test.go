package controller_test

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
)

var isController = true

// A key must not retain the text that the object was decoded from, of which its strings are parts.
func TestKeysAreCopies(t *testing.T) {
	long := "lab a g u-a " + strings.Repeat("x", 4096)
	ev := event(stream.Added, "", "1")
	ev.Object.SetNamespace(long[:3])
	ev.Object.SetName(long[4:5])
	ev.Object.SetUID(types.UID(long[8:11]))
	ev.Object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "example.com/v1", Kind: "Gadget", Name: long[6:7], UID: "u", Controller: &isController,
	}})
	of := controller.ControllerOf(gadgets())
	keys := slices.Concat([]controller.Key{controller.KeyOf(ev)}, of(ev), of(ev))
	owner := ev
	owner.Resource = gadgets()
	keys = append(keys, of(owner)...)
	begin := uintptr(unsafe.Pointer(unsafe.StringData(long)))
	for i, k := range keys {
		for _, text := range []string{k.Namespace, k.Name} {
			at := uintptr(unsafe.Pointer(unsafe.StringData(text)))
			if at >= begin && at < begin+uintptr(len(long)) {
				t.Errorf("key %d, %s: %q is a part of the object", i, k, text)
			}
		}
	}
	if len(keys) != 4 || keys[0].String() != "widgets.example.com lab/a" || keys[1] != keys[2] {
		t.Errorf("got %v", keys)
	}
}

func TestControllerOf(t *testing.T) {
	global := gadgets()
	global.Namespaced = false
	ref := func(version, kind, name string, isController any) map[string]any {
		r := map[string]any{"apiVersion": version, "kind": kind, "name": name, "uid": "u"}
		if isController != nil {
			r["controller"] = isController
		}
		return r
	}
	owned := func(refs ...any) stream.Event {
		ev := event(stream.Modified, "a", "1")
		ev.Object.Object["metadata"].(map[string]any)["ownerReferences"] = refs
		return ev
	}
	other := event(stream.Added, "g", "1")
	other.Resource = gadgets()
	for _, c := range []struct {
		why   string
		owner gvr.Resource
		ev    stream.Event
		want  []string
	}{
		{"the owner's own event", gadgets(), other, []string{"gadgets.example.com lab/g"}},
		{"an object of the owner", gadgets(), owned(ref("example.com/v1", "Gadget", "g", true)),
			[]string{"gadgets.example.com lab/g"}},
		{"in another version of its group", gadgets(), owned(ref("example.com/v2", "Gadget", "g", true)),
			[]string{"gadgets.example.com lab/g"}},
		{"an owner without a namespace", global, owned(ref("example.com/v1", "Gadget", "g", true)),
			[]string{"gadgets.example.com g"}},
		{"after owners that are no controllers", gadgets(),
			owned(ref("example.com/v1", "Gadget", "x", nil), ref("example.com/v1", "Gadget", "y", false),
				ref("example.com/v1", "Gadget", "g", true)), []string{"gadgets.example.com lab/g"}},
		{"another kind", gadgets(), owned(ref("example.com/v1", "Robot", "g", true)), nil},
		{"another group", gadgets(), owned(ref("example.org/v1", "Gadget", "g", true)), nil},
		{"an invalid version", gadgets(), owned(ref("a/b/c", "Gadget", "g", true)), nil},
		{"no owner", gadgets(), owned(), nil},
	} {
		var got []string
		for _, k := range controller.ControllerOf(c.owner)(c.ev) {
			got = append(got, k.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestControllerOfRemembers: the controller that an object had is reconciled when the object loses it, also by a
// deletion that is inferred and has no owner references.
func TestControllerOfRemembers(t *testing.T) {
	keys := controller.ControllerOf(gadgets())
	owned := func(kind stream.Type, object, owner string) stream.Event {
		ev := event(kind, object, "1")
		if owner != "" {
			ev.Object.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "example.com/v1", Kind: "Gadget", Name: owner, UID: "u", Controller: &isController,
			}})
		}
		return ev
	}
	for _, c := range []struct {
		why  string
		ev   stream.Event
		want []string
	}{
		{"the first controller", owned(stream.Added, "a", "g"), []string{"g"}},
		{"the same one", owned(stream.Modified, "a", "g"), []string{"g"}},
		{"another object does not count", owned(stream.Added, "b", ""), nil},
		{"another controller: both", owned(stream.Modified, "a", "h"), []string{"g", "h"}},
		{"the earlier one is forgotten", owned(stream.Modified, "a", "h"), []string{"h"}},
		{"an inferred DELETED", owned(stream.Deleted, "a", ""), []string{"h"}},
		{"after the DELETED nothing is known", owned(stream.Deleted, "a", ""), nil},
		{"added again", owned(stream.Added, "a", "g"), []string{"g"}},
		{"released", owned(stream.Modified, "a", ""), []string{"g"}},
		{"and forgotten", owned(stream.Modified, "a", ""), nil},
		{"adopted", owned(stream.Modified, "a", "h"), []string{"h"}},
		{"a DELETED with references", owned(stream.Deleted, "a", "h"), []string{"h"}},
		{"is forgotten, too", owned(stream.Deleted, "a", ""), nil},
	} {
		var got []string
		for _, k := range keys(c.ev) {
			got = append(got, k.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}
