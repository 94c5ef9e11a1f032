package gvrwatch

import (
	"context"
	"slices"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// Wait waits until every target meets its condition at the same moment, as kubectl wait does for one. The Resource of a
// target is a name, as Watch takes it. Targets without a Resource are invalid. Bound the time with ctx.
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
// An error is one that [Connection.Stream] or [condition.Wait] returns. At the end of ctx that is a
// [*condition.UnmetError], which names what is not met, and why.
func (c *Connection) Wait(ctx context.Context, targets ...condition.Target) error {
	targets = slices.Clone(targets)
	var resources []gvr.Resource
	options := map[string]*stream.Options{} // by the resource
	for i := range targets {
		t := &targets[i]
		r, err := c.resolve(ctx, t.Resource)
		if err != nil {
			return err
		}
		t.Resource = r.GroupResource().String()
		o := options[r.String()]
		if o == nil {
			o = &stream.Options{Name: t.Name, Objects: stream.Raw}
			resources, options[r.String()] = append(resources, r), o
		}
		if o.Name != t.Name {
			o.Name = ""
		}
		o.Namespaces = append(o.Namespaces, t.Namespace)
	}
	var sources []mux.Source
	for _, r := range resources {
		o := options[r.String()]
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
