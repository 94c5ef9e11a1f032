package gvrwatch

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// Wait waits until every target meets its condition at the same moment, as kubectl wait does for one. The Resource of a
// target is a name, as Watch takes it, and must not be empty; all that name one resource must name one version of it.
// An object of a namespaced resource needs its Namespace, and a cluster-scoped resource has none. Bound the time with
// ctx.
//
//	available, complete := condition.MustParse("condition=Available"), condition.MustParse("condition=Complete")
//	err := c.Wait(ctx,
//		condition.Target{For: available, Resource: "deploy", Namespace: "shop", Name: "web"},
//		condition.Target{For: complete, Resource: "job", Namespace: "shop", Name: "seed"})
//
// It watches each resource once, in the namespaces of its targets, and if they all have the same name, only objects of
// that name. What it may not watch, and what is not served, is an error at once. For other selections, and for types
// that are created later, call [condition.Wait] with a Stream, or with the Mux that Follow returns.
//
// Before it watches, Wait resolves the names. The error of one wraps one that [Connection.Stream] returns, such as the
// cause of ctx if ctx ends by then. Targets that can't be are a [*stream.OptionsError]. Any later error is one that
// [condition.Wait] returns: at the end of ctx a [*condition.UnmetError], which names what is not met, and why.
func (c *Connection) Wait(ctx context.Context, targets ...condition.Target) error {
	if c == nil || c.client == nil || ctx == nil {
		return c.check(ctx)
	}
	targets = slices.Clone(targets)
	var resources []gvr.Resource
	options := map[schema.GroupResource]*stream.Options{}
	for i := range targets {
		t := &targets[i]
		r, err := c.resolve(ctx, t.Resource)
		if err != nil {
			return fmt.Errorf("gvrwatch: cannot wait for %s: %w", t, err)
		}
		name := r.GroupResource()
		t.Resource = name.String()
		if err := checkTarget(*t, r, resources); err != nil {
			return err
		}
		o := options[name]
		if o == nil {
			o = &stream.Options{Name: t.Name, Objects: stream.Raw}
			resources, options[name] = append(resources, r), o
		}
		if o.Name != t.Name {
			o.Name = ""
		}
		o.Namespaces = append(o.Namespaces, t.Namespace)
	}
	var sources []mux.Source
	for _, r := range resources {
		o := options[r.GroupResource()]
		if slices.Contains(o.Namespaces, "") {
			o.Namespaces = nil
		}
		s, err := stream.New(c.client, r, o)
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	m, err := mux.New(nil, sources...)
	if err != nil {
		return err
	}
	return condition.Wait(ctx, m, targets...)
}

// checkTarget returns an error about a target of a resource that no object can be, so that its deletion would count as
// done, and about one of another version than a target before it: an object has one state, and so one version.
func checkTarget(t condition.Target, r gvr.Resource, before []gvr.Resource) error {
	switch {
	case !r.Namespaced && t.Namespace != "":
		return invalid.New("targets", t.String(), "must not have a namespace, because its resource is cluster-scoped")
	case r.Namespaced && t.Namespace == "" && t.Name != "":
		return invalid.New("targets", t.String(), "must have a namespace, because its resource is namespaced")
	}
	for _, other := range before {
		if other.GroupResource() == r.GroupResource() && other.Version != r.Version {
			return invalid.New("targets", t.String(), fmt.Sprintf(
				"must be of the same version as another target, which is %s, not %s", other, r))
		}
	}
	return nil
}
