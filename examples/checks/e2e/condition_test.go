package e2e

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// Wait waits for widgets and globes of a real API server: creation, a status, deletion, and a recreated object.
func TestWaitForConditions(t *testing.T) {
	c := newCluster(t, shared.Config())
	resolver := newResolver(shared.Config(), false)
	widgetType, globeType := resolve(t, resolver, "widgets"), resolve(t, resolver, "globes.e2e.example.com")
	namespace, globe := unique("waiting"), unique("globe")
	door := condition.Target{Resource: widgetType.GroupResource().String(), Namespace: namespace, Name: "door"}
	world := condition.Target{Resource: globeType.GroupResource().String(), Name: globe}

	start := func(text string, targets ...condition.Target) <-chan error {
		t.Helper()
		m, err := mux.New(nil,
			newStream(t, c.client, widgetType, &stream.Options{Namespaces: []string{namespace}, Objects: stream.Raw}),
			newStream(t, c.client, globeType, &stream.Options{Name: globe}))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := condition.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range targets {
			targets[i].For = parsed
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		go func() {
			defer cancel()
			done <- condition.Wait(ctx, m, targets...)
		}()
		if !poll(ctx, timeout, func() bool { return m.Status().AllSynced || len(done) > 0 }) {
			t.Fatal("the Mux is not synced")
		}
		return done
	}
	waits := func(done <-chan error) {
		t.Helper()
		select {
		case err := <-done:
			t.Fatalf("Wait returned early: %v", err)
		default:
		}
	}
	met := func(what string, done <-chan error) {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	label := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"state":"` + value + `"}}}`)
		objects := c.objects(widgets, namespace)
		_, err := objects.Patch(t.Context(), "door", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}

	created := start("create", door, world)
	c.create(widgets, namespace, "door")
	waits(created)
	c.create(globes, "", globe)
	met("create", created)

	open := start("jsonpath={.metadata.labels.state}=open", door)
	label("shut")
	c.delete(widgets, namespace, "door")
	c.create(widgets, namespace, "door")
	waits(open)
	label("open")
	met("the label", open)

	deleted := start("delete", door, world)
	c.delete(widgets, namespace, "door")
	c.create(widgets, namespace, "door") // another object
	waits(deleted)
	c.delete(globes, "", globe)
	met("delete", deleted)

	once := newStream(t, c.client, widgetType, &stream.Options{Namespaces: []string{unique("empty")}}).
		With(stream.Run{Until: stream.UntilSynced})
	every := condition.Target{For: condition.MustParse("condition=Ready")}
	if err := condition.Wait(t.Context(), once, every); !errors.Is(err, condition.ErrNoObjects) {
		t.Errorf("without objects: %v", err)
	}
}
