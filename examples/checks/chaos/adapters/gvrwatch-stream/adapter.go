// Command gvrwatch-stream has a Stream for each resource. It knows them, as the other clients do, and so makes no
// discovery: gvrwatch.Connect, which finds a resource by its name, adds all types of k8s.io/api to the process.
package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

func main() {
	adapter.Main(adapter.Client{
		Name: "gvrwatch, stream", Module: "github.com/gvrwatch/gvrwatch", Strict: true,
	}, run)
}

func run(ctx context.Context, j *adapter.Judge) error {
	client, err := stream.NewClient(j.Config, nil)
	if err != nil {
		return err
	}
	return j.Each(ctx, func(ctx context.Context, r schema.GroupVersionResource) error {
		s, err := stream.New(client, gvr.Resource{GroupVersionResource: r}, nil)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			// An error is the last value of a loop. The next one goes on where it ended.
			for ev, err := range s.With(stream.Run{Start: stream.Resume(), RetryRefused: true}).Events(ctx) {
				switch {
				case err == nil:
					write(j, r, ev)
				case ctx.Err() == nil:
					j.Error(err)
					time.Sleep(time.Second)
				}
			}
		}
		return nil
	})
}

func write(j *adapter.Judge, r schema.GroupVersionResource, ev stream.Event) {
	switch ev.Type {
	case stream.Gap:
		j.Gap(r, adapter.Gap{Reason: string(ev.Gap.Reason), From: ev.Gap.From, HistoryLost: ev.Gap.HistoryLost})
	case stream.Synced:
		j.Synced(r, ev.ResourceVersion)
	default:
		j.Object(watch.EventType(ev.Type), r, ev.Object, ev.Inferred)
	}
}
