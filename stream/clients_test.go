package stream_test

import (
	"errors"
	"net/http"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

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

// variant is a client that is compared with others.
type variant struct {
	name string
	opts *stream.ClientOptions // nil for client-go's
}

var stock = variant{name: "client-go"}

// variants are clients of NewClient.
func variants() []variant {
	return []variant{
		{"plain", &stream.ClientOptions{}},
		{"3 workers", &stream.ClientOptions{DecodeWorkers: 3}},
		{"no managedFields", &stream.ClientOptions{DropManagedFields: true}},
		{"no managedFields, 2 workers", &stream.ClientOptions{DropManagedFields: true, DecodeWorkers: 2}},
	}
}

func (v variant) client(t testing.TB, transport http.RoundTripper) dynamic.Interface {
	t.Helper()
	cfg := &rest.Config{Host: "http://server.test", QPS: -1, Transport: transport, WarningHandler: rest.NoWarnings{}}
	c, err := dynamic.Interface(nil), error(nil)
	if v.opts == nil {
		c, err = dynamic.NewForConfig(cfg)
	} else {
		c, err = stream.NewClient(cfg, v.opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientOptions(t *testing.T) {
	for _, tt := range []struct {
		why     string
		options *stream.ClientOptions
		right   bool
	}{
		{"none", nil, true},
		{"the zero value", &stream.ClientOptions{}, true},
		{"fewer than none", &stream.ClientOptions{DecodeWorkers: -1}, false},
		{"as many as there may be", &stream.ClientOptions{DecodeWorkers: 64, DropManagedFields: true}, true},
		{"more than that", &stream.ClientOptions{DecodeWorkers: 65}, false},
	} {
		c, err := stream.NewClient(&rest.Config{Host: "http://server"}, tt.options)
		var wrong *stream.OptionsError
		switch {
		case tt.right && (err != nil || c == nil):
			t.Errorf("%s: %v", tt.why, err)
		case !tt.right && (!errors.As(err, &wrong) || wrong.Option != "ClientOptions.DecodeWorkers"):
			t.Errorf("%s: want an OptionsError about DecodeWorkers, got %v", tt.why, err)
		}
	}
}
