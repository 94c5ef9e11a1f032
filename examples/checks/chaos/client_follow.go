package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// followClient follows all resources of the group, as the administrator or as a user whose rights change.
type followClient struct {
	name           string
	http2, limited bool
}

func (c followClient) subject() subject { return subject{Name: c.name, Ours: true, Limited: c.limited} }

func (c followClient) run(ctx context.Context, w *world, rec *recording) error {
	cfg := w.config(c.http2)
	if c.limited {
		cfg = w.limited(c.http2)
	}
	m, err := newFollow(cfg, nil, rec.fail)
	if err != nil {
		return err
	}
	return recordMux(ctx, m.Mux, rec, func() {})
}

// newFollow returns a Mux that follows all resources of the group. tracker may be nil.
func newFollow(cfg *rest.Config, tracker *checkpoint.Tracker, fail func(error)) (*follow.Mux, error) {
	cfg = withFreshToken(cfg)
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	dc, err := discovery.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	selection := follow.Selection{Resources: []string{"*." + group}, CandidateNamespaces: namespaces}
	return follow.New(discovery.NewResolver(dc, 0), client, selection, &follow.Options{
		Mux: mux.Options{OnError: func(_ string, err error) mux.Decision { fail(err); return mux.Retry }},
		Source: func(gvr.Resource) (stream.Options, stream.Run) {
			return stream.Options{Requests: requests}, stream.Run{Checkpoint: tracker}
		},
	})
}
