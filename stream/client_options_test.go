package stream_test

import (
	"errors"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

func TestClientOptions(t *testing.T) {
	tests := []struct {
		why     string
		options *stream.ClientOptions
		wrong   string // the option that is
	}{
		{"none", nil, ""},
		{"the zero value", &stream.ClientOptions{}, ""},
		{"all", &stream.ClientOptions{DropManagedFields: true, Drop: [][]string{{"status"}, {"metadata", "annotations", "a.b/c"}}, DecodeWorkers: 2, Compression: true}, ""},
		{"fewer than none", &stream.ClientOptions{DecodeWorkers: -1}, "ClientOptions.DecodeWorkers"},
		{"as many as there may be", &stream.ClientOptions{DecodeWorkers: 64}, ""},
		{"more than that", &stream.ClientOptions{DecodeWorkers: 65}, "ClientOptions.DecodeWorkers"},
		{"no path", &stream.ClientOptions{Drop: [][]string{{}}}, "ClientOptions.Drop"},
		{"an empty part", &stream.ClientOptions{Drop: [][]string{{"spec", ""}}}, "ClientOptions.Drop"},
		{"what it is", &stream.ClientOptions{Drop: [][]string{{"kind"}}}, "ClientOptions.Drop"},
		{"likewise", &stream.ClientOptions{Drop: [][]string{{"apiVersion"}}}, "ClientOptions.Drop"},
		{"which one it is", &stream.ClientOptions{Drop: [][]string{{"metadata"}}}, "ClientOptions.Drop"},
		{"its name", &stream.ClientOptions{Drop: [][]string{{"metadata", "name"}}}, "ClientOptions.Drop"},
		{"what would be below its name", &stream.ClientOptions{Drop: [][]string{{"metadata", "name", "first"}}}, "ClientOptions.Drop"},
		{"its namespace", &stream.ClientOptions{Drop: [][]string{{"metadata", "namespace"}}}, "ClientOptions.Drop"},
		{"its uid", &stream.ClientOptions{Drop: [][]string{{"metadata", "uid"}}}, "ClientOptions.Drop"},
		{"its version", &stream.ClientOptions{Drop: [][]string{{"spec"}, {"metadata", "resourceVersion"}}}, "ClientOptions.Drop"},
		{"a field that is only called like them", &stream.ClientOptions{Drop: [][]string{{"spec", "kind"}, {"name"}}}, ""},
	}
	for _, tt := range tests {
		c, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: http.DefaultTransport}, tt.options)
		var wrong *stream.OptionsError
		switch {
		case tt.wrong == "" && (err != nil || c == nil):
			t.Errorf("%s: %v", tt.why, err)
		case tt.wrong != "" && (!errors.As(err, &wrong) || wrong.Option != tt.wrong):
			t.Errorf("%s: want an OptionsError about %s, got %v", tt.why, tt.wrong, err)
		}
	}
}
