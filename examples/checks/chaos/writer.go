package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	// perNamespace is how many objects of a type may exist in a namespace.
	perNamespace = 12
	// writePause is the mean pause of a writer between two writes.
	writePause = 110 * time.Millisecond
	// selected is a label that about half of the objects have at any time: chaos=in.
	selected      = "chaos"
	selectedValue = "in"
)

// writer creates, changes and deletes the objects of one type. A write that fails is not repeated.
type writer struct {
	info    crdInfo
	rand    *rand.Rand
	clients func() []dynamic.Interface // of the servers that run
	tried   int
	failed  int
	version int // index of the version that the writer uses
}

func (w *writer) run(ctx context.Context) {
	for burst := 0; ctx.Err() == nil; {
		w.tried++
		err := w.write(ctx)
		if err != nil {
			w.failed++
			w.version++ // perhaps another version is served
			burst = 0
		}
		switch {
		case err == nil && burst > 0:
			burst--
			continue
		case w.rand.IntN(150) == 0:
			burst = 10 + w.rand.IntN(30)
		}
		pause := time.Duration(w.rand.Int64N(int64(2 * writePause)))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// write does one thing to one object.
func (w *writer) write(ctx context.Context) error {
	namespace := ""
	if w.info.Namespaced {
		namespace = namespaces[w.rand.IntN(len(namespaces))]
	}
	name := fmt.Sprint("o-", w.rand.IntN(perNamespace))
	what, in := w.rand.IntN(10), w.rand.IntN(2) == 0
	objects, err := w.objects(namespace)
	if err != nil {
		return err
	}
	switch {
	case what < 4:
		err = w.patch(ctx, objects, name, map[string]any{
			"metadata": map[string]any{"labels": labels(in)},
			"spec":     map[string]any{"n": w.tried},
		})
	case what < 6:
		err = w.patch(ctx, objects, name, map[string]any{"status": map[string]any{"n": w.tried}}, "status")
	case what < 8:
		err = objects.Delete(ctx, name, metav1.DeleteOptions{})
	default: // delete, and create again under the same name
		err = objects.Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil {
			err = w.create(ctx, objects, name, in)
		}
	}
	if apierrors.IsNotFound(err) {
		return w.create(ctx, objects, name, in)
	}
	return err
}

// objects spreads the writes over the servers.
func (w *writer) objects(namespace string) (dynamic.ResourceInterface, error) {
	clients := w.clients()
	if len(clients) == 0 {
		return nil, fmt.Errorf("no server runs")
	}
	resource := w.info.GVR
	resource.Version = w.info.Versions[w.version%len(w.info.Versions)]
	client := clients[w.tried%len(clients)].Resource(resource)
	if w.info.Namespaced {
		return client.Namespace(namespace), nil
	}
	return client, nil
}

func (w *writer) patch(
	ctx context.Context, c dynamic.ResourceInterface, name string, patch map[string]any, subresources ...string,
) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	return err
}

func (w *writer) create(ctx context.Context, c dynamic.ResourceInterface, name string, in bool) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + w.info.Versions[w.version%len(w.info.Versions)], "kind": w.info.Kind,
		"metadata": map[string]any{"name": name, "labels": labels(in)},
		"spec":     map[string]any{"n": int64(w.tried)},
	}}
	_, err := c.Create(ctx, o, metav1.CreateOptions{})
	return err
}

// labels are those of an object that is in or out of the selector, as a merge patch.
func labels(in bool) map[string]any {
	if in {
		return map[string]any{selected: selectedValue}
	}
	return map[string]any{selected: "out"}
}
