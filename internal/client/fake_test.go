package client_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
)

// says is a client that says whether it lacks streaming lists.
type says struct {
	dynamic.Interface
	lacks bool
}

func (s says) IsWatchListSemanticsUnSupported() bool { return s.lacks }

func (says) ClearActions() {}

// TestIsFake: with each client-go, also with 0.34, whose fake does not say that it is one.
func TestIsFake(t *testing.T) {
	f := fake.NewSimpleDynamicClient(runtime.NewScheme())
	plain, err := dynamic.NewForConfig(&rest.Config{Host: "http://server"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := client.New(&rest.Config{Host: "http://server"}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		why  string
		c    dynamic.Interface
		want bool
	}{
		{"client-go's fake", f, true},
		{"a test double that embeds the fake", struct{ *fake.FakeDynamicClient }{f}, true},
		{"what a fake says counts more than its methods", says{f, false}, false},
		{"a double that says it", says{plain, true}, true},
		{"the fake behind the interface: only dynamic.Interface is left", struct{ dynamic.Interface }{f}, false},
		{"client-go's client", plain, false},
		{"our client", own, false},
		{"none", nil, false},
	} {
		if got := client.IsFake(tt.c); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.why, got, tt.want)
		}
	}
}
