package mux_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// flood answers each watch of widgets with prepared events, and then stays silent.
type flood struct {
	http.RoundTripper
	frames []byte
}

func newFlood(next http.RoundTripper, events int) *flood {
	f := &flood{RoundTripper: next}
	for i := range events {
		f.frames = fmt.Appendf(f.frames, `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Widget",`+
			`"metadata":{"name":"w%d","namespace":"one","uid":"00000000-0000-4000-8000-%012d","resourceVersion":"%d"},`+
			`"spec":{%s"z":1}}}`+"\n",
			i%100, i%100, 1000+i, strings.Repeat(`"key":{"a":[1,"two",{"three":4}]},`, 20))
	}
	return f
}

func (f *flood) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/widgets") || r.URL.Query().Get("watch") != "true" {
		return f.RoundTripper.RoundTrip(r)
	}
	silence, end := io.Pipe()
	context.AfterFunc(r.Context(), func() { end.CloseWithError(r.Context().Err()) })
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body: struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(f.frames), silence), silence},
	}, nil
}

// Alone, in a Mux and followed, a Stream does not decode what Select rejects.
func TestSelectSeesMetadataBeforeDecoding(t *testing.T) {
	const events, from, most = 2000, 200, 5.0
	type sequence = iter.Seq2[stream.Event, error]
	for _, tt := range []struct {
		name string
		from func(*testing.T, context.Context, *flooded) sequence
	}{
		{"Stream", func(t *testing.T, ctx context.Context, f *flooded) sequence { return f.stream(t).Events(ctx) }},
		{"Mux", func(t *testing.T, ctx context.Context, f *flooded) sequence {
			return newMux(t, nil, f.stream(t)).Events(ctx)
		}},
		{"Mux, Latest", func(t *testing.T, ctx context.Context, f *flooded) sequence {
			return newMux(t, &mux.Options{Overflow: mux.Latest}, f.stream(t)).Events(ctx)
		}},
		{"Follow", func(t *testing.T, ctx context.Context, f *flooded) sequence {
			dc, err := discovery.NewClient(f.srv.Config())
			if err != nil {
				t.Fatal(err)
			}
			opts := &follow.Options{Source: func(gvr.Resource) (stream.Options, stream.Run) {
				return f.options, stream.Run{}
			}}
			m, err := follow.New(discovery.NewResolver(dc, 0), f.client,
				follow.Selection{Resources: []string{"widgets"}}, opts)
			if err != nil {
				t.Fatal(err)
			}
			return m.Events(ctx)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTimeUp)
			defer cancel()
			var begin, end runtime.MemStats
			asked, decoded := 0, 0
			f := newFlooded(t, events)
			f.options = stream.Options{Requests: stream.Requests{PagedLists: true}, Select: func(m stream.Meta) bool {
				if _, ok := m.(kruntime.Unstructured); ok {
					decoded++
				}
				switch asked++; asked {
				case from:
					runtime.ReadMemStats(&begin)
				case events:
					runtime.ReadMemStats(&end)
					cancel()
				}
				return false
			}}
			for ev, err := range tt.from(t, ctx, f) {
				if err == nil && ev.Object != nil {
					t.Errorf("%s is delivered", ev)
				}
			}
			if asked < events || decoded > 0 {
				t.Errorf("Select was asked about %d of %d objects, of which %d were decoded", asked, events, decoded)
			}
			if each := float64(end.Mallocs-begin.Mallocs) / (events - from); each > most {
				t.Errorf("%.1f allocations for each event that is rejected, want at most %.1f", each, most)
			}
		})
	}
}

// flooded is a server whose widgets change all the time.
type flooded struct {
	srv     *streamtest.Server
	client  dynamic.Interface
	options stream.Options
}

func newFlooded(t *testing.T, events int) *flooded {
	t.Helper()
	f := &flooded{srv: streamtest.NewServer(widgets())}
	cfg := f.srv.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return newFlood(next, events) })
	var err error
	if f.client, err = stream.NewClient(cfg, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *flooded) stream(t *testing.T) *stream.Stream {
	t.Helper()
	s, err := stream.New(f.client, widgets(), &f.options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
