package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

var crds = func() (all []devserver.CRD) {
	for _, kind := range []string{"Widget", "Gadget", "Robot", "Planet", "Lamp", "Boat"} {
		all = append(all, devserver.CRD{Group: "chaos.example.com", Kind: kind, Namespaced: kind != "Planet"})
	}
	return all
}()

// password is a value of all objects, which a rule of the replicas redacts.
const password = "hunter2"

// What the rarer objects have, by their names. An API server accepts all of this.
var (
	longest = strings.Repeat("n", 253)
	unusual = []string{"deep", "large", longest}
)

const (
	deep  = 9_000     // levels
	large = 1_000_000 // bytes
)

// spec returns that of a new object.
func spec(name string, r *rand.Rand) map[string]any {
	s := map[string]any{"n": r.Int64(), "password": password}
	switch name {
	case "deep":
		for range deep {
			s = map[string]any{"password": s}
		}
	case "large":
		s["text"] = strings.Repeat("x", large)
	}
	return s
}

// writer changes objects until ctx ends, and returns the states that it has written. While the API server is down it
// tries on.
func writer(ctx context.Context, client dynamic.Interface, r *rand.Rand) (written []acked) {
	for ctx.Err() == nil {
		crd := crds[r.IntN(len(crds))]
		namespace := ""
		if crd.Namespaced {
			namespace = fmt.Sprintf("ns%d", r.IntN(3))
		}
		name := fmt.Sprintf("o%d", r.IntN(30))
		if r.IntN(40) == 0 {
			name = unusual[r.IntN(len(unusual))]
		}
		o, err := change(ctx, client.Resource(crd.Resource()).Namespace(namespace), crd, name, r)
		if err == nil && o != nil {
			written = append(written, acked{
				write{crd.Resource().Resource, string(o.GetUID()), o.GetResourceVersion()}, time.Now(),
			})
		}
		select {
		case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return written
}

// change creates, updates or deletes an object, or replaces it by another one of its name. It returns the new state,
// unless it has deleted the object.
func change(
	ctx context.Context, c dynamic.ResourceInterface, crd devserver.CRD, name string, r *rand.Rand,
) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec(name, r)}}
	o.SetAPIVersion(crd.Group + "/v1")
	o.SetKind(crd.Kind)
	o.SetName(name)
	switch r.IntN(8) {
	case 0, 1:
		return nil, c.Delete(ctx, name, metav1.DeleteOptions{})
	case 2:
		if err := c.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
		return c.Create(ctx, o, metav1.CreateOptions{})
	case 3, 4, 5:
		patch := fmt.Appendf(nil, `{"spec":{"n":%d}}`, r.Int64())
		return c.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return c.Create(ctx, o, metav1.CreateOptions{})
}

// existing returns what exists, by uid.
func existing(ctx context.Context, client dynamic.Interface) (map[string]string, error) {
	all := map[string]string{}
	for _, crd := range crds {
		list, err := client.Resource(crd.Resource()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			all[string(o.GetUID())] = o.GetResourceVersion()
		}
	}
	return all, nil
}
