package main

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// streamClient has a Stream for each resource.
type streamClient struct {
	name         string
	http2, stock bool
	options      stream.Options
}

func (c streamClient) subject() subject {
	s := subject{Name: c.name, Ours: true, Chained: true, Scope: scope{Namespaces: c.options.Namespaces}}
	if c.options.LabelSelector != "" {
		s.Scope.Selects = chaosIn
	}
	return s
}

func (c streamClient) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(c.http2), c.stock)
	if err != nil {
		return err
	}
	return each(w.definitions.resources(), func(info crdInfo) error {
		if len(c.options.Namespaces) > 0 && !info.Namespaced {
			return nil
		}
		return watchStream(ctx, client, resourceOf(info), c.options, rec, func() time.Duration { return time.Hour })
	})
}

// watchStream records what a Stream delivers. A run lasts at most as long as lasts returns, and the next one resumes
// where it ended.
func watchStream(
	ctx context.Context, client dynamic.Interface, r gvr.Resource, options stream.Options, rec *recording,
	lasts func() time.Duration,
) error {
	options.Requests.IdleTimeout = requests.IdleTimeout
	var start stream.Start // with a snapshot
	for run := 1; ctx.Err() == nil; run++ {
		s, err := stream.New(client, r, &options)
		if err != nil {
			return err
		}
		delivered := false
		runCtx, cancel := context.WithTimeout(ctx, lasts())
		for ev, err := range s.With(stream.Run{Start: start}).Events(runCtx) {
			if err != nil {
				if runCtx.Err() == nil {
					rec.fail(err)
				}
				break
			}
			delivered = true
			for _, one := range reportsOf(run, ev, s) {
				rec.add(one)
			}
		}
		if runCtx.Err() == nil {
			pause(ctx, 100*time.Millisecond) // before the first SYNCED, a refusal ends the run
		}
		cancel()
		if delivered || run > 1 {
			start = stream.From(s.Position())
		}
	}
	return nil
}

// chainClient has a Stream for each resource, whose runs last a few seconds. Each resumes at the Position of the one
// before.
type chainClient struct{}

func (chainClient) subject() subject {
	return subject{Name: "position-chain", Ours: true, Chained: true}
}

func (chainClient) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(true), false)
	if err != nil {
		return err
	}
	return each(w.definitions.resources(), func(info crdInfo) error {
		return watchStream(ctx, client, resourceOf(info), stream.Options{}, rec, func() time.Duration {
			return time.Second + rand.N(3*time.Second)
		})
	})
}

// muxClient has a Mux of a Stream for each resource.
type muxClient struct {
	name          string
	http2, latest bool
}

func (c muxClient) subject() subject { return subject{Name: c.name, Ours: true, Coalesces: c.latest} }

func (c muxClient) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(c.http2), false)
	if err != nil {
		return err
	}
	var sources []mux.Source
	for _, info := range w.definitions.resources() {
		s, err := stream.New(client, resourceOf(info), &stream.Options{Requests: requests})
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	o := &mux.Options{OnError: retrySources(rec)}
	if c.latest {
		o.Overflow = mux.Latest
	}
	m, err := mux.New(o, sources...)
	if err != nil {
		return err
	}
	return recordMux(ctx, m, rec, func() {
		if c.latest {
			pause(ctx, rand.N(30*time.Millisecond)) // slower than the writers in bursts, so that events are coalesced
		}
	})
}

// recordMux records what a Mux delivers, and calls handled after each event.
func recordMux(ctx context.Context, m *mux.Mux, rec *recording, handled func()) error {
	for ev, err := range m.Events(ctx) {
		if err != nil {
			return ended(ctx, err)
		}
		r := newReport(1, ev)
		r.Acked = true
		rec.add(r)
		handled()
	}
	return nil
}

func retrySources(rec *recording) func(string, error) mux.Decision {
	return func(_ string, err error) mux.Decision {
		rec.fail(err)
		return mux.Retry
	}
}

// ended returns err unless ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
