package discovery_test

import (
	"context"
	"fmt"
	"go/format"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// The test is in the README's own module, because go test would otherwise reuse a
// cached result after a change of the README.
func TestReadmeProgramRuns(t *testing.T) {
	const begin = "\nfunc watchDeployments("
	formatted, err := format.Source([]byte("package p\n" + begin + between(t, "../README.md", begin, "```")))
	if err != nil {
		t.Fatal(err)
	}
	here := "package p\n" + begin + between(t, "readme_test.go", begin, "\n}\n") + "\n}\n"
	if diff := cmp.Diff(here, string(formatted)); diff != "" {
		t.Errorf("the README has another program than this test (-test +README):\n%s", diff)
	}

	// The program resolves the name and requests the objects, which this server lacks.
	s := newAPIServer(t, cluster()...)
	err = watchDeployments(t.Context(), s.config)
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "can't watch deployments.v1.apps") {
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
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return err
	}
	s, err := stream.New(client, resource, &stream.Options{Namespaces: []string{"default"}})
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

// between returns the text of a file between the first begin and the next end.
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
