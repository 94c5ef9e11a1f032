package apiserver

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// right allows or forbids a verb. The last right that matches a request counts.
type right struct {
	args
	allowed bool
}

// rights are what the caller may do: everything that no action forbids.
type rights struct {
	changes      []right
	unauthorized bool
}

// add adds a right. Without a verb and a resource it permits everything.
func (r *rights) add(a args, allowed bool) {
	if r.changes = append(r.changes, right{a, allowed}); a.verb == "" && len(a.resources) == 0 {
		r.changes = nil
	}
}

func (r *rights) forbids(q *query) bool {
	for _, c := range slices.Backward(r.changes) {
		verb := c.verb == "" || c.verb == "all" || c.verb == q.Verb
		if verb && (c.namespace == "" || c.namespace == q.Namespace) && among(c.resources, q) {
			return !c.allowed
		}
	}
	return false
}

// check returns why a request is refused, or nil.
func (r *rights) check(q *query) error {
	if r.unauthorized {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if q.Verb == "discovery" || q.Resource == "" {
		return q.bad
	}
	gr := schema.GroupResource{Group: q.group, Resource: q.plural}
	if r.forbids(q) {
		where := "at the cluster scope"
		if q.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", q.Namespace)
		}
		const user = `User "streamtest"` // as a kube-apiserver writes it
		why := fmt.Errorf("%s cannot %s resource %q in API group %q %s", user, q.Verb, q.plural, q.group, where)
		return apierrors.NewForbidden(gr, q.Name, why)
	}
	switch {
	case q.resource.Resource == "",
		!q.resource.Namespaced && q.Namespace != "",
		q.resource.Namespaced && q.Namespace == "" && q.Verb != "list" && q.Verb != "watch":
		return unknownResource()
	case !slices.Contains(q.resource.Verbs, q.Verb):
		return apierrors.NewMethodNotSupported(gr, q.Verb)
	}
	return q.bad
}

// Reviews returns the resources with which a client asks for its rights: SelfSubjectAccessReview and
// SelfSubjectRulesReview. A Server that serves them answers according to the forbid and allow actions so far.
func Reviews() []gvr.Resource {
	review := func(name, kind string) gvr.Resource {
		return gvr.Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: reviewGroup, Version: "v1", Resource: name},
			Kind:                 kind, Verbs: []string{"create"},
		}
	}
	return []gvr.Resource{
		review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
		review("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
	}
}

const reviewGroup = "authorization.k8s.io"

// review fills in the status of a review.
func (r *rights) review(o *unstructured.Unstructured, served []gvr.Resource) error {
	spec := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	allowed := func(verb, namespace, group, version, plural string) bool {
		q := &query{Request: Request{Verb: verb, Namespace: namespace}, group: group, version: version, plural: plural}
		return !r.forbids(q)
	}
	if o.GetKind() == "SelfSubjectAccessReview" {
		of := func(field string) string { return spec("resourceAttributes", field) }
		ok := allowed(of("verb"), of("namespace"), of("group"), of("version"), of("resource"))
		o.Object["status"] = map[string]any{"allowed": ok}
		return nil
	}
	namespace := spec("namespace")
	if namespace == "" {
		return fmt.Errorf("no namespace on request")
	}
	rules := []any{}
	for _, t := range served {
		verbs, name := []any{}, t.GroupVersionResource.Resource
		for _, verb := range t.Verbs {
			if allowed(verb, namespace, t.Group, t.Version, name) {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			rules = append(rules, map[string]any{"verbs": verbs, "apiGroups": []any{t.Group}, "resources": []any{name}})
		}
	}
	o.Object["status"] = map[string]any{"resourceRules": rules, "nonResourceRules": []any{}, "incomplete": false}
	return nil
}
