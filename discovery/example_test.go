package discovery_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Names are resolved to the resources that a server serves.
func Example() {
	doors := gvr.Resource{Kind: "Door", Namespaced: true, Verbs: []string{"list", "watch"}}
	doors.Group, doors.Version, doors.Resource = "example.com", "v1", "doors"
	server := streamtest.NewServer(doors) // usually a cluster
	defer server.Close()
	if err := resolve(server.Config(), "Door", "doors.example.com", "window"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Door is doors.v1.example.com, namespaced: true
	// doors.example.com is doors.v1.example.com, namespaced: true
	// no resource is named window
}

func resolve(cfg *rest.Config, names ...string) error {
	client, err := discovery.NewClient(cfg)
	if err != nil {
		return err
	}
	resolver := discovery.NewResolver(client, 0)
	for _, name := range names {
		ref, err := gvr.ParseRef(name)
		if err != nil {
			return err
		}
		resource, err := resolver.Resolve(context.Background(), ref)
		if missing := (*discovery.NotFoundError)(nil); errors.As(err, &missing) {
			fmt.Println("no resource is named", name)
			continue
		} else if err != nil {
			return err
		}
		fmt.Printf("%s is %s, namespaced: %v\n", name, resource, resource.Namespaced)
	}
	return nil
}
