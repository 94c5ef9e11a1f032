package controller_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
)

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
		{"no owner, as of an inferred DELETED", gadgets(), owned(), nil},
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
