package streamtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Reviews are what one can ask a kube-apiserver about one's rights. A Server that
// serves them answers by what a script has forbidden.
func Reviews() []gvr.Resource {
	review := func(name, kind string) gvr.Resource {
		return gvr.Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: reviewGroup, Version: "v1", Resource: name},
			Kind:                 kind, Verbs: []string{"create"},
		}
	}
	return []gvr.Resource{review("selfsubjectaccessreviews", "SelfSubjectAccessReview"), review("selfsubjectrulesreviews", "SelfSubjectRulesReview")}
}

const reviewGroup = "authorization.k8s.io"

// review answers a question. s.mu is held.
func (s *Server) review(o *unstructured.Unstructured) error {
	spec := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	allowed := func(verb, namespace, group, version, plural string) bool {
		q := &query{Request: Request{Verb: verb, Namespace: namespace}, group: group, version: version, plural: plural}
		return !s.forbidden(q)
	}
	if o.GetKind() == "SelfSubjectAccessReview" {
		of := func(field string) string { return spec("resourceAttributes", field) }
		is := allowed(of("verb"), of("namespace"), of("group"), of("version"), of("resource"))
		o.Object["status"] = map[string]any{"allowed": is}
		return nil
	}
	namespace := spec("namespace")
	if namespace == "" {
		return fmt.Errorf("no namespace on request")
	}
	rules := []any{}
	for _, r := range s.served {
		verbs, name := []any{}, r.GroupVersionResource.Resource
		for _, verb := range r.Verbs {
			if allowed(verb, namespace, r.Group, r.Version, name) {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			rules = append(rules, map[string]any{"verbs": verbs, "apiGroups": []any{r.Group}, "resources": []any{name}})
		}
	}
	o.Object["status"] = map[string]any{"resourceRules": rules, "nonResourceRules": []any{}, "incomplete": false}
	return nil
}
