package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

var (
	robots  = devserver.CRD{Group: "demo.example.com", Kind: "Robot", Namespaced: true, ShortNames: []string{"rob"}}
	planets = devserver.CRD{Group: "demo.example.com", Kind: "Planet"}
)

// pace is the time between two writes.
const pace = 350 * time.Millisecond

// write creates, changes and deletes objects of both kinds until ctx ends.
func write(ctx context.Context, client dynamic.Interface) error {
	factories := []string{"assembly", "paint-shop"}
	jobs := []string{"weld", "drill", "polish", "inspect"}
	moods := []string{"calm", "windy", "stormy"}
	for round := 0; ; round++ {
		name := fmt.Sprintf("robot-%d", round)
		robot := client.Resource(robots.Resource()).Namespace(factories[round%len(factories)])
		planetName := fmt.Sprintf("planet-%d", round)
		planet := client.Resource(planets.Resource())
		// A robot and a planet are created, changed and deleted in turn.
		steps := []func() error{
			create(ctx, robot, robots, name, map[string]any{"job": jobs[round%len(jobs)], "battery": int64(100)}),
			create(ctx, planet, planets, planetName,
				map[string]any{"weather": moods[round%len(moods)], "moons": int64(round % 3)}),
			set(ctx, robot, name, "battery", int64(71)),
			set(ctx, planet, planetName, "weather", moods[(round+1)%len(moods)]),
			set(ctx, robot, name, "job", jobs[(round+1)%len(jobs)]),
			set(ctx, planet, planetName, "moons", int64(round%3+1)),
			set(ctx, robot, name, "battery", int64(4)),
			remove(ctx, planet, planetName),
			remove(ctx, robot, name),
		}
		for _, step := range steps {
			select {
			case <-time.After(pace):
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
	ctx context.Context, c dynamic.ResourceInterface, crd devserver.CRD, name string, spec map[string]any,
) func() error {
	return func() error {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion(crd.Resource().GroupVersion().String())
		o.SetKind(crd.Kind)
		o.SetName(name)
		_, err := c.Create(ctx, o, metav1.CreateOptions{})
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
	return func() error { return c.Delete(ctx, name, metav1.DeleteOptions{}) }
}
