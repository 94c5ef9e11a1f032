package stream

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// check returns a copy of o with its defaults and the complete field selector filled in, or the error that New returns.
func (o *Options) check(r gvr.Resource) (Options, error) {
	c := *cmp.Or(o, &Options{})
	for _, part := range []string{cmp.Or(r.Group, "core"), r.Version, r.GroupVersionResource.Resource} {
		if part == "" || len(badSegment(part)) > 0 { // client-go would request another path
			return c, invalid.New("Resource", r.String(),
				"must have a version and a plural that can be in a path, such as v1 and pods")
		}
	}
	if !r.ClusterWatch() {
		return c, &NotWatchableError{Resource: r}
	}
	if err := c.checkNamespaces(r); err != nil {
		return c, err
	}
	if _, err := labels.Parse(c.LabelSelector); err != nil {
		return c, invalid.New("LabelSelector", c.LabelSelector, "must be a label selector: "+err.Error())
	}
	selector, err := c.fieldSelector()
	if err != nil {
		return c, err
	}
	c.FieldSelector = selector
	c.Requests.PageSize = cmp.Or(c.Requests.PageSize, defaultPageSize)
	c.Requests.IdleTimeout = cmp.Or(c.Requests.IdleTimeout, defaultIdleTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	trace := *cmp.Or(c.Trace, &Trace{})
	c.Trace = &trace
	return c, c.contradiction()
}

func (o *Options) checkNamespaces(r gvr.Resource) error {
	if len(o.Namespaces) == 0 || len(o.Namespaces) == 1 && o.Namespaces[0] == "" {
		o.Namespaces = []string{""} // the whole cluster, as metav1.NamespaceAll
		return nil
	}
	for _, n := range o.Namespaces {
		if n == "" {
			return invalid.New("Namespaces", strings.Join(o.Namespaces, ","),
				"an empty name means the whole cluster: must be alone or left out")
		}
		if !r.Namespaced {
			return invalid.New("Namespaces", n, fmt.Sprintf(
				"must be empty, because %s is cluster-scoped (Namespaced of its gvr.Resource is false)", r))
		}
		if reasons := validation.ValidateNamespaceName(n, false); len(reasons) > 0 {
			return invalid.New("Namespaces", n, "must be the name of a namespace: "+strings.Join(reasons, "; "))
		}
	}
	o.Namespaces = slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
	return nil
}

// contradiction returns an error about a value that is out of range, or options that exclude each other.
func (o *Options) contradiction() error {
	q := &o.Requests
	switch {
	case q.WatchLifetime < 0, q.WatchLifetime > 0 && q.WatchLifetime < time.Second:
		return invalid.New("Requests.WatchLifetime", q.WatchLifetime.String(), "must be 0 or at least 1s")
	case q.IdleTimeout < 0, q.IdleTimeout > 0 && q.IdleTimeout < time.Second:
		return invalid.New("Requests.IdleTimeout", q.IdleTimeout.String(), "must be 0 or at least 1s")
	case o.Objects != Full && o.Objects != Raw && o.Objects != Metadata:
		return invalid.New("Objects", string(o.Objects), "must be Full, Raw or Metadata")
	case o.Objects == Raw && o.Transform != nil:
		return invalid.New("Objects and Transform", "",
			"Transform changes decoded objects, and Raw objects are not decoded: must not be combined")
	}
	return cmp.Or(invalid.Negative("Requests.PageSize", q.PageSize),
		invalid.Negative("Requests.GiveUpAfter", q.GiveUpAfter))
}

// check returns an error if a Stream can't run like this.
func (r *Run) check(s *Stream) error {
	switch {
	case r.Until != "" && r.Until != UntilSynced && r.Until != UntilClosed:
		return invalid.New("Until", string(r.Until), "must be UntilSynced, UntilClosed or empty")
	case r.Checkpoint != nil && r.Start.kind == startFrom:
		return invalid.New("Start and Checkpoint", "",
			"the checkpoint decides where the run resumes: must not be combined with From")
	case r.Checkpoint != nil && r.Key != "" && !acks.IsKey(r.Key):
		return invalid.New("Key", r.Key, "must be "+acks.KeyRule)
	case r.Start.kind == startAfter && !protocol.Usable(r.Start.version):
		return invalid.New("Start", r.Start.version, `After must have a resourceVersion; "0" would mean any`)
	case r.Until == UntilSynced && (r.Start.kind == startNow || r.Start.kind == startAfter):
		return invalid.New("Start and Until", "",
			"a run that begins with SYNCED and ends there would deliver nothing: must not be combined")
	}
	if p := r.Start.position; p != nil {
		return s.options.checkPosition(*p, false)
	}
	return nil
}

// checkPosition returns an error if a run cannot resume from p. With mayMove, it may resume from one that watched other
// namespaces.
func (o *Options) checkPosition(p checkpoint.Position, mayMove bool) error {
	for n, rv := range p.ResourceVersions {
		if rv != "" && !protocol.Usable(rv) {
			return invalid.New("Start", rv, "the position must have a resourceVersion that a watch can begin at")
		}
		if !mayMove && !slices.Contains(o.Namespaces, n) {
			return invalid.New("Start and Namespaces", n, "the position must be of the same namespaces")
		}
	}
	for _, k := range p.Objects {
		if !mayMove && o.Namespaces[0] != "" && !slices.Contains(o.Namespaces, k.Namespace) {
			return invalid.New("Start and Namespaces", k.Namespace+"/"+k.Name,
				"the objects of the position must be in the same namespaces")
		}
		if k.Name == "" {
			return invalid.New("Start", "", "the objects of the position must have names")
		}
	}
	return nil
}

// fieldSelector returns a selector that combines FieldSelector and Name.
func (o *Options) fieldSelector() (string, error) {
	given, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return "", invalid.New("FieldSelector", o.FieldSelector, "must be a field selector: "+err.Error())
	}
	if o.Name == "" {
		return o.FieldSelector, nil
	}
	if reasons := badSegment(o.Name); len(reasons) > 0 {
		return "", invalid.New("Name", o.Name, "must be the name of an object: "+strings.Join(reasons, ", "))
	}
	name := fields.OneTermEqualSelector("metadata.name", o.Name)
	if given.Empty() {
		return name.String(), nil
	}
	return fields.AndSelectors(given, name).String(), nil
}

