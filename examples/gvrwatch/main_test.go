package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// testTimeout bounds each run of the program.
const testTimeout = time.Minute

var (
	srv    *devserver.Server
	boats  = devserver.CRD{Group: "cli.example.com", Kind: "Boat", Namespaced: true, ShortNames: []string{"bt"}}
	oceans = devserver.CRD{Group: "cli.example.com", Kind: "Ocean"}
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if args := os.Getenv(argsVariable); args != "" {
		os.Args = []string{"gvrwatch"}
		var given []string
		if err := json.Unmarshal([]byte(args), &given); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Args = append(os.Args, given...)
		main()
	}
	setLogging(0, io.Discard) // before the server starts, as in the program
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	var err error
	if srv, err = devserver.Start(ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer srv.Stop()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("KUBECONFIG", srv.Kubeconfig())
	return m.Run()
}

func prepare(ctx context.Context) error {
	client, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		return err
	}
	if err := devserver.CreateCRDs(ctx, client, boats, oceans); err != nil {
		return err
	}
	dc, err := clientdiscovery.NewDiscoveryClientForConfig(srv.Config())
	if err != nil {
		return err
	}
	for _, name := range []string{"boats", "oceans"} {
		if err := awaitResource(ctx, discovery.NewResolver(dc, 0), name); err != nil {
			return err
		}
	}
	for _, o := range []struct {
		crd             devserver.CRD
		namespace, name string
	}{{boats, "default", "argo"}, {boats, "harbour", "bounty"}, {oceans, "", "pacific"}} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
		u.SetAPIVersion(o.crd.Resource().GroupVersion().String())
		u.SetKind(o.crd.Kind)
		u.SetName(o.name)
		u.SetLabels(map[string]string{"name": o.name})
		c := client.Resource(o.crd.Resource()).Namespace(o.namespace)
		if _, err := c.Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// awaitResource waits until discovery lists a resource: it is served a moment before that.
func awaitResource(ctx context.Context, r *discovery.Resolver, name string) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := r.Resolve(ctx, gvr.Ref{Name: name})
		var none *discovery.NotFoundError
		if errors.As(err, &none) {
			return false, nil
		}
		return err == nil, err
	})
}

// skipIfShort skips a test that takes seconds.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it takes seconds (.ci/run runs it, without -short)")
	}
}

// runTool runs the program in this process.
func runTool(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	status, stderr = runToolTo(t, &out, args...)
	return status, out.String(), stderr
}

func runToolTo(t *testing.T, out io.Writer, args ...string) (status int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &locked{w: &errOut}}
	status = run(ctx, streams, args)
	if ctx.Err() != nil {
		t.Errorf("%v did not end within the test timeout", args)
	}
	return status, errOut.String()
}

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
