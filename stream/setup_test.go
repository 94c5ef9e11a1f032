package stream_test

import (
	"context"
	"iter"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
)

// setup is what a test watches, and how its runs go.
type setup struct {
	stream.Options
	stream.Run
}

// running is a Stream whose runs go as a Run says.
type running struct {
	*stream.Stream
	run stream.Run
}

// newRunning returns a Stream as stream.New does, or the error about its setup.
func newRunning(c dynamic.Interface, r gvr.Resource, o *setup) (*running, error) {
	if o == nil {
		o = &setup{}
	}
	s, err := stream.New(c, r, &o.Options)
	if err != nil {
		return nil, err
	}
	if err := stream.ErrorOf(s.With(o.Run)); err != nil {
		return nil, err
	}
	return &running{s, o.Run}, nil
}

func (r *running) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return r.With(r.run).Events(ctx)
}

func (r *running) Host(ctx context.Context, h host.Run) iter.Seq2[stream.Event, error] {
	return r.With(r.run).Host(ctx, h)
}

// newStream returns a Stream that reads paged lists. Most conversations are about what follows the snapshot.
func newStream(t *testing.T, c dynamic.Interface, o *setup) *running {
	t.Helper()
	if o == nil {
		o = &setup{}
	}
	o.Requests.PagedLists = true
	return streamOf(t, c, widgets(), o)
}

func streamOf(t *testing.T, c dynamic.Interface, r gvr.Resource, o *setup) *running {
	t.Helper()
	s, err := newRunning(c, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
