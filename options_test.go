package gvrwatch_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/configmap"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func second[T any](_ T, err error) error { return err }

// last returns the error with which a sequence ends.
func last[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// TestOneOptionsError: whatever door is used in a wrong way, errors.As finds one type.
func TestOneOptionsError(t *testing.T) {
	ctx := t.Context()
	srv := streamtest.NewServer(lamps)
	defer srv.Close()
	s, err := stream.New(srv.Client(), lamps, nil)
	if err != nil {
		t.Fatal(err)
	}
	resolver := discovery.NewResolver(nil, 0)
	var none *gvrwatch.Connection
	var nobody context.Context
	of := &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "1"}}
	for name, err := range map[string]error{
		"gvrwatch.Connection":         second(none.Stream(ctx, "lamps", nil)),
		"gvrwatch.Connection.Tracker": second(connect(t, srv).Tracker(ctx, nil, of)),
		"gvrwatch.Connection.Wait":    connect(t, srv).Wait(ctx),
		"gvrwatch.Watch":              last(gvrwatch.Watch(nobody, srv.Config(), "lamps", nil)),
		"discovery.NewClient":         second(discovery.NewClient(nil)),
		"discovery.Resolver":          second(resolver.Resolve(ctx, gvr.Ref{Name: "lamps"})),
		"stream.NewClient":            second(stream.NewClient(nil, nil)),
		"stream.New, client":          second(stream.New(nil, lamps, nil)),
		"stream.New, options":         second(stream.New(srv.Client(), lamps, &stream.Options{Name: "/"})),
		"stream.Run":                  last(s.With(stream.Run{Until: "noon"}).Events(ctx)),
		"stream.Acked":                last(stream.Acked(nil)),
		"stream.Until":                second(stream.Until(nil, nil)),
		"mux.New":                     second(mux.New(&mux.Options{Overflow: "burst"})),
		"mux.Add":                     second(mux.New(nil, s, s)),
		"follow.New":                  second(follow.New(nil, nil, follow.Selection{}, nil)),
		"follow.Selection":            second(connect(t, srv).Follow(follow.Selection{}, nil)),
		"store.New":                   second(store.New(nil, nil)),
		"store.Store":                 (&store.Store{}).Run(ctx),
		"condition.Parse":             second(condition.Parse("?")),
		"condition.Wait":              condition.Wait(ctx, s, condition.Target{}),
		"controller.Run":              controller.Run(ctx, nil, nil, nil),
		"controller.NewSource":        second(controller.NewSource[controller.Key](nil, nil, nil)),
		"informer.NewSharedIndexInformer": second(informer.NewSharedIndexInformer(s,
			cache.SharedIndexInformerOptions{ResyncPeriod: -1})),
		"factory.New":                  second(factory.New(srv.Client(), -time.Second, nil)),
		"checkpoint.NewTracker, Store": second(checkpoint.NewTracker(nil, nil)),
		"checkpoint.NewTracker":        second(checkpoint.NewTracker(&checkpoint.Memory{}, nil)),
		"configmap.Open":               second(configmap.Open(ctx, nil, "", "", nil)),
		"streamtest.Record":            streamtest.Record(nil, nil).Err,
		"streamtest.Check": streamtest.Check(streamtest.History{}, nil,
			&streamtest.CheckOptions{Now: true, After: "1"}),
	} {
		if e := (*stream.OptionsError)(nil); !errors.As(err, &e) || e.Field == "" || e.Problem == "" {
			t.Errorf("%s: %#v, want an OptionsError", name, err)
		}
	}
}
