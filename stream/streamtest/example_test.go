package streamtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// The server answers 410 where it should report a deletion. Check finds nothing wrong with what the Stream delivers,
// but rejects the recording without the DELETED.
func Example() {
	srv := streamtest.NewServer(doors)
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	srv.Put(doors, "shop", "back")
	if err := srv.Apply("change 4: 410 in stream"); err != nil {
		fmt.Println(err)
		return
	}
	s, err := stream.New(srv.Client(), doors, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	synced := 0
	rec := streamtest.Record(s.Events(context.Background()), func(ev stream.Event) bool {
		if ev.Type != stream.Synced {
			return false
		}
		if synced++; synced == 1 {
			_, _ = srv.Delete(doors, "shop", "front") // change 4
		}
		return synced == 2
	})
	for _, line := range rec.Texts() {
		fmt.Println(line)
	}
	history := srv.History(doors, nil)
	fmt.Println(streamtest.Check(history, rec.Events, &streamtest.CheckOptions{Complete: true}))

	rec.Events = slices.DeleteFunc(rec.Events, func(ev stream.Event) bool { return ev.Type == stream.Deleted })
	var broken *streamtest.Violation
	if errors.As(streamtest.Check(history, rec.Events, nil), &broken) {
		fmt.Printf("event %d, %s: breaks %q\n", broken.Index, broken.What, broken.Promise)
	}
	// Output:
	// ADDED shop/back@3
	// ADDED shop/front@2
	// SYNCED @3
	// GAP expired 3..4
	// DELETED shop/front@2 inferred
	// SYNCED @4
	// <nil>
	// event 4, SYNCED @4: breaks "removed"
}
