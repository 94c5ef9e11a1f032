package stream

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
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
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// check returns a copy of o with its defaults and the complete field selector filled in, or the error that New returns.
func (o *Options) check(r gvr.Resource) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	for _, part := range []string{r.Version, r.GroupVersionResource.Resource} {
		if part == "" || len(content.IsPathSegmentName(part)) > 0 {
			return c, &OptionsError{"Resource", r.String(), "must have a version and a plural, such as v1 and pods"}
		}
	}
	if !r.ClusterWatch() {
		return c, &NotWatchableError{Resource: r}
	}
	if err := c.checkNamespaces(r); err != nil {
		return c, err
	}
	if _, err := labels.Parse(c.LabelSelector); err != nil {
		return c, &OptionsError{"LabelSelector", c.LabelSelector, "must be a label selector: " + err.Error()}
	}
	selector, err := c.fieldSelector(r)
	if err != nil {
		return c, err
	}
	c.FieldSelector = selector
	if c.Checkpoint != nil {
		c.CheckpointKey = cmp.Or(c.CheckpointKey, r.GroupResource().String())
		if !acks.IsKey(c.CheckpointKey) {
			return c, &OptionsError{"CheckpointKey", c.CheckpointKey, "must be " + acks.KeyRule}
		}
	}
	c.PageSize = cmp.Or(c.PageSize, defaultPageSize)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, defaultIdleTimeout)
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
			return &OptionsError{"Namespaces", strings.Join(o.Namespaces, ","),
				"an empty name means the whole cluster: must be alone or left out"}
		}
		if !r.Namespaced {
			return &OptionsError{"Namespaces", n, fmt.Sprintf(
				"must be empty, because %s is cluster-scoped (Namespaced of its gvr.Resource is false)", r)}
		}
		if reasons := validation.ValidateNamespaceName(n, false); len(reasons) > 0 {
			return &OptionsError{"Namespaces", n, "must be the name of a namespace: " + strings.Join(reasons, "; ")}
		}
	}
	o.Namespaces = slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
	return nil
}

// contradiction returns an error about a value that is out of range, or options that exclude each other.
func (o *Options) contradiction() error {
	switch {
	case o.Timeout < 0, o.Timeout > 0 && o.Timeout < time.Second:
		return &OptionsError{"Timeout", o.Timeout.String(), "must be 0 or at least 1s"}
	case o.PageSize < 0:
		return &OptionsError{"PageSize", strconv.Itoa(o.PageSize), "must not be negative"}
	case o.IdleTimeout < 0, o.IdleTimeout > 0 && o.IdleTimeout < time.Second:
		return &OptionsError{"IdleTimeout", o.IdleTimeout.String(), "must be 0 or at least 1s"}
	case o.GiveUpAfter < 0:
		return &OptionsError{"GiveUpAfter", o.GiveUpAfter.String(), "must not be negative"}
	case o.UntilSynced && o.UntilClosed:
		return &OptionsError{"UntilSynced and UntilClosed", "", "must set at most one"}
	case o.Checkpoint == nil && o.CheckpointKey != "":
		return &OptionsError{"CheckpointKey", o.CheckpointKey, "requires Checkpoint"}
	case o.Checkpoint != nil && o.Start.kind == startFrom:
		return &OptionsError{"Start and Checkpoint", "",
			"the checkpoint decides where the run resumes: must not be combined with From"}
	case o.Objects < Full || o.Objects > Metadata:
		return &OptionsError{"Objects", strconv.Itoa(int(o.Objects)), "must be Full, Raw or Metadata"}
	case o.Objects == Raw && o.Transform != nil:
		return &OptionsError{"Objects and Transform", "",
			"Transform changes decoded objects, and Raw objects are not decoded: must not be combined"}
	}
	return o.checkStart(o.Start, false)
}

// checkStart returns an error if a run cannot begin at start. With mayMove, the run may resume from one that watched
// other namespaces.
func (o *Options) checkStart(start Start, mayMove bool) error {
	p := start.position
	resumes := !start.snapshot && !mayMove && len(p.ResourceVersions) == len(o.Namespaces) &&
		!slices.Contains(slices.Collect(maps.Values(p.ResourceVersions)), "")
	switch {
	case start.kind == startAfter && !protocol.Usable(start.version):
		return &OptionsError{"Start", start.version, `After must have a resourceVersion; "0" would mean any`}
	case o.UntilSynced && (start.beginsSynced() || resumes):
		return &OptionsError{"Start and UntilSynced", "",
			"a run that begins with SYNCED and ends there would deliver nothing: must not be combined"}
	}
	return o.checkPosition(p, mayMove)
}

// checkPosition returns an error if a run cannot resume from p.
func (o *Options) checkPosition(p checkpoint.Position, mayMove bool) error {
	for n, rv := range p.ResourceVersions {
		if rv != "" && !protocol.Usable(rv) {
			return &OptionsError{"Start", rv, "the position must have a resourceVersion that a watch can begin at"}
		}
		if !mayMove && !slices.Contains(o.Namespaces, n) {
			return &OptionsError{"Start and Namespaces", n, "the position must be of the same namespaces"}
		}
	}
	for _, k := range p.Objects {
		if !mayMove && o.Namespaces[0] != "" && !slices.Contains(o.Namespaces, k.Namespace) {
			return &OptionsError{"Start and Namespaces", k.Namespace + "/" + k.Name,
				"the objects of the position must be in the same namespaces"}
		}
		if k.Name == "" {
			return &OptionsError{"Start", "", "the objects of the position must have names"}
		}
	}
	return nil
}

// fieldSelector returns a selector that combines FieldSelector, Name and InvolvedObject.
func (o *Options) fieldSelector(r gvr.Resource) (string, error) {
	given, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return "", &OptionsError{"FieldSelector", o.FieldSelector, "must be a field selector: " + err.Error()}
	}
	terms := fields.Set{}
	if o.Name != "" {
		if reasons := content.IsPathSegmentName(o.Name); len(reasons) > 0 {
			return "", &OptionsError{"Name", o.Name, "must be the name of an object: " + strings.Join(reasons, ", ")}
		}
		terms["metadata.name"] = o.Name
	}
	if ref := o.InvolvedObject; ref != nil {
		prefix, ok := involvedFields[r.Group]
		if !ok || r.Resource != "events" {
			return "", &OptionsError{"InvolvedObject", "", fmt.Sprintf("must be nil, because %s is not events", r)}
		}
		values, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(ref) // without empty fields
		for field, value := range values {
			terms[prefix+field] = fmt.Sprint(value)
		}
		if len(terms) == 0 || len(terms) == 1 && o.Name != "" {
			return "", &OptionsError{"InvolvedObject", "", "must have a field that is not empty"}
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

// involvedFields maps the API group of events to the prefix of the fields that name the object an event is about. (In
// events.k8s.io the prefix is "regarding" in selectors, too.)
var involvedFields = map[string]string{"": "involvedObject.", "events.k8s.io": "regarding."}

// matcher returns a function that applies the selectors, because the watches of client-go's fake ignore them.
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
