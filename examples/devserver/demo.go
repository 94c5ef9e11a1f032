package devserver

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// DemoRobots and DemoPlanets are the custom resources of [WriteDemo].
var (
	DemoRobots = CRD{
		Group: "demo.example.com", Kind: "Robot", Namespaced: true, ShortNames: []string{"rob"},
		Columns: []string{"job", "battery"},
	}
	DemoPlanets = CRD{Group: "demo.example.com", Kind: "Planet", Columns: []string{"weather", "moons"}}
)

// demoPace is the time between two writes.
const demoPace = 350 * time.Millisecond

// WriteDemo creates, changes and deletes robots and planets until ctx ends: about three writes per second. A robot
// lives in the namespace assembly or paint-shop. Objects of an earlier call may exist.
func WriteDemo(ctx context.Context, client dynamic.Interface) error {
	factories := []string{"assembly", "paint-shop"}
	jobs := []string{"weld", "drill", "polish", "inspect"}
	moods := []string{"calm", "windy", "stormy"}
	for round := 0; ; round++ {
		name := fmt.Sprintf("robot-%d", round)
		robot := client.Resource(DemoRobots.Resource()).Namespace(factories[round%len(factories)])
		planetName := fmt.Sprintf("planet-%d", round)
		planet := client.Resource(DemoPlanets.Resource())
		last := round - 1 // of the first round nothing exists
		// A robot and a planet are created and changed, and those of the last round are deleted.
		steps := []func() error{
			create(ctx, robot, DemoRobots, name, map[string]any{"job": jobs[round%len(jobs)], "battery": int64(100)}),
			create(ctx, planet, DemoPlanets, planetName,
				map[string]any{"weather": moods[round%len(moods)], "moons": int64(round % 3)}),
			set(ctx, robot, name, "battery", int64(71)),
			set(ctx, planet, planetName, "weather", moods[(round+1)%len(moods)]),
			set(ctx, robot, name, "job", jobs[(round+1)%len(jobs)]),
			set(ctx, planet, planetName, "moons", int64(round%3+1)),
			set(ctx, robot, name, "battery", int64(4)),
			remove(ctx, planet, fmt.Sprintf("planet-%d", last)),
			remove(ctx,
				client.Resource(DemoRobots.Resource()).Namespace(factories[(last+len(factories))%len(factories)]),
				fmt.Sprintf("robot-%d", last)),
		}
		for _, step := range steps {
			select {
			case <-time.After(demoPace):
			case <-ctx.Done():
				return nil
			}
			if err := step(); err != nil {
				return err
			}
		}
	}
}

func create(
	ctx context.Context, c dynamic.ResourceInterface, crd CRD, name string, spec map[string]any,
) func() error {
	return func() error {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion(crd.Resource().GroupVersion().String())
		o.SetKind(crd.Kind)
		o.SetName(name)
		_, err := c.Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

func set(ctx context.Context, c dynamic.ResourceInterface, name, field string, value any) func() error {
	return func() error {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(o.Object, value, "spec", field); err != nil {
			return err
		}
		_, err = c.Update(ctx, o, metav1.UpdateOptions{})
		return err
	}
}

func remove(ctx context.Context, c dynamic.ResourceInterface, name string) func() error {
	return func() error {
		err := c.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}
