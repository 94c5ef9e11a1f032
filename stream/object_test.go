package stream

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestHashTellsVersionsApart(t *testing.T) {
	with := func(size any, ratio float64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"size": size, "ratio": ratio}}
	}
	tests := []struct {
		a, b *unstructured.Unstructured
		same bool
		why  string
	}{
		{with(1, 2), with(1, 2), true, "the same content"},
		{with(1, 2), with(2, 2), false, "another content"},
		{with(1, math.NaN()), with(1, math.NaN()), true, "also where JSON has no word for it"},
		{with(1, math.NaN()), with(2, math.NaN()), false, "also where JSON has no word for it"},
	}
	for _, tt := range tests {
		if same := hash(tt.a) == hash(tt.b); same != tt.same {
			t.Errorf("same = %v, want %v: %s", same, tt.same, tt.why)
		}
	}
}
