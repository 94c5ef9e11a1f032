package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// flood is a server that has no objects, and whose watches tell as many changes as
// there shall be, as fast as they are read.
type flood struct {
	last    int
	watches atomic.Int64
}

const floodBegin = 1000

func (f *flood) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if q.Get("watch") == "" {
		return list(strconv.Itoa(floodBegin), "")(r)
	}
	f.watches.Add(1)
	rv, err := strconv.Atoi(q.Get("resourceVersion"))
	if err != nil {
		return nil, err
	}
	pr, pw := io.Pipe()
	go func() {
		<-r.Context().Done()
		_ = pw.CloseWithError(context.Cause(r.Context()))
	}()
	go func() {
		var b bytes.Buffer
		for rv++; rv <= f.last; rv++ {
			fmt.Fprintf(&b, `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"o%d","namespace":"default",`+
				`"uid":"uid-%d","resourceVersion":"%d","labels":{"app":"web","tier":"front"}},"spec":{"replicas":3,"image":"registry.example.com/web:1.2.3",`+
				`"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},"status":{"ready":3,"conditions":[{"type":"Ready","status":"True"}]}}}`+"\n", rv%100, rv%100, rv)
			if b.Len() > 32<<10 || rv == f.last {
				if _, err := pw.Write(b.Bytes()); err != nil {
					return
				}
				b.Reset()
			}
		}
	}()
	return respond(200, pr)
}

// BenchmarkShared is an event of a watch, told by each of so many Streams.
func BenchmarkShared(b *testing.B) {
	for _, bm := range []struct {
		name   string
		n      int
		shared bool
	}{{"own", 1, false}, {"alone", 1, true}, {"two-own", 2, false}, {"two-shared", 2, true}, {"eight-own", 8, false}, {"eight-shared", 8, true}} {
		b.Run(bm.name, func(b *testing.B) {
			f := &flood{last: floodBegin + b.N}
			client := dynamic.NewForConfigOrDie(&rest.Config{Host: "http://flood", Transport: f, QPS: -1})
			var all *stream.Connections
			if bm.shared {
				all = stream.NewConnections()
			}
			b.ReportAllocs()
			var synced, wg sync.WaitGroup
			synced.Add(bm.n)
			for range bm.n {
				s, err := stream.New(client, widgets(), &stream.Options{InitialList: stream.ListPaged})
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					n := 0
					for ev, err := range s.EventsWith(b.Context(), stream.Range{Connections: all}) {
						if err != nil {
							b.Error(err)
						}
						if ev.Type == stream.Synced {
							synced.Done()
							synced.Wait() // then all begin together
						} else if n++; n == b.N {
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(f.watches.Load()), "watches")
		})
	}
}
