package loop

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestListAll: a list of two pages has the objects of both, and their version.
func TestListAll(t *testing.T) {
	widgets := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true,
	}
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	for i := range 501 {
		srv.Put(widgets, "shop", fmt.Sprint("door-", i))
	}
	list, err := Watched{ResourceInterface: srv.Client().Resource(widgets.GroupVersionResource)}.ListAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, o := range list.Items {
		names[o.GetName()] = true
	}
	if len(names) != 501 || len(list.Items) != 501 || list.GetResourceVersion() != "502" {
		t.Errorf("got %d objects with %d names at %s, want 501 at 502",
			len(list.Items), len(names), list.GetResourceVersion())
	}
}
