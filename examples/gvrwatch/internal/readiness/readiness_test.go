package readiness

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

// TestProblem: the rules are those of kstatus, and the text says which one is not met.
func TestProblem(t *testing.T) {
	const (
		deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":2},`
		set        = `{"apiVersion":"apps/v1","kind":"StatefulSet",`
		pod        = `{"apiVersion":"v1","kind":"Pod",`
		job        = `{"apiVersion":"batch/v1","kind":"Job",`
		widget     = `{"apiVersion":"example.com/v1","kind":"Widget",`
		replicas   = `"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3`
	)
	for _, tt := range []struct{ why, object, want string }{
		{"an object without status", widget + `"spec":{}}`, ""},
		{"nothing at all", `{}`, ""},
		{"a condition Ready", widget + `"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, ""},
		{"a condition Ready that is not met", widget + `"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
			"in progress"},
		{"an unknown one", widget + `"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`, "in progress"},
		{"the controller has not seen the change",
			widget + `"metadata":{"generation":3},"status":{"observedGeneration":2,` +
				`"conditions":[{"type":"Ready","status":"True"}]}}`, "its controller has not seen the latest change"},
		{"Reconciling", widget + `"status":{"conditions":[{"type":"Reconciling","status":"True","reason":"Own"}]}}`,
			"in progress"},
		{"Stalled", widget + `"status":{"conditions":[{"type":"Stalled","status":"True","reason":"Own"}]}}`,
			"it has failed"},
		{"Stalled has been solved", widget + `"status":{"conditions":[{"type":"Stalled","status":"False"}]}}`, ""},
		{"being deleted", widget + `"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"}}`, "it is being deleted"},

		{"a Deployment", deployment + `"spec":{"replicas":3},"status":{"observedGeneration":2,` + replicas +
			`,"conditions":[{"type":"Available","status":"True"}]}}`, ""},
		{"not all of it is available", deployment + `"spec":{"replicas":3},"status":{"observedGeneration":2,` +
			strings.Replace(replicas, `"availableReplicas":3`, `"availableReplicas":1`, 1) + `}}`, "available: 1/3"},
		{"an old replica", deployment + `"spec":{"replicas":2},"status":{"observedGeneration":2,` + replicas + `}}`,
			"old replicas are being deleted"},
		{"its deadline", deployment + `"status":{"observedGeneration":2,"conditions":[{"type":"Progressing",` +
			`"status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "its progress deadline is exceeded"},
		{"a Deployment that nobody has seen", deployment + `"spec":{"replicas":3}}`, "replicas: 0/3"},
		{"one that is not to run", deployment + `"spec":{"replicas":0},"status":{"observedGeneration":2,` +
			`"conditions":[{"type":"Available","status":"True"}]}}`, ""},
		{"a StatefulSet", set + `"spec":{"replicas":3},"status":{"currentReplicas":3,` + replicas + `}}`, ""},
		{"its old revision", set + `"spec":{"replicas":3},"status":{"currentReplicas":3,"currentRevision":"a",` +
			`"updateRevision":"b",` + replicas + `}}`, "not every replica has the latest revision"},
		{"a ReplicaSet", `{"kind":"ReplicaSet","apiVersion":"apps/v1","status":{"replicas":1}}`, "labelled: 0/1"},
		{"a DaemonSet that nobody has seen",
			`{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"generation":1}}`,
			"its controller has not seen it"},
		{"a Pod", pod + `"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, ""},
		{"a Pod that runs", pod + `"status":{"phase":"Running"}}`, "it runs, but is not ready"},
		{"a Pod that waits", pod + `"status":{"phase":"Pending"}}`, "it is pending"},
		{"a Pod that has ended", pod + `"status":{"phase":"Succeeded"}}`, ""},
		{"a Pod that crashes", pod + `"status":{"phase":"Running","containerStatuses":[{"name":"a","state":` +
			`{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`, "a container crashes again and again"},
		{"a Job that has not started", job + `"spec":{}}`, "it has not started"},
		{"a Job that runs", job + `"status":{"startTime":"2026-01-02T03:04:05Z","active":1}}`, ""},
		{"a Job that has failed", job + `"status":{"conditions":[{"type":"Failed","status":"True"}]}}`,
			"it has failed"},
		{"a claim", `{"kind":"PersistentVolumeClaim","apiVersion":"v1","status":{"phase":"Pending"}}`,
			"it is not bound"},
		{"a Service", `{"kind":"Service","apiVersion":"v1","spec":{"type":"LoadBalancer"}}`, "it has no cluster IP"},
		{"a CRD", `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1"}`,
			"it is being installed"},
		{"a CRD that is served", `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","status":` +
			`{"conditions":[{"type":"Established","status":"True"}]}}`, ""},
		{"a budget", `{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"generation":2},` +
			`"status":{"observedGeneration":1}}`, "its controller has not seen the latest change"},
	} {
		want := tt.want
		if want != "" {
			want = "is not ready (" + want + ")"
		}
		o := object(t, tt.object)
		before := o.DeepCopy()
		if diff := cmp.Diff(want, Problem(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
		if diff := cmp.Diff(before, o); diff != "" {
			t.Errorf("%s: it was changed (-want +got):\n%s", tt.why, diff)
		}
	}
}

// secret is a text that no problem may quote.
const secret = "5ecret"

// TestHostile: no object makes Problem panic, or is quoted.
func TestHostile(t *testing.T) {
	kinds := []string{`"v1","kind":"Pod"`, `"apps/v1","kind":"Deployment"`, `"apps/v1","kind":"DaemonSet"`,
		`"apps/v1","kind":"StatefulSet"`, `"apps/v1","kind":"ReplicaSet"`, `"batch/v1","kind":"Job"`,
		`"v1","kind":"Service"`, `"v1","kind":"PersistentVolumeClaim"`, `"policy/v1","kind":"PodDisruptionBudget"`,
		`"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"`, `"a/v1","kind":"` + secret + `"`}
	values := []string{`"` + secret + `"`, `["` + secret + `"]`, `{"a":"` + secret + `"}`, `1.5`, `null`, `-1`,
		`9223372036854775807`, `[{"type":"Ready","status":"` + secret + `"}]`, `[[]]`, `true`,
		`[{"name":1}]`, `[{"name":"a","state":1}]`, `[{"name":"a","state":{"waiting":1}}]`,
		`[{"name":"` + secret + `","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]`,
		`[{"type":"Reconciling","status":"True","reason":"` + secret + `","message":"` + secret + `"}]`,
		`[{"type":"Stalled","status":"True","reason":"NotBound","message":"Ready: 1/2` + "\\n" + secret + `"}]`,
		`[{"type":"NamesAccepted","status":"False","reason":"` + secret + `","message":"` + secret + `"}]`,
		strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)}
	fields := []string{`"status":%`, `"metadata":%`, `"spec":%`, `"status":{"conditions":%}`, `"status":{"phase":%}`,
		`"status":{"phase":"Running","containerStatuses":%}`, `"status":{"observedGeneration":%}`,
		`"metadata":{"generation":%},"status":{"observedGeneration":1}`, `"metadata":{"deletionTimestamp":%}`,
		`"spec":{"replicas":%}`, `"status":{"phase":"Pending"},"metadata":{"creationTimestamp":%}`}
	problems := map[string]bool{}
	for _, kind := range kinds {
		for _, field := range fields {
			for _, value := range values {
				text := `{"apiVersion":` + kind + `,` + strings.Replace(field, "%", value, 1) + `}`
				if !json.Valid([]byte(text)) {
					t.Fatalf("no JSON: %.200s", text)
				}
				got := Problem(object(t, text))
				if problems[got] = true; strings.Contains(got, secret) || strings.ContainsAny(got, "\n") {
					t.Errorf("%.200s is quoted: %q", text, got)
				}
			}
		}
	}
	if !problems[unreadable] || !problems[""] || len(problems) < 10 {
		t.Errorf("the objects are not hostile enough: %d problems", len(problems))
	}
	if got := Problem(nil); got != unreadable {
		t.Errorf("nil: %q", got)
	}
}
