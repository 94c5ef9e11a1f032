package stream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// check returns a copy of o with its defaults filled in and the field selector
// complete, or what is wrong with it for r.
func (o *Options) check(r gvr.Resource) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if !r.ClusterWatch() {
		return c, &NotWatchableError{Resource: r}
	}
	if err := c.checkNamespaces(r); err != nil {
		return c, err
	}
	if _, err := labels.Parse(c.LabelSelector); err != nil {
		return c, &SelectorError{Kind: "label", Selector: c.LabelSelector, Err: err}
	}
	selector, err := c.fieldSelector(r)
	if err != nil {
		return c, err
	}
	c.FieldSelector = selector
	if c.Checkpoint != nil {
		c.CheckpointKey = cmp.Or(c.CheckpointKey, r.GroupResource().String())
		if err := checkpoint.CheckKey(c.CheckpointKey); err != nil {
			return c, err
		}
	}
	c.PageSize = cmp.Or(c.PageSize, defaultPageSize)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, defaultIdleTimeout)
	c.End = cmp.Or(c.End, Never)
	c.OnExpired = cmp.Or(c.OnExpired, Heal)
	c.Index = cmp.Or(c.Index, IndexObjects)
	c.InitialList = cmp.Or(c.InitialList, ListStreamed)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Trace == nil {
		c.Trace = &Trace{}
	}
	if c.Scope != nil {
		if err := c.checkScope(r); err != nil {
			return c, err
		}
	}
	trace := *c.Trace
	c.Trace = &trace
	c.Start.position.ResourceVersions = maps.Clone(c.Start.position.ResourceVersions)
	c.Start.position.Objects = slices.Clone(c.Start.position.Objects)
	return c, c.contradiction()
}

func (o *Options) checkNamespaces(r gvr.Resource) error {
	if len(o.Namespaces) == 0 || len(o.Namespaces) == 1 && o.Namespaces[0] == "" {
		o.Namespaces = []string{""} // the whole cluster, as metav1.NamespaceAll
		return nil
	}
	for _, n := range o.Namespaces {
		if n == "" {
			return &OptionsError{"Namespaces", "an empty name stands for the whole cluster, which holds the others: leave it out, or leave them out"}
		}
		if !r.Namespaced {
			return &NotNamespacedError{Resource: r, Namespace: n}
		}
		if reasons := validation.ValidateNamespaceName(n, false); len(reasons) > 0 {
			return &NamespaceError{Namespace: n, Err: errors.New(strings.Join(reasons, "; "))}
		}
	}
	o.Namespaces = slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
	return nil
}

// checkScope does for the Scope what checkNamespaces does for what is watched,
// which must be a part of it.
func (o *Options) checkScope(r gvr.Resource) error {
	all := Options{Namespaces: slices.Clone(o.Scope.Namespaces)}
	if err := all.checkNamespaces(r); err != nil {
		return err
	}
	if all.Namespaces[0] != "" {
		for _, n := range o.Namespaces {
			if !slices.Contains(all.Namespaces, n) {
				return &OptionsError{"Scope and Namespaces", fmt.Sprintf("the namespace %q is none of those that are wanted", n)}
			}
		}
	} else {
		all.Namespaces = nil
	}
	o.Scope = &Scope{Namespaces: all.Namespaces}
	return nil
}

// contradiction is what can't be had together, or at all.
func (o *Options) contradiction() error {
	known := []struct {
		option string
		ok     bool
	}{
		{"End", slices.Contains([]End{Never, AtFirstClose, WhenSynced}, o.End)},
		{"OnExpired", slices.Contains([]OnExpired{Heal, Fail}, o.OnExpired)},
		{"Index", slices.Contains([]Index{IndexObjects, IndexNone}, o.Index)},
		{"InitialList", slices.Contains([]InitialList{ListStreamed, ListPaged}, o.InitialList)},
	}
	for _, k := range known {
		if !k.ok {
			return &OptionsError{k.option, "it has a value that is none of its constants"}
		}
	}
	switch {
	case o.Timeout < 0, o.Timeout > 0 && o.Timeout < time.Second:
		return &OptionsError{"Timeout", "a server ends watches after whole seconds: give at least one, or zero for the default"}
	case o.PageSize < 0:
		return &OptionsError{"PageSize", "give a positive number, or zero for the default"}
	case o.IdleTimeout < 0, o.IdleTimeout > 0 && o.IdleTimeout < time.Second:
		return &OptionsError{"IdleTimeout", "a watch that is given up each moment is no watch, and one that never is may be dead: give at least a second, or zero for the default"}
	case o.GiveUpAfter < 0:
		return &OptionsError{"GiveUpAfter", "give a positive time, or zero for never"}
	case o.Checkpoint == nil && o.CheckpointKey != "":
		return &OptionsError{"CheckpointKey", "it is a key of nothing: give a Checkpoint as well"}
	case o.Checkpoint != nil && o.Start.kind == startFrom:
		return &OptionsError{"Start and Checkpoint", "a range goes on where the checkpoint says, and From says something else: leave one of them out"}
	case o.Scope != nil && o.Index == IndexNone:
		return &OptionsError{"Scope and IndexNone", "without an index nobody knows what was told in another scope"}
	case o.Select != nil && o.Index == IndexNone:
		return &OptionsError{"Select and IndexNone", "without an index nobody knows which objects were told, so that the end of the others could not be kept back"}
	}
	return o.checkStart()
}

func (o *Options) checkStart() error {
	p := o.Start.position
	switch {
	case o.Start.kind == startAfter && !usable(o.Start.version):
		return &OptionsError{"Start", `After needs a resourceVersion, and "0" is none: it would mean any`}
	case o.End == WhenSynced && (o.Start.kind == startNow || o.Start.kind == startAfter):
		return &OptionsError{"Start and End", "a sequence that begins with SYNCED and ends there would tell nothing"}
	case o.End == WhenSynced && o.Scope == nil && len(p.ResourceVersions) == len(o.Namespaces):
		return &OptionsError{"Start and End", "a sequence that goes on from there begins with SYNCED: it would tell nothing"}
	}
	return o.checkPosition(p)
}

// checkPosition says what is wrong with a position to go on from.
func (o *Options) checkPosition(p checkpoint.Position) error {
	if o.Index == IndexNone && len(p.Objects) > 0 {
		return &OptionsError{"Start and IndexNone", "the position holds objects, which there is no index to keep: it was taken with one"}
	}
	for n, rv := range p.ResourceVersions {
		if !usable(rv) && (o.Scope == nil || rv != "") {
			return &OptionsError{"Start", `the position has a resourceVersion that no watch can begin at: "` + rv + `"`}
		}
		if o.Scope == nil && !slices.Contains(o.Namespaces, n) {
			return &OptionsError{"Start and Namespaces", "the position is of other namespaces: " + strings.Join(slices.Sorted(maps.Keys(p.ResourceVersions)), ", ")}
		}
	}
	for _, k := range p.Objects {
		if o.Scope == nil && o.Namespaces[0] != "" && !slices.Contains(o.Namespaces, k.Namespace) {
			return &OptionsError{"Start and Namespaces", "the position holds an object of another namespace: " + k.Namespace + "/" + k.Name}
		}
		if k.Name == "" {
			return &OptionsError{"Start", "the position holds an object without a name"}
		}
	}
	return nil
}
