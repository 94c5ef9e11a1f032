package discovery_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func ExampleResolver_Changes() {
	widgets := gvr.Resource{Kind: "Widget"}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	server := streamtest.NewServer(widgets)
	defer server.Close()
	client, err := discovery.NewClient(server.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resolver := discovery.NewResolver(client, 0)
	for change, err := range resolver.Changes(ctx, nil) {
		if err != nil {
			fmt.Println(err) // the cause of ctx, always last
			return
		}
		fmt.Println(change)
		switch change.Type {
		case discovery.Synced:
			server.Unserve(widgets) // the CRD is deleted,
			resolver.Refresh()      // and a watch on CRDs reports it
		case discovery.Removed:
			return
		}
	}
	// Output:
	// Added widgets.v1.example.com
	// Synced
	// Removed widgets.v1.example.com
}
