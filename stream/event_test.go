package stream_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
)

func TestEventString(t *testing.T) {
	for in, want := range map[string]string{
		"ADDED x/a(u1)@7 in x":           "ADDED x/a@7",
		"DELETED x/a(u1)@9 inferred":     "DELETED x/a@9 inferred",
		"MODIFIED a(u1)@9 coalesced 2":   "MODIFIED a@9 coalesced 2",
		"SYNCED @12":                     "SYNCED @12",
		"BOOKMARK @9 in x":               "BOOKMARK @9 in x",
		"GAP expired 5..12 history lost": "GAP expired 5..12 history lost",
	} {
		if got := oracle.Events(t, in)[0].String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	named := func(name any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	}
	for _, tt := range []struct {
		event stream.Event
		want  string
		why   string
	}{
		{stream.Event{}, "", "no event"},
		{stream.Event{Object: named("a\x1b[31m\u202e\u0085\n\xff")}, `a\x1b[31m\u202e\u0085\n\xff`, "for a terminal"},
		{stream.Event{ResourceVersion: "1\r"}, `@1\r`, "in a version"},
		{stream.Event{Object: named("wörld-世界")}, "wörld-世界", "other characters stay"},
		{stream.Event{Type: stream.Added, Object: &unstructured.Unstructured{}}, "ADDED", "an object without content"},
		{stream.Event{Type: stream.Added, Object: named(7)}, "ADDED", "a name that is no text"},
	} {
		if got := tt.event.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.why, got, tt.want)
		}
	}
}

func TestNamespacedName(t *testing.T) {
	for in, want := range map[string]types.NamespacedName{
		"ADDED x/a(u1)@7": {Namespace: "x", Name: "a"}, "ADDED a(u1)@7": {Name: "a"}, "SYNCED @12": {},
		"GAP expired 5..12 in x": {},
	} {
		if got := oracle.Events(t, in)[0].NamespacedName(); got != want {
			t.Errorf("%s: got %q", in, got)
		}
	}
}
