package gvr_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

func TestWatchNeedsListAndWatchVerbs(t *testing.T) {
	tests := []struct {
		verbs              []string
		namespaced         bool
		cluster, namespace bool
		why                string
	}{
		{[]string{"get", "list", "watch"}, true, true, true, "a namespaced resource supports both"},
		{[]string{"list", "watch"}, false, true, false, "a cluster-scoped resource has no namespaces"},
		{[]string{"get", "list"}, true, false, false, "metrics.k8s.io pods can be listed but not watched"},
		{[]string{"watch"}, true, false, false, "without list, nothing can be compared after a gap"},
		{[]string{"create"}, false, false, false, "reviews can only be created"},
		{nil, true, true, true, "a program that makes a Resource need not know its verbs"},
		{nil, false, true, false, "without Namespaced, only a watch of everything"},
	}
	for _, tt := range tests {
		r := gvr.Resource{Verbs: tt.verbs, Namespaced: tt.namespaced}
		if got := r.ClusterWatch(); got != tt.cluster {
			t.Errorf("ClusterWatch() = %v: %s", got, tt.why)
		}
		if got := r.NamespacedWatch(); got != tt.namespace {
			t.Errorf("NamespacedWatch() = %v: %s", got, tt.why)
		}
	}
}

func TestResourceStringParsesBack(t *testing.T) {
	for _, tt := range []struct{ group, version, resource, want string }{
		{"apps", "v1", "deployments", "deployments.v1.apps"},
		{"", "v1", "pods", "pods.v1"},
		{"example.com", "trial", "widgets", "example.com/trial/widgets"},
	} {
		r := gvr.Resource{
			GroupVersionResource: schema.GroupVersionResource{
				Group: tt.group, Version: tt.version, Resource: tt.resource,
			},
			Kind: "Some",
		}
		if r.String() != tt.want {
			t.Errorf("String() = %q, want %q", r, tt.want)
		}
		if ref, err := gvr.ParseRef(r.String()); err != nil || ref != r.Ref() {
			t.Errorf("ParseRef(%q) = %+v, %v, want %+v", r, ref, err, r.Ref())
		}
		want := schema.GroupVersionKind{Group: tt.group, Version: tt.version, Kind: "Some"}
		if r.GroupVersionKind() != want {
			t.Errorf("GroupVersionKind() = %v, want %v", r.GroupVersionKind(), want)
		}
	}
}

// TestNilAndZeroValues: the zero values have texts, and name nothing.
func TestNilAndZeroValues(t *testing.T) {
	var r gvr.Resource
	_, err := gvr.ParseRef("")
	got := []any{
		gvr.Ref{}.String(), r.String(), r.Ref(), r.GroupVersionKind(), r.ClusterWatch(), r.NamespacedWatch(),
		(&gvr.ParseError{}).Error(), err != nil,
	}
	want := []any{
		"", "", gvr.Ref{}, schema.GroupVersionKind{}, true, false, `invalid resource type "": `, true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
