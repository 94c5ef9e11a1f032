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

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
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

// contradiction is what can't be had together, or at all.
func (o *Options) contradiction() error {
	const unknown = "it has a value that is none of its constants"
	switch {
	case !slices.Contains([]End{Never, AtFirstClose, WhenSynced}, o.End):
		return &OptionsError{"End", unknown}
	case !slices.Contains([]OnExpired{Heal, Fail}, o.OnExpired):
		return &OptionsError{"OnExpired", unknown}
	case !slices.Contains([]Index{IndexObjects, IndexNone}, o.Index):
		return &OptionsError{"Index", unknown}
	case !slices.Contains([]InitialList{ListStreamed, ListPaged}, o.InitialList):
		return &OptionsError{"InitialList", unknown}
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
	case o.Select != nil && o.Index == IndexNone:
		return &OptionsError{"Select and IndexNone", "without an index nobody knows which objects were told, so that the end of the others could not be kept back"}
	}
	return o.checkStart(o.Start, false)
}

// checkStart says what is wrong with the start. A range that moves may go on where
// another one was that watched other namespaces.
func (o *Options) checkStart(start Start, moves bool) error {
	p := start.position
	switch {
	case start.kind == startAfter && !protocol.Usable(start.version):
		return &OptionsError{"Start", `After needs a resourceVersion, and "0" is none: it would mean any`}
	case o.End == WhenSynced && (start.kind == startNow || start.kind == startAfter):
		return &OptionsError{"Start and End", "a sequence that begins with SYNCED and ends there would tell nothing"}
	case o.End == WhenSynced && !moves && len(p.ResourceVersions) == len(o.Namespaces) && !slices.Contains(slices.Collect(maps.Values(p.ResourceVersions)), ""):
		return &OptionsError{"Start and End", "a sequence that goes on from there begins with SYNCED: it would tell nothing"}
	}
	return o.checkPosition(p, moves)
}

// checkPosition says what is wrong with a position to go on from.
func (o *Options) checkPosition(p checkpoint.Position, moves bool) error {
	if o.Index == IndexNone && len(p.Objects) > 0 {
		return &OptionsError{"Start and IndexNone", "the position holds objects, which there is no index to keep: it was taken with one"}
	}
	for n, rv := range p.ResourceVersions {
		if rv != "" && !protocol.Usable(rv) {
			return &OptionsError{"Start", `the position has a resourceVersion that no watch can begin at: "` + rv + `"`}
		}
		if !moves && !slices.Contains(o.Namespaces, n) {
			return &OptionsError{"Start and Namespaces", "the position is of other namespaces: " + strings.Join(slices.Sorted(maps.Keys(p.ResourceVersions)), ", ")}
		}
	}
	for _, k := range p.Objects {
		if !moves && o.Namespaces[0] != "" && !slices.Contains(o.Namespaces, k.Namespace) {
			return &OptionsError{"Start and Namespaces", "the position holds an object of another namespace: " + k.Namespace + "/" + k.Name}
		}
		if k.Name == "" {
			return &OptionsError{"Start", "the position holds an object without a name"}
		}
	}
	return nil
}

// fieldSelector is FieldSelector AND Name AND InvolvedObject.
func (o *Options) fieldSelector(r gvr.Resource) (string, error) {
	given, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return "", &SelectorError{Kind: "field", Selector: o.FieldSelector, Err: err}
	}
	terms := fields.Set{}
	if o.Name != "" {
		if reasons := content.IsPathSegmentName(o.Name); len(reasons) > 0 {
			return "", &OptionsError{"Name", fmt.Sprintf("%q %s", o.Name, strings.Join(reasons, ", "))}
		}
		terms["metadata.name"] = o.Name
	}
	if ref := o.InvolvedObject; ref != nil {
		prefix, ok := involvedFields[r.Group]
		if !ok || r.Resource != "events" {
			return "", &OptionsError{"InvolvedObject", fmt.Sprintf("%s are no events, so they involve no object", r)}
		}
		values, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(ref) // of those that are not empty
		for field, value := range values {
			terms[prefix+field] = fmt.Sprint(value)
		}
		if len(terms) == 0 || len(terms) == 1 && o.Name != "" {
			return "", &OptionsError{"InvolvedObject", "it has no field that says which object: leave it out for events about all"}
		}
	}
	if len(terms) == 0 {
		return o.FieldSelector, nil
	}
	var all []fields.Selector
	if !given.Empty() {
		all = append(all, given)
	}
	for _, field := range slices.Sorted(maps.Keys(terms)) {
		all = append(all, fields.OneTermEqualSelector(field, terms[field]))
	}
	return fields.AndSelectors(all...).String(), nil
}

// involvedFields begin the fields of an event that name what it is about, by the group
// of the events. (The server of events.k8s.io calls them "regarding" in selectors as well.)
var involvedFields = map[string]string{"": "involvedObject.", "events.k8s.io": "regarding."}

// matcher does what a server does with the selectors, for client-go's fakes,
// whose watches do not heed them.
func (o *Options) matcher() func(*unstructured.Unstructured) bool {
	byLabel, _ := labels.Parse(o.LabelSelector) // both have been checked
	byField, _ := fields.ParseSelector(o.FieldSelector)
	return func(u *unstructured.Unstructured) bool {
		values := fields.Set{}
		for _, r := range byField.Requirements() {
			value, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(r.Field, ".")...)
			if value != nil {
				values[r.Field] = fmt.Sprint(value)
			}
		}
		return byLabel.Matches(labels.Set(u.GetLabels())) && byField.Matches(values)
	}
}
