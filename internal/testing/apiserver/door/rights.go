package door

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

// rights are what the caller may do: everything that no action forbids.
type rights struct {
	changes      []script.Action // "forbid" and "allow"; the last one that matches a request counts
	unauthorized bool
}

// add adds a right. "allow" alone permits everything.
func (r *rights) add(a script.Action) {
	if r.changes = append(r.changes, a); a.Verb == "" && len(a.Resources) == 0 {
		r.changes = nil
	}
}

func (r *rights) forbids(verb, namespace string, name schema.GroupVersionResource) bool {
	for _, c := range slices.Backward(r.changes) {
		if (c.Verb == "" || c.Verb == "all" || c.Verb == verb) &&
			(c.Namespace == "" || c.Namespace == namespace) && c.Resources.Has(name) {
			return strings.HasPrefix(c.Usage, "forbid")
		}
	}
	return false
}

// check returns why a request is refused, or nil.
func (r *rights) check(q *query) error {
	if r.unauthorized {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	of := &q.request
	if of.Verb == "discovery" || of.Resource == "" {
		return q.bad
	}
	gr := q.name.GroupResource()
	if r.forbids(of.Verb, of.Namespace, q.name) {
		where := "at the cluster scope"
		if of.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", of.Namespace)
		}
		const user = `User "streamtest"` // as a kube-apiserver writes it
		why := fmt.Errorf("%s cannot %s resource %q in API group %q %s", user, of.Verb, gr.Resource, gr.Group, where)
		return apierrors.NewForbidden(gr, of.Name, why)
	}
	switch {
	case q.resource.Resource == "",
		!q.resource.Namespaced && of.Namespace != "",
		q.resource.Namespaced && of.Namespace == "" && of.Verb != "list" && of.Verb != "watch":
		return store.Unknown()
	case !slices.Contains(q.resource.Verbs, of.Verb):
		return apierrors.NewMethodNotSupported(gr, of.Verb)
	}
	return q.bad
}

// Reviews has the resources with which a client asks for its rights.
var Reviews = schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"}

// review fills in the status of a review.
func (r *rights) review(o *unstructured.Unstructured, served []gvr.Resource) error {
	spec := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	if o.GetKind() == "SelfSubjectAccessReview" {
		of := func(field string) string { return spec("resourceAttributes", field) }
		name := schema.GroupVersionResource{Group: of("group"), Version: of("version"), Resource: of("resource")}
		o.Object["status"] = map[string]any{"allowed": !r.forbids(of("verb"), of("namespace"), name)}
		return nil
	}
	namespace := spec("namespace")
	if namespace == "" {
		return fmt.Errorf("no namespace on request")
	}
	rules := []any{}
	for _, t := range served {
		verbs, name := []any{}, t.GroupVersionResource
		for _, verb := range t.Verbs {
			if !r.forbids(verb, namespace, name) {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			rules = append(rules, map[string]any{
				"verbs": verbs, "apiGroups": []any{name.Group}, "resources": []any{name.Resource},
			})
		}
	}
	o.Object["status"] = map[string]any{"resourceRules": rules, "nonResourceRules": []any{}, "incomplete": false}
	return nil
}
