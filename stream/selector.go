package stream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/gvrwatch/gvrwatch/gvr"
)

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
		prefix := involvedField(r)
		if prefix == "" {
			return "", &OptionsError{"InvolvedObject", fmt.Sprintf("%s are no events, so they involve no object", r)}
		}
		for field, value := range involved(ref) {
			if value != "" {
				terms[prefix+field] = value
			}
		}
		if len(terms) == 0 || len(terms) == 1 && o.Name != "" {
			return "", &OptionsError{"InvolvedObject", "it has no field that says which object: leave it out for events about all"}
		}
	}
	if len(terms) == 0 {
		return o.FieldSelector, o.unsatisfiable(given)
	}
	var all []fields.Selector
	if !given.Empty() {
		all = append(all, given)
	}
	for _, field := range slices.Sorted(maps.Keys(terms)) {
		all = append(all, fields.OneTermEqualSelector(field, terms[field]))
	}
	selector := fields.AndSelectors(all...)
	return selector.String(), o.unsatisfiable(selector)
}

// unsatisfiable says what of a selector no object can match.
func (o *Options) unsatisfiable(s fields.Selector) error {
	wanted := map[string]string{}
	for _, r := range s.Requirements() {
		if r.Operator == selection.NotEquals {
			continue
		}
		if other, ok := wanted[r.Field]; ok && other != r.Value {
			return &OptionsError{"FieldSelector", fmt.Sprintf("it, or another option with it, wants %s to be %q and %q: no object is both", r.Field, other, r.Value)}
		}
		wanted[r.Field] = r.Value
	}
	for _, r := range s.Requirements() {
		if value, ok := wanted[r.Field]; ok && value == r.Value && r.Operator == selection.NotEquals {
			return &OptionsError{"FieldSelector", fmt.Sprintf("it, or another option with it, wants %s to be %q, and not to be: no object is both", r.Field, value)}
		}
	}
	if n, ok := wanted["metadata.namespace"]; ok && o.Namespaces[0] != "" && !slices.Contains(o.Namespaces, n) {
		return &OptionsError{"FieldSelector", fmt.Sprintf("it wants objects of the namespace %q, which is none of Namespaces", n)}
	}
	return nil
}

// involvedField begins the fields of an event that name what it is about. (The
// server of events.k8s.io calls them "regarding" in its selectors as well.)
func involvedField(r gvr.Resource) string {
	switch {
	case r.Resource != "events":
		return ""
	case r.Group == "":
		return "involvedObject."
	case r.Group == "events.k8s.io":
		return "regarding."
	}
	return ""
}

func involved(ref *corev1.ObjectReference) map[string]string {
	return map[string]string{
		"apiVersion":      ref.APIVersion,
		"kind":            ref.Kind,
		"namespace":       ref.Namespace,
		"name":            ref.Name,
		"uid":             string(ref.UID),
		"resourceVersion": ref.ResourceVersion,
		"fieldPath":       ref.FieldPath,
	}
}

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
