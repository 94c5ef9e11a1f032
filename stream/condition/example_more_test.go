package condition_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A sequence that ends at SYNCED makes Wait check once, without waiting. The error has what does not meet the
// condition.
func ExampleWait_once() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door", "status.phase=Closed")
	srv.Put(widgets, "shop", "gate", "status.phase=Open")

	s, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	every := condition.Target{For: condition.MustParse("jsonpath={.status.phase}=Open")} // every widget
	err = condition.Wait(context.Background(), s.With(stream.Run{Until: stream.UntilSynced}), every)
	if unmet := (*condition.UnmetError)(nil); errors.As(err, &unmet) {
		for target, reason := range unmet.Unmet {
			fmt.Println(target, reason)
		}
	}
	// Output:
	// widgets.example.com shop/door {.status.phase} has another value
}

// A Condition can also be applied to an object that the program has.
func ExampleCondition_Met() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	door := srv.Put(widgets, "shop", "door", "status.phase=Open")
	for _, text := range []string{"jsonpath={.status.phase}=Open", "jsonpath=.status.ip", "condition=Ready", "create"} {
		c, err := condition.Parse(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		met, err := c.Met(door)
		fmt.Println(c, met, err)
	}
	// Output:
	// jsonpath={.status.phase}=Open true <nil>
	// jsonpath={.status.ip} false <nil>
	// condition=Ready false <nil>
	// create true <nil>
}

// A condition may be a function, and each target may have another one.
func ExampleNew() {
	doors := gvr.Resource{Kind: "Door", Namespaced: true, Verbs: []string{"list", "watch"}}
	doors.Group, doors.Version, doors.Resource = "example.com", "v1", "doors"
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front", "spec.height=210", "status.phase=Open")
	srv.Put(doors, "shop", "back", "spec.height=180")

	s, err := stream.New(srv.Client(), doors, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tall := condition.New("tall", func(o *unstructured.Unstructured) (bool, error) {
		height, _, err := unstructured.NestedInt64(o.Object, "spec", "height")
		return height > 200, err
	})
	err = condition.Wait(context.Background(), s.With(stream.Run{Until: stream.UntilSynced}),
		condition.Target{For: tall}, // every door
		condition.Target{For: condition.MustParse("jsonpath={.status.phase}=Open"), Namespace: "shop", Name: "front"})
	if unmet := (*condition.UnmetError)(nil); errors.As(err, &unmet) {
		for target, reason := range unmet.Unmet {
			fmt.Println(target, reason)
		}
	}
	// Output: doors.example.com shop/back does not meet tall
}
