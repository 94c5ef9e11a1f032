package follow

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

func resource(name, group string, namespaced bool, categories ...string) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1",
			Resource: name}, Kind: "Kind", Singular: "one",
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
		{Selection{}, resource("pods", "", true), false, "zero selects nothing"},
		{Selection{Resources: []string{"*"}}, resource("pods", "", true), true, "everything"},
		{Selection{Resources: []string{"*"}}, resource("nodes", "", false), true, "cluster-scoped resources too"},
		{Selection{Resources: []string{"*"}}, resource("events", "", true), false, "except DefaultExclude"},
		{Selection{Resources: []string{"*"}}, resource("events", "events.k8s.io", true), false,
			"events under their other name"},
		{Selection{Resources: []string{"*"}}, resource("leases", "coordination.k8s.io", true), false, "the same rule"},
		{Selection{Resources: []string{"*"}}, resource("events", "calendar.example.com", true), true,
			"a resource of the same name in another group"},
		{Selection{Resources: []string{"*"}, NoDefaultExclude: true}, resource("events", "", true), true,
			"NoDefaultExclude disables DefaultExclude"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"po*"}}, resource("pods", "", true), false,
			"excluded by name, of any group"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"*.example.com"}},
			resource("widgets", "example.com", true), false, "excluded by group"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"One"}}, resource("pods", "", true), false,
			"excluded by its singular"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"sh"}}, resource("pods", "", true), false,
			"excluded by its short name"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"KindList"}}, resource("pods", "", true), false,
			"excluded by the kind of its list"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"widgets.v2.example.com"}},
			resource("widgets", "example.com", true), false, "excluded in any version"},
		{Selection{Resources: []string{"*"}, Exclude: []string{"widgets.example.com"}},
			resource("widgets", "other.com", true), true, "the exclusion is of another group"},
		{Selection{Resources: []string{"*.example.com"}}, resource("widgets", "example.com", true), true,
			"a resource of the group"},
		{Selection{Resources: []string{"*.Example.com"}}, resource("widgets", "example.com", true), true,
			"groups are case-insensitive"},
		{Selection{Resources: []string{"*.example.com"}}, resource("widgets", "sub.example.com", true), false,
			"a group below it does not match"},
		{Selection{Resources: []string{"*.*.example.com"}}, resource("widgets", "sub.example.com", true), true,
			"a group below it"},
		{Selection{Resources: []string{"*.*.example.com"}}, resource("widgets", "example.com", true), false,
			"the group itself is not below it"},
		{Selection{Resources: []string{"*."}}, resource("pods", "", true), true, "the core group"},
		{Selection{Resources: []string{"*."}}, resource("widgets", "example.com", true), false, "not another group"},
		{Selection{Resources: []string{"w*.example.com"}}, resource("widgets", "example.com", true), true,
			"a prefix of the name"},
		{Selection{Resources: []string{"widgets"}}, resource("widgets", "example.com", true), false,
			"names take a resolver"},
		{Selection{Categories: []string{"all"}}, resource("pods", "", true, "all"), true, "in the category"},
		{Selection{Categories: []string{"ALL"}}, resource("pods", "", true, "all"), true, "categories ignore case"},
		{Selection{Categories: []string{"all"}}, resource("secrets", "", true), false, "in no category"},
		{Selection{Resources: []string{"*"}, Namespaces: []string{"web"}}, resource("nodes", "", false), false,
			"a cluster-scoped resource is in no namespace"},
		{Selection{Resources: []string{"*"}},
			gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Resource: "bindings",
				Version: "v1"}, Verbs: []string{"create"}}, false, "it has no watch"},
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

func TestInvalidSelectionNamesItsField(t *testing.T) {
	tests := []struct {
		s     Selection
		field string
		why   string
	}{
		{Selection{Resources: []string{"pods/web-0"}}, "Resources", "an object"},
		{Selection{Resources: []string{""}}, "Resources", "an empty name"},
		{Selection{Resources: []string{"[*"}}, "Resources", "an open bracket"},
		{Selection{Resources: []string{"apps/*"}}, "Resources", "patterns have dots"},
		{Selection{Resources: []string{".*"}}, "Resources", "no name"},
		{Selection{Resources: []string{"*.v1.example.com"}}, "Resources", "a pattern with a version"},
		{Selection{Exclude: []string{"w*.v1beta1.example.com"}}, "Exclude", "the same rule"},
		{Selection{Exclude: []string{"pods/log"}}, "Exclude", "a subresource"},
		{Selection{Exclude: []string{""}}, "Exclude", "an empty name"},
		{Selection{Categories: []string{""}}, "Categories", "an empty name"},
		{Selection{Namespaces: []string{"Web"}}, "Namespaces", "an invalid name"},
		{Selection{CandidateNamespaces: []string{"a/b"}}, "CandidateNamespaces", "the same rule"},
	}
	for _, tt := range tests {
		_, err := tt.s.check()
		var got *stream.OptionsError
		if !errors.As(err, &got) || got.Field != tt.field {
			t.Errorf("%+v: %v, want a *stream.OptionsError of %s: %s", tt.s, err, tt.field, tt.why)
		}
	}
}

func TestMayName(t *testing.T) {
	r := resource("widgets", "example.com", true)
	tests := []struct {
		ref  string
		want bool
	}{
		{"widgets", true}, {"WIDGETS.example.com", true}, {"one", true}, {"Kind", true}, {"KindList", true}, {"sh",
			true},
		{"widgets.v2.example.com", true}, {"widgets.other.com", false}, {"widget", false}, {"v1/widgets", false},
		{"widgets.ex", true}, {"widgets.example", true}, {"widgets.v2.example", false}, {"widgets.example.co", false},
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
		t.Errorf("mayName (-want +got):\n%s", diff)
	}
}
