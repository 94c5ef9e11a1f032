package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const crd = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
metadata: {name: podlikes.bench.example.com}, spec: {group: bench.example.com, scope: Namespaced,
names: {plural: podlikes, singular: podlike, kind: PodLike}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// startDevserver starts an API server, and creates objects. The server is another program, because its packages
// would add to the memory of the peers.
func startDevserver(ctx context.Context, temp string, objects int) (kubeconfig string, stop func(), err error) {
	program := filepath.Join(temp, "server")
	build := exec.CommandContext(ctx, "go", "build", "-o", program,
		"github.com/gvrwatch/gvrwatch/examples/devserver/cmd/devserver")
	if out, err := build.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, program, "-dir", filepath.Join(temp, "devserver"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	stop = func() { cancel(); c.Wait() }
	out, err := c.StdoutPipe()
	if err = errors.Join(err, c.Start()); err == nil {
		var ready struct{ Kubeconfig string }
		err = json.NewDecoder(out).Decode(&ready)
		kubeconfig = ready.Kubeconfig
	}
	if err == nil {
		create := measurement{Peer: peer{Name: "create"}, Kind: "devserver", Load: scenario{Objects: objects}}
		_, err = job{Measurement: create, Server: kubeconfig}.do(ctx)
	}
	if err != nil {
		stop()
	}
	return kubeconfig, stop, err
}

// create creates the CRD and its objects, which are pods in all but name.
func create(l *lap) {
	ctx, client, u := context.Background(), stock(l), &unstructured.Unstructured{}
	check(yaml.Unmarshal([]byte(crd), &u.Object))
	crds := resource("apiextensions.k8s.io", "CustomResourceDefinition").GroupVersionResource
	_, err := client.Resource(crds).Create(ctx, u, metav1.CreateOptions{})
	check(err)
	objects := client.Resource(l.resource.GroupVersionResource)
	for err := errors.New("not served"); err != nil; time.Sleep(100 * time.Millisecond) {
		_, err = objects.List(ctx, metav1.ListOptions{})
	}
	a := request{run: &run{load: l.of.Load}}
	frames := newServer().render(a.form, small, "", l.of.Load.Objects)
	var writers errgroup.Group
	writers.SetLimit(8)
	for n := range l.of.Load.Objects {
		writers.Go(func() error {
			var event struct{ Object map[string]any }
			check(json.Unmarshal(a.existing(nil, frames, n), &event))
			u := &unstructured.Unstructured{Object: event.Object}
			u.SetGroupVersionKind(l.resource.GroupVersion().WithKind(l.resource.Kind))
			u.SetResourceVersion("")
			u.SetManagedFields(nil) // the server sets its own
			_, err := objects.Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
			return err
		})
	}
	check(writers.Wait())
	fmt.Println("{}") // no figures
	os.Exit(0)
}
