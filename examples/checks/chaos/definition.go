package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

const group = "chaos.example.com"

// namespaces are those of all namespaced objects. They need not exist.
var namespaces = []string{"ns-a", "ns-b", "ns-c"}

// crdInfo describes a resource that clients may watch.
type crdInfo struct {
	GVR        schema.GroupVersionResource // in its first version
	Kind       string
	Namespaced bool
	Versions   []string
	Changing   string // what faults change: "", "schema", "versions" or "recreated"
}

// resource returns the name of the resource in changes and reports.
func (c crdInfo) resource() string { return c.GVR.Resource + "." + c.GVR.Group }

// definition is a CRD that faults change. Its methods are called by one goroutine at a time.
type definition struct {
	info     crdInfo
	storage  string   // version that is stored
	unserved []string // versions that are not served
	extra    bool     // whether the schema has a further property
}

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// definitions are all CRDs.
type definitions []*definition

func newDefinitions() (all definitions) {
	add := func(kind, changing string, namespaced bool, versions ...string) {
		d := devserver.CRD{Group: group, Kind: kind, Namespaced: namespaced, Versions: versions}
		info := crdInfo{
			GVR: d.Resource(), Kind: kind, Namespaced: namespaced, Versions: versions, Changing: changing,
		}
		all = append(all, &definition{info: info, storage: versions[0]})
	}
	add("Widget", "", true, "v1")
	add("Globe", "", false, "v1")
	add("Gadget", "versions", true, "v1", "v1beta1")
	add("Planet", "schema", false, "v1")
	add("Bolt", "recreated", true, "v1")
	return all
}

// changing returns the type that a fault changes.
func (all definitions) changing(what string) *definition {
	for _, d := range all {
		if d.info.Changing == what {
			return d
		}
	}
	panic("no type is " + what)
}

// resources returns what clients may watch.
func (all definitions) resources() []crdInfo {
	var infos []crdInfo
	for _, d := range all {
		infos = append(infos, d.info)
	}
	return infos
}

// apply makes all CRDs as they should be.
func (all definitions) apply(ctx context.Context, client dynamic.Interface) error {
	for _, d := range all {
		if err := d.apply(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// object returns the CRD as it should be. It has a status subresource.
func (d *definition) object() *unstructured.Unstructured {
	i := d.info
	o := devserver.CRD{Group: group, Kind: i.Kind, Namespaced: i.Namespaced, Versions: i.Versions}.Object()
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		v := v.(map[string]any)
		name := v["name"].(string)
		v["served"], v["storage"] = !slices.Contains(d.unserved, name), name == d.storage
		v["subresources"] = map[string]any{"status": map[string]any{}}
		if d.extra {
			must(unstructured.SetNestedField(v, "string", "schema", "openAPIV3Schema", "properties", "extra", "type"))
		}
	}
	must(unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"))
	return o
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// apply creates or changes the CRD, and returns when the server behaves as it says.
func (d *definition) apply(ctx context.Context, client dynamic.Interface) error {
	crds := client.Resource(crdResource)
	return retry(ctx, "apply the CRD of "+d.info.resource(), func() error {
		want := d.object()
		got, err := crds.Get(ctx, want.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = crds.Create(ctx, want, metav1.CreateOptions{})
		case err == nil && got.GetDeletionTimestamp() != nil:
			err = fmt.Errorf("it is being deleted")
		case err == nil:
			want.SetResourceVersion(got.GetResourceVersion())
			_, err = crds.Update(ctx, want, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		for _, version := range d.info.Versions {
			resource := d.info.GVR
			resource.Version = version
			_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
			if slices.Contains(d.unserved, version) {
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("version %s is still served (%v)", version, err)
				}
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

// remove deletes the CRD and its objects, and returns when they are gone.
func (d *definition) remove(ctx context.Context, client dynamic.Interface) error {
	crds := client.Resource(crdResource)
	return retry(ctx, "delete the CRD of "+d.info.resource(), func() error {
		err := crds.Delete(ctx, d.object().GetName(), metav1.DeleteOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("it still exists")
		}
		return err
	})
}

// retry repeats f until it succeeds or ctx ends.
func retry(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
