package configmap

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestStoreConforms: the ConfigMap does what the documentation of checkpoint.Store demands. client-go's fake has no
// optimistic locking, so that an earlier owner commits there.
func TestStoreConforms(t *testing.T) {
	for why, client := range map[string]dynamic.Interface{
		"an API server": newServer(t).Client(), "client-go's fake": fake.NewSimpleDynamicClient(runtime.NewScheme()),
	} {
		err := streamtest.CheckStore(func() (checkpoint.Store, error) {
			return Open(t.Context(), client, "ns", "cp", nil)
		})
		if err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
}
