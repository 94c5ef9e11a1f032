package sequence

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// Different content has different hashes.
func TestEqualContentHasEqualHashes(t *testing.T) {
	with := func(size any, ratio float64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"size": size, "ratio": ratio}}
	}
	tests := []struct {
		a, b *unstructured.Unstructured
		same bool
		why  string
	}{
		{with(1, 2), with(1, 2), true, "the same content"},
		{with(1, 2), with(2, 2), false, "different content"},
		{with(1, math.NaN()), with(1, math.NaN()), true, "the same content that JSON can't express"},
		{with(1, math.NaN()), with(2, math.NaN()), false, "different content that JSON can't express"},
	}
	for _, tt := range tests {
		if same := hash(tt.a) == hash(tt.b); same != tt.same {
			t.Errorf("same = %v, want %v: %s", same, tt.same, tt.why)
		}
	}
}

// An inferred object has nothing else.
func TestInferredObjectHasWhatTheIndexKnows(t *testing.T) {
	r := gvr.Resource{Kind: "Widget"}
	r.Group, r.Version = "example.com", "v1"
	target := NewTarget(Config{Resource: r})
	for _, tt := range []struct {
		entry objects.Version
		want  map[string]any
		why   string
	}{
		{objects.Version{ID: objects.ID{Namespace: "ns", Name: "a", UID: "u-1"}, ResourceVersion: "5"},
			map[string]any{"namespace": "ns", "name": "a", "uid": "u-1", "resourceVersion": "5"},
			"an entry has names, uid and resourceVersion"},
		{objects.Version{ID: objects.ID{Namespace: "ns", Name: "b"}, ResourceVersion: noVersion + "hash"},
			map[string]any{"namespace": "ns", "name": "b"}, "a content hash is not delivered as a resourceVersion"},
	} {
		want := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": tt.want}
		if diff := cmp.Diff(want, target.inferred(&tt.entry).body.decoded.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}
