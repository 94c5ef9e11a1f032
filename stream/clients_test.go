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

// clientKinds are the clients on which a Stream must keep its promises.
var clientKinds = []string{"client-go", "NewClient"}

func clientOf(t testing.TB, srv *streamtest.Server, kind string) dynamic.Interface {
	t.Helper()
	if kind == "client-go" {
		return srv.Client()
	}
	c, err := stream.NewClient(srv.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// variant is a client that tests compare with another one.
type variant struct {
	name string
	opts *stream.ClientOptions // nil for client-go's client
}

var stock = variant{name: "client-go"}

// variants returns clients that NewClient makes.
func variants() []variant {
	return []variant{
		{"plain", &stream.ClientOptions{}},
		{"no managedFields", &stream.ClientOptions{DropManagedFields: true}},
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

func TestNewClientChecksItsOptions(t *testing.T) {
	for _, tt := range []struct {
		why     string
		options *stream.ClientOptions
		valid   bool
	}{
		{"no options", nil, true},
		{"the zero value", &stream.ClientOptions{}, true},
		{"each option", &stream.ClientOptions{DropManagedFields: true, RetriesPerSecond: 1}, true},
		{"a negative number of retries", &stream.ClientOptions{RetriesPerSecond: -1}, false},
	} {
		c, err := stream.NewClient(&rest.Config{Host: "http://server"}, tt.options)
		var invalid *stream.OptionsError
		switch {
		case tt.valid && (err != nil || c == nil):
			t.Errorf("%s: %v", tt.why, err)
		case !tt.valid && (!errors.As(err, &invalid) || invalid.Field != "ClientOptions.RetriesPerSecond"):
			t.Errorf("%s: want an OptionsError about RetriesPerSecond, got %v", tt.why, err)
		}
	}
}
