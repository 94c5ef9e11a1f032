package condition_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Wait until objects of two types are ready at the same moment, for at most a minute.
func ExampleWait() {
	srv := streamtest.NewServer(widgets, gadgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door", ready)
	srv.Put(gadgets, "shop", "lock", unready)
	time.AfterFunc(50*time.Millisecond, func() { srv.Put(gadgets, "shop", "lock", ready) })

	client := srv.Client()
	m, err := mux.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range []gvr.Resource{widgets, gadgets} {
		s, err := stream.New(client, r, &stream.Options{Namespaces: []string{"shop"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := m.Add(s, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	isReady, err := condition.Parse("condition=Ready")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = condition.Wait(ctx, m, isReady,
		condition.Target{Resource: widgets.GroupResource(), Namespace: "shop", Name: "door"},
		condition.Target{Resource: gadgets.GroupResource(), Namespace: "shop", Name: "lock"})
	fmt.Println(isReady, err)
	// Output: condition=Ready <nil>
}

// A Stream that ends at SYNCED makes Wait check once, without waiting. The error has what does not meet the condition.
func ExampleWait_once() {
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door", "status.phase=Closed")
	srv.Put(widgets, "shop", "gate", "status.phase=Open")

	s, err := stream.New(srv.Client(), widgets, &stream.Options{UntilSynced: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	isOpen, err := condition.Parse("jsonpath={.status.phase}=Open")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = condition.Wait(context.Background(), s, isOpen) // every widget
	if unmet := (*condition.UnmetError)(nil); errors.As(err, &unmet) {
		for _, u := range unmet.Unmet {
			fmt.Println(u.Target, u.Reason)
		}
	}
	// Output:
	// widgets.example.com shop/door {.status.phase} has another value
}

// A Condition can also be applied to an object that the program has.
func ExampleCondition_Met() {
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
