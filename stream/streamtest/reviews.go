package streamtest

import (
	"fmt"
	"net/http"

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
func (s *Server) review(o *unstructured.Unstructured) (int, any, error) {
	switch o.GetKind() {
	case "SelfSubjectAccessReview":
		of := func(field string) string {
			value, _, _ := unstructured.NestedString(o.Object, "spec", "resourceAttributes", field)
			return value
		}
		q := &query{Request: Request{Verb: of("verb"), Namespace: of("namespace")}, group: of("group"), version: of("version"), plural: of("resource")}
		q.resource, _ = s.find(q.group, q.version, q.plural)
		o.Object["status"] = map[string]any{"allowed": !s.forbidden(q)}
	case "SelfSubjectRulesReview":
		namespace, _, _ := unstructured.NestedString(o.Object, "spec", "namespace")
		if namespace == "" {
			return 0, nil, fmt.Errorf("no namespace on request")
		}
		o.Object["status"] = map[string]any{"resourceRules": s.rulesIn(namespace), "nonResourceRules": []any{}, "incomplete": false}
	}
	return http.StatusCreated, o.Object, nil
}

func (s *Server) rulesIn(namespace string) []any {
	rules := []any{}
	for _, r := range s.served {
		verbs := []any{}
		for _, verb := range r.Verbs {
			q := &query{Request: Request{Verb: verb, Namespace: namespace}, group: r.Group, version: r.Version, plural: r.GroupVersionResource.Resource, resource: r}
			if !s.forbidden(q) {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			rules = append(rules, map[string]any{"verbs": verbs, "apiGroups": []any{r.Group}, "resources": []any{r.GroupVersionResource.Resource}})
		}
	}
	return rules
}
