package devserver_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

func ExampleStart() {
	s, err := devserver.Start(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Stop()

	client, err := discovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		log.Fatal(err)
	}
	groups, err := client.ServerGroups()
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range groups.Groups {
		fmt.Println(g.PreferredVersion.GroupVersion)
	}
	// Output: apiextensions.k8s.io/v1
}
