package gvr_test

import (
	"errors"
	"fmt"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// typed is what people type.
var typed = []string{"po", "deployments.apps", "apps/v1/Deployment", "v1/pods", "pods/log"}

// Names are parsed. Package discovery finds out which resources they mean.
func Example() {
	for _, s := range typed {
		ref, err := gvr.ParseRef(s)
		var invalid *gvr.ParseError
		if errors.As(err, &invalid) {
			fmt.Println(invalid.Input, "is not a resource type")
			continue
		}
		fmt.Printf("group=%q version=%q name=%q\n", ref.Group, ref.Version, ref.Name)
	}
	// Output:
	// group="" version="" name="po"
	// group="apps" version="" name="deployments"
	// group="apps" version="v1" name="Deployment"
	// group="" version="v1" name="pods"
	// pods/log is not a resource type
}
