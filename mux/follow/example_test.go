package follow_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A Mux follows every resource of a group. Each is attached when the server begins to serve it.
func Example() {
	gears := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gears"},
		Kind:                 "Gear", Namespaced: true, Verbs: []string{"list", "watch"},
	}
	srv := streamtest.NewServer(gears) // usually a cluster
	defer srv.Close()
	srv.Put(gears, "shop", "wheel")
	if err := followGroup(srv.Config(), "*.example.com"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// gears.example.com ADDED shop/wheel@2
	// gears.example.com SYNCED @2
}

func followGroup(cfg *rest.Config, pattern string) error {
	discoveryClient, err := discovery.NewClient(cfg)
	if err != nil {
		return err
	}
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return err
	}
	resolver := discovery.NewResolver(discoveryClient, 0)
	m, err := follow.New(resolver, client, follow.Selection{Resources: []string{pattern}}, nil)
	if err != nil {
		return err
	}
	for ev, err := range m.Events(context.Background()) {
		if err != nil {
			return err
		}
		fmt.Println(mux.SourceOf(ev), ev)
		if ev.Type == stream.Synced && m.Status().AllSynced {
			m.Stop() // a program would go on
		}
	}
	return nil
}
