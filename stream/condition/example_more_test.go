package condition_test

import (
	"context"
	"errors"
	"fmt"

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
