package follow_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// A Mux follows everything in a group, here on client-go's fakes.
func Example() {
	gears := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gears"}
	wheel := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gear",
		"metadata": map[string]any{"namespace": "shop", "name": "wheel"},
	}}
	kinds := map[schema.GroupVersionResource]string{gears: "GearList"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, wheel)
	served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "example.com/v1",
		APIResources: []metav1.APIResource{
			{Name: "gears", Kind: "Gear", Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}},
		},
	}}}}

	m, err := follow.New(discovery.NewResolver(served, nil), client,
		follow.Selection{Resources: []string{"*.example.com"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range m.Events(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Source, ev)
		if ev.Type == stream.Synced && m.AllSynced() {
			m.Stop()
		}
	}
	// Output:
	// gears.example.com ADDED shop/wheel
	// gears.example.com SYNCED @2
}
