package test_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/test"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestNames: the program knows what exists although an object is deleted while the server is down, and the version that
// the watch would go on at expires.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // hours take no time
		widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
		widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
		srv := streamtest.NewServer(widgets)
		defer srv.Close()
		srv.Put(widgets, "shop", "door")
		srv.Put(widgets, "shop", "window")

		s, err := stream.New(srv.Client(), widgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		time.AfterFunc(time.Minute, func() {
			_ = srv.Do("silence")
			_, _ = srv.Delete(widgets, "shop", "window")
			_ = srv.Do("restart")
		})
		var got []string
		err = test.Names(ctx, s.Events(ctx), func(names []string) { got = names })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"shop/door"}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
