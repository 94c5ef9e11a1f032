package discovery

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

func TestSearchForSimilarNamesIsBounded(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		ctx   context.Context
		at    int // of the similar name
		found int
		why   string
	}{
		{t.Context(), maxCompared - 1, 1, "it is the last that is compared"},
		{t.Context(), maxCompared, 0, "it is beyond those that are compared"},
		{canceled, 0, 0, "ctx has ended"},
	}
	for _, tt := range tests {
		c := &catalog{}
		for i := range maxCompared + 1 {
			c.resources = append(c.resources, gvr.Resource{
				GroupVersionResource: schema.GroupVersionResource{Resource: fmt.Sprintf("%06d", i)},
			})
		}
		c.resources[tt.at].Resource = "widgets"
		if got := c.similar(tt.ctx, gvr.Ref{Name: "wigdets"}); len(got) != tt.found {
			t.Errorf("%s: found %v, want %d", tt.why, got, tt.found)
		}
	}
}
