package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// timeout limits each wait for something that must happen. On an idle machine the waits take milliseconds, or a few
// seconds of backoff.
const timeout = time.Minute

// poll calls done every few milliseconds until it reports true, and returns whether it did in time.
func poll(ctx context.Context, within time.Duration, done func() bool) bool {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, within, true, func(context.Context) (bool, error) {
		return done(), nil
	}) == nil
}

var (
	widgets = devserver.CRD{
		Group: "e2e.example.com", Kind: "Widget", ShortNames: []string{"wd"}, Categories: []string{"all"},
		Namespaced: true, Versions: []string{"v1", "v1beta1", "trial"},
	}
	globes = devserver.CRD{Group: "e2e.example.com", Kind: "Globe"}
	// otherGlobes makes the name "globes" ambiguous.
	otherGlobes = devserver.CRD{Group: "other.example.com", Kind: "Globe", Namespaced: true}
)

// shared is the server of all tests that need no server of their own. It serves its CRDs already when the tests start,
// so objects can be created without delay.
var shared *devserver.Server

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if order := os.Getenv(relayVariable); order != "" {
		if err := relay(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if order := os.Getenv(serveVariable); order != "" {
		if err := serve(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if os.Getenv(endlessVariable) != "" {
		if err := serveEndless(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	flag.Set("test.parallel", "12") // the default here, because the tests mostly wait
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped with -short: these tests start API servers and take seconds each")
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var err error
	if shared, err = devserver.Start(ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.Stop()
	client := dynamic.NewForConfigOrDie(shared.Config())
	if err := devserver.CreateCRDs(ctx, client, widgets, globes, otherGlobes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func newResolver(cfg *rest.Config, legacy bool) *discovery.Resolver {
	c := clientdiscovery.NewDiscoveryClientForConfigOrDie(cfg)
	c.UseLegacyDiscovery = legacy
	return discovery.NewResolver(c, 0)
}

// resolve waits until a name resolves, since discovery lags behind serving.
func resolve(t *testing.T, r *discovery.Resolver, name string) gvr.Resource {
	t.Helper()
	ref, err := gvr.ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		res, err := r.Resolve(ctx, ref)
		var notFound *discovery.NotFoundError
		if err == nil {
			return res
		}
		if !errors.As(err, &notFound) {
			t.Fatal(err)
		}
	}
}

// cluster creates, changes and deletes objects on a server, and records these writes.
type cluster struct {
	t      *testing.T
	client dynamic.Interface
	label  string // each object has the label test=label
	writes []write
}

// write is a change that the server acknowledged.
type write struct {
	kind          stream.Type
	uid, name, rv string
}

func newCluster(t *testing.T, cfg *rest.Config) *cluster {
	return &cluster{t: t, client: dynamic.NewForConfigOrDie(cfg), label: unique("test")}
}

var uniques atomic.Int64

// unique returns a name that is used once on the shared server, even if a test runs several times.
func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, uniques.Add(1)) }

func (c *cluster) objects(crd devserver.CRD, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.client.Resource(crd.Resource())
	}
	return c.client.Resource(crd.Resource()).Namespace(namespace)
}

func newObject(crd devserver.CRD, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	o.SetAPIVersion(crd.Resource().GroupVersion().String())
	o.SetKind(crd.Kind)
	o.SetName(name)
	return o
}

func (c *cluster) create(crd devserver.CRD, namespace, name string) *unstructured.Unstructured {
	c.t.Helper()
	o := newObject(crd, name)
	o.SetLabels(map[string]string{"test": c.label})
	got, err := c.objects(crd, namespace).Create(c.t.Context(), o, metav1.CreateOptions{})
	c.note(stream.Added, got, err)
	return got
}

// touch modifies an object.
func (c *cluster) touch(crd devserver.CRD, namespace, name string) {
	c.t.Helper()
	o, err := c.objects(crd, namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	size, _, _ := unstructured.NestedInt64(o.Object, "spec", "size")
	if err := unstructured.SetNestedField(o.Object, size+1, "spec", "size"); err != nil {
		c.t.Fatal(err)
	}
	o, err = c.objects(crd, namespace).Update(c.t.Context(), o, metav1.UpdateOptions{})
	c.note(stream.Modified, o, err)
}

// delete deletes an object. The write has no version, because the answer to a DELETE of a custom resource has none.
func (c *cluster) delete(crd devserver.CRD, namespace, name string) {
	c.t.Helper()
	o, err := c.objects(crd, namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	err = c.objects(crd, namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{})
	o.SetResourceVersion("")
	c.note(stream.Deleted, o, err)
}

func (c *cluster) note(kind stream.Type, o *unstructured.Unstructured, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.writes = append(c.writes, write{kind, string(o.GetUID()), o.GetName(), o.GetResourceVersion()})
}
