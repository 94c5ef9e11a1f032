package apiserver_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func TestReviewsAgreeWithRequests(t *testing.T) {
	srv := apiserver.NewServer(append(apiserver.Reviews(), widgets)...)
	for _, what := range []string{"widgets forbid all", "widgets allow watch", "widgets allow list in one"} {
		if err := srv.Do(everything, what); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(kind string, spec map[string]any) map[string]any {
		for _, r := range apiserver.Reviews() {
			if r.Kind != kind {
				continue
			}
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(),
				"kind": kind, "spec": spec}}
			answer, err := srv.Client().Resource(r.GroupVersionResource).Create(t.Context(), o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return answer.Object["status"].(map[string]any)
		}
		return nil
	}
	access := func(verb, namespace string) any {
		return ask("SelfSubjectAccessReview", map[string]any{"resourceAttributes": map[string]any{
			"verb": verb, "namespace": namespace, "group": widgets.Group, "version": widgets.Version,
			"resource": "widgets",
		}})["allowed"]
	}
	got := map[string]any{"list": access("list", ""), "list in one": access("list", "one"),
		"watch in two": access("watch", "two")}
	if diff := cmp.Diff(map[string]any{"list": false, "list in one": true, "watch in two": true}, got); diff != "" {
		t.Errorf("access reviews must agree with requests (-want +got):\n%s", diff)
	}
	rules := ask("SelfSubjectRulesReview", map[string]any{"namespace": "one"})["resourceRules"].([]any)
	last := rules[len(rules)-1]
	want := map[string]any{"verbs": []any{"list", "watch"}, "apiGroups": []any{widgets.Group},
		"resources": []any{"widgets"}}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("rules reviews must agree with requests (-want +got):\n%s", diff)
	}
}
