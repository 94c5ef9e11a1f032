package stream_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// endlessBody is the body of a watch that sends events as fast as they are read: of 1,000 pods in turn, 2.8 KB each.
type endlessBody struct {
	frames [][]byte
	at     []int // the offset of the resourceVersion in each frame
	rv     int
	rest   []byte // of the current frame
	most   int    // bytes that one Read returns
}

func newEndlessBody(protobuf bool) *endlessBody {
	t := &endlessBody{rv: 10_000_000, most: 4 << 10}
	for i := range 1000 {
		f := decodetest.PodEvent(i)
		if protobuf {
			f = decodetest.EventToProtobuf(f)
		}
		t.frames = append(t.frames, f)
		t.at = append(t.at, bytes.Index(f, []byte("10000000")))
	}
	return t
}

func (t *endlessBody) Close() error { return nil }

func (t *endlessBody) Read(p []byte) (n int, err error) {
	p = p[:min(len(p), t.most)]
	for n < len(p) {
		if len(t.rest) == 0 {
			i := t.rv % len(t.frames)
			t.rv++
			strconv.AppendInt(t.frames[i][:t.at[i]], int64(t.rv), 10)
			t.rest = t.frames[i]
		}
		m := copy(p[n:], t.rest)
		t.rest = t.rest[m:]
		n += m
	}
	return n, nil
}

// endlessServer is a server with empty lists and endless watches.
type endlessServer struct{}

func (endlessServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return list("10000000", "")(r)
	}
	kind, _, _ := strings.Cut(r.Header.Get("Accept"), ";")
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(newEndlessBody(kind == "application/vnd.kubernetes.protobuf"))}, nil
}

// BenchmarkWatch measures one event of a watch, without a network.
func BenchmarkWatch(b *testing.B) {
	pods := gvr.Resource{Kind: "Pod", Namespaced: true, Verbs: []string{"list", "watch"}}
	pods.Version, pods.Resource = "v1", "pods"
	for _, bm := range []struct {
		name    string
		client  *stream.ClientOptions // nil for client-go's client
		options *setup                // nil for the client's Watch, without a Stream
	}{
		{"dynamic", nil, nil},
		{"dynamic-on-ours", &stream.ClientOptions{}, nil},
		{"stream-on-stock", nil, &setup{}},
		{"stream", &stream.ClientOptions{}, &setup{}},
		{"stream-nomanaged", &stream.ClientOptions{DropManagedFields: true}, &setup{}},
		{"stream-raw", &stream.ClientOptions{}, &setup{Options: stream.Options{Objects: stream.Raw}}},
		{"stream-raw-nomanaged", &stream.ClientOptions{DropManagedFields: true},
			&setup{Options: stream.Options{Objects: stream.Raw}}},
		{"stream-metadata", &stream.ClientOptions{}, &setup{Options: stream.Options{Objects: stream.Metadata}}},
		{"stream-select-10%", &stream.ClientOptions{}, &setup{Options: stream.Options{Select: func(m stream.Meta) bool {
			name := m.GetName()
			return name[len(name)-1] == '7' && name[len(name)-2] < '8'
		}}}},
		{"stream-select-none", &stream.ClientOptions{},
			&setup{Options: stream.Options{Select: func(m stream.Meta) bool { return m.GetNamespace() == "" }}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			client := variant{bm.name, bm.client}.client(b, endlessServer{})
			if bm.options == nil {
				w, err := client.Resource(pods.GroupVersionResource).Watch(b.Context(), metav1.ListOptions{})
				if err != nil {
					b.Fatal(err)
				}
				defer w.Stop()
				for range b.N {
					<-w.ResultChan()
				}
				return
			}
			o := *bm.options
			o.Requests.PagedLists = true
			seen := 0
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			count := func() {
				if seen++; seen == b.N {
					cancel()
				}
			}
			selected := o.Select
			if selected != nil {
				o.Select = func(m stream.Meta) bool { count(); return selected(m) }
			}
			s, err := newRunning(client, pods, &o)
			if err != nil {
				b.Fatal(err)
			}
			for ev, err := range s.Events(ctx) {
				switch {
				case err != nil && ctx.Err() == nil:
					b.Fatal(err)
				case ev.Type == stream.Synced:
					b.ResetTimer()
				case selected == nil:
					count()
				}
			}
		})
	}
}

func mallocs(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.Mallocs - before.Mallocs)
}

// TestRejectedObjectsAreNotDecoded: an object that Options.Select rejects costs few allocations, even the first time.
func TestRejectedObjectsAreNotDecoded(t *testing.T) {
	for _, v := range variants() {
		for _, tt := range []struct {
			why          string
			events, most int
		}{{"each object is new", 900, 80}, {"most objects were seen before", 9000, 8}} {
			ctx, cancel := context.WithCancel(t.Context())
			seen := 0
			s := newStream(t, v.client(t, endlessServer{}),
				&setup{Options: stream.Options{Select: func(stream.Meta) bool {
					if seen++; seen == tt.events {
						cancel()
					}
					return false
				}}})
			n := mallocs(func() {
				for range s.Events(ctx) {
				}
			})
			cancel()
			if each := n / tt.events; each > tt.most {
				t.Errorf("%s (%s): %d allocations for each event, want at most %d", tt.why, v.name, each, tt.most)
			}
		}
	}
}

// BenchmarkMetadataWatch measures one event of client-go's metadata client, for comparison.
func BenchmarkMetadataWatch(b *testing.B) {
	client := metadata.NewForConfigOrDie(&rest.Config{Host: "http://server", Transport: endlessServer{}, QPS: -1})
	w, err := client.Resource(widgets().GroupVersionResource).Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	b.ReportAllocs()
	for b.Loop() {
		<-w.ResultChan()
	}
}
