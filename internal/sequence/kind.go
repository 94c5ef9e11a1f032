package sequence

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/internal/client"
)

// isList reports whether an answer is a list of the resource's objects. client-go makes a list of any answer, and every
// object would seem deleted.
//
// The kind of a real list can have any name (spec.names.listKind of the CRD), but not that of an object. Its group is
// the resource's, while its version may be another one: some API servers have one for all requests. The first item says
// more than the list.
func (t *Target) isList(list client.List) bool {
	if list.UnstructuredList == nil || t.Fake {
		return list.UnstructuredList != nil
	}
	r := t.Resource
	kind, group := list.GetKind(), groupOf(list.GetAPIVersion())
	switch kind {
	case "", "Status", "Table", "PartialObjectMetadata", r.Kind:
		return false
	case "PartialObjectMetadataList": // also without Metadata: a transport may have requested it
		return group == metav1.GroupName || group == r.Group
	}
	switch first := firstOf(list); {
	case first.Kind == "PartialObjectMetadata":
		return groupOf(first.APIVersion) == metav1.GroupName
	case first != metav1.TypeMeta{}:
		return groupOf(first.APIVersion) == r.Group && (r.Kind == "" || strings.EqualFold(first.Kind, r.Kind))
	case group != r.Group:
		return false
	case r.Kind == "":
		return strings.HasSuffix(kind, "List")
	case !strings.Contains(r.Group, "."): // built-in, so the list has the usual name
		return strings.EqualFold(kind, r.Kind+"List")
	}
	return true
}

// notList returns an errNotList that says what the answer is.
func notList(list client.List) error {
	if list.UnstructuredList == nil {
		return errNotList
	}
	text := fmt.Sprintf("a %q of %q", list.GetKind(), list.GetAPIVersion())
	if first := firstOf(list); first != (metav1.TypeMeta{}) {
		text += fmt.Sprintf(" with a %q of %q", first.Kind, first.APIVersion)
	}
	return fmt.Errorf("%w: %s", errNotList, text)
}

// firstOf returns the type of the first item, or zero.
func firstOf(list client.List) (first metav1.TypeMeta) {
	switch {
	case len(list.Raw) > 0:
		_ = json.Unmarshal(list.Raw[0].JSON, &first) // it has been decoded once
	case len(list.Items) > 0:
		first.Kind, first.APIVersion = list.Items[0].GetKind(), list.Items[0].GetAPIVersion()
	}
	return first
}

// groupOf returns the group of an apiVersion.
func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}
