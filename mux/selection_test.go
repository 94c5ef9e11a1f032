package mux

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

func served(name, group string, namespaced bool, categories ...string) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}, Kind: "Kind", Singular: "one",
		ShortNames: []string{"sh"}, Categories: categories, Namespaced: namespaced, Verbs: []string{"list", "watch"},
	}
}

func TestSelects(t *testing.T) {
	tests := []struct {
		s    Selection
		r    gvr.Resource
		want bool
		why  string
	}{
		{Selection{}, served("pods", "", true), false, "zero selects nothing"},
		{Selection{Resources: []string{"*"}}, served("pods", "", true), true, "everything"},
		{Selection{Resources: []string{"*"}}, served("nodes", "", false), true, "in no namespace, too"},
		{Selection{Resources: []string{"*"}}, served("events", "", true), false, "but what only makes noise"},
		{Selection{Resources: []string{"*"}}, served("events", "events.k8s.io", true), false, "under either name"},
		{Selection{Resources: []string{"*"}}, served("leases", "coordination.k8s.io", true), false, "likewise"},
		{Selection{Resources: []string{"*"}}, served("events", "calendar.example.com", true), true, "others may be called the same"},
		{Selection{Resources: []string{"*"}, Everything: true}, served("events", "", true), true, "unless all means all"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"po*"}}, served("pods", "", true), false, "excluded by name, of any group"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"*.example.com"}}, served("widgets", "example.com", true), false, "excluded by group"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"One"}}, served("pods", "", true), false, "excluded by its singular"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"sh"}}, served("pods", "", true), false, "by its short name"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"KindList"}}, served("pods", "", true), false, "by its kind"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"widgets.v2.example.com"}}, served("widgets", "example.com", true), false, "whatever the version"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"widgets.example.com"}}, served("widgets", "other.com", true), true, "of another group"},
		{Selection{Resources: []string{"*.example.com"}}, served("widgets", "example.com", true), true, "of the group"},
		{Selection{Resources: []string{"*.Example.com"}}, served("widgets", "example.com", true), true, "however it is written"},
		{Selection{Resources: []string{"*.example.com"}}, served("widgets", "sub.example.com", true), false, "not of one below it"},
		{Selection{Resources: []string{"*.*.example.com"}}, served("widgets", "sub.example.com", true), true, "of those below it"},
		{Selection{Resources: []string{"*.*.example.com"}}, served("widgets", "example.com", true), false, "which it is not itself"},
		{Selection{Resources: []string{"*."}}, served("pods", "", true), true, "the core group"},
		{Selection{Resources: []string{"*."}}, served("widgets", "example.com", true), false, "and no other"},
		{Selection{Resources: []string{"w*.example.com"}}, served("widgets", "example.com", true), true, "a part of the name"},
		{Selection{Resources: []string{"widgets"}}, served("widgets", "example.com", true), false, "names are for the resolver"},
		{Selection{Categories: []string{"all"}}, served("pods", "", true, "all"), true, "of the category"},
		{Selection{Categories: []string{"all"}}, served("secrets", "", true), false, "of none"},
		{Selection{Resources: []string{"*"}, Namespaces: []string{"web"}}, served("nodes", "", false), false, "what lives in no namespace is not in these"},
		{Selection{Resources: []string{"*"}}, gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Resource: "bindings", Version: "v1"}}, false, "it can't be watched"},
	}
	for _, tt := range tests {
		s, err := tt.s.check()
		if err != nil {
			t.Errorf("%+v: %v", tt.s, err)
		} else if got := s.selects(tt.r); got != tt.want {
			t.Errorf("%+v selects %s: %v, want %v: %s", tt.s, tt.r, got, tt.want, tt.why)
		}
	}
}

func TestSelectionErrors(t *testing.T) {
	tests := []struct {
		s     Selection
		field string
		why   string
	}{
		{Selection{Resources: []string{"pods/web-0"}}, "Resources", "one object is no resource"},
		{Selection{Resources: []string{""}}, "Resources", "nothing is named"},
		{Selection{Resources: []string{"[*"}}, "Resources", "a bracket is open"},
		{Selection{Resources: []string{"apps/*"}}, "Resources", "patterns have dots"},
		{Selection{Resources: []string{".*"}}, "Resources", "which name?"},
		{Selection{Resources: []string{"*.v1.example.com"}}, "Resources", "versions are followed as one"},
		{Selection{Exclude: []string{"w*.v1beta1.example.com"}}, "Exclude", "likewise"},
		{Selection{Exclude: []string{"pods/log"}}, "Exclude", "no part of a resource"},
		{Selection{Exclude: []string{""}}, "Exclude", "nothing is named"},
		{Selection{Categories: []string{""}}, "Categories", "nothing is named"},
		{Selection{Namespaces: []string{"Web"}}, "Namespaces", "no namespace is called that"},
		{Selection{Candidates: []string{"a/b"}}, "Candidates", "likewise"},
	}
	for _, tt := range tests {
		_, err := tt.s.check()
		var got *SelectionError
		if !errors.As(err, &got) || got.Field != tt.field {
			t.Errorf("%+v: %v, want a SelectionError of %s: %s", tt.s, err, tt.field, tt.why)
		}
	}
}

func TestMayName(t *testing.T) {
	r := served("widgets", "example.com", true)
	tests := []struct {
		ref  string
		want bool
	}{
		{"widgets", true}, {"WIDGETS.example.com", true}, {"one", true}, {"Kind", true}, {"KindList", true}, {"sh", true},
		{"widgets.v2.example.com", true}, {"widgets.other.com", false}, {"widget", false}, {"v1/widgets", false},
	}
	got := map[string]bool{}
	want := map[string]bool{}
	for _, tt := range tests {
		ref, err := gvr.ParseRef(tt.ref)
		if err != nil {
			t.Fatal(err)
		}
		got[tt.ref], want[tt.ref] = mayName(ref, r), tt.want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what may be meant is worth a look (-want +got):\n%s", diff)
	}
}