// badSegment returns why a name can't be a part of the path of a request.
func badSegment(name string) []string {
	//lint:ignore SA1019 what replaces it came with apimachinery 0.35
	return path.IsValidPathSegmentName(name)
}

// involvedFields maps the API group of Events to the prefix of the fields that name the object an Event is about. (In
// events.k8s.io the prefix is "regarding" in selectors, too.)
var involvedFields = map[string]string{"": "involvedObject.", "events.k8s.io": "regarding."}

// InvolvedObject returns the [Options.FieldSelector] that selects the Events about an object: those of r, which is
// "events" of v1 or of events.k8s.io. Empty fields of ref match anything, and at least one must not be empty; else, and
// for another resource, it returns an [*OptionsError].
func InvolvedObject(r gvr.Resource, ref corev1.ObjectReference) (string, error) {
	prefix, ok := involvedFields[r.Group]
	if !ok || r.Resource != "events" {
		return "", invalid.New("Resource", r.String(), "must be events of v1 or of events.k8s.io")
	}
	values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ref) // without empty fields
	if err != nil || len(values) == 0 {
		return "", invalid.New("ref", "", "must have a field that is not empty")
	}
	var all []fields.Selector
	for _, field := range slices.Sorted(maps.Keys(values)) {
		all = append(all, fields.OneTermEqualSelector(prefix+field, fmt.Sprint(values[field])))
	}
	return fields.AndSelectors(all...).String(), nil
}

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
