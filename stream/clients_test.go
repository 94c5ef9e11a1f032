package stream_test

import (
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// clientKinds are the clients that a Stream may have, and keeps its promises on.
var clientKinds = []string{"client-go", "ours", "ours with workers"}

func clientOf(t testing.TB, srv *streamtest.Server, kind string) dynamic.Interface {
	t.Helper()
	var o stream.ClientOptions
	switch kind {
	case "client-go":
		return srv.Client()
	case "ours with workers":
		o.DecodeWorkers = 3
	}
	c, err := stream.NewClient(srv.Config(), &o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
