package e2e

import (
	"context"
	"errors"
	"fmt"
	"go/format"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

func TestReadmeProgram(t *testing.T) {
	inReadme := between(t, "../../README.md", "```go\n", "```")
	formatted, err := format.Source([]byte("package p\n" + inReadme))
	if err != nil {
		t.Fatal(err)
	}
	here := "func watchDeployments(" + between(t, "readme_test.go", "\nfunc watchDeployments(", "\n}\n") + "\n}\n"
	if diff := cmp.Diff(here, strings.TrimPrefix(string(formatted), "package p\n\n")); diff != "" {
		t.Errorf("the README's program is not the one that runs here (-here +README):\n%s", diff)
	}

	srv := startServer(t, nil)
	c := newCluster(t, srv.Config())
	deployments := devserver.CRD{Group: "readme.example.com", Kind: "Deployment", ShortNames: []string{"deploy"}, Namespaced: true}
	if err := devserver.CreateCRDs(t.Context(), c.client, deployments); err != nil {
		t.Fatal(err)
	}
	resolve(t, newResolver(srv.Config(), false), "deploy")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := srv.Config()
	watching := make(chan bool)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("watch") {
				close(watching)
			}
			return rt.RoundTrip(r)
		})
	})
	go func() {
		<-watching
		cancel()
	}()
	if err := watchDeployments(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func watchDeployments(ctx context.Context, cfg *rest.Config) error {
	resolver := discovery.NewResolver(clientdiscovery.NewDiscoveryClientForConfigOrDie(cfg), nil)
	ref, err := gvr.ParseRef("deploy") // or Deployment, deployments.apps, apps/v1/Deployment ...
	if err != nil {
		return err
	}
	resource, err := resolver.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	s, err := stream.New(dynamic.NewForConfigOrDie(cfg), resource, &stream.Options{Namespace: "default"})
	if err != nil {
		return err
	}
	for ev, err := range s.Events(ctx) {
		if err != nil {
			return err
		}
		if ev.Object != nil {
			fmt.Println(ev.Type, ev.Object.GetName())
		}
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// between returns what stands in a file between the first begin and the next end.
func between(t *testing.T, file, begin, end string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), begin)
	text, _, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no text between %q and %q", file, begin, end)
	}
	return text
}
