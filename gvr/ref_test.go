package gvr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
)

func TestParseRefAcceptsEverySpelling(t *testing.T) {
	tests := []struct {
		in, group, version, name string
		str                      string // what String returns, if not in
		why                      string
	}{
		{"po", "", "", "po", "", "short name"},
		{"pods", "", "", "pods", "", "plural"},
		{"Pod", "", "", "Pod", "", "kind; the case is kept for messages"},
		{"PodList", "", "", "PodList", "", "list kind"},
		{"pods.", "", "", "pods", "pods", "any group, as in kubectl"},
		{"deployments.apps", "apps", "", "deployments", "", "NAME.GROUP"},
		{"widgets.example.com", "example.com", "", "widgets", "", "a group with a dot"},
		{"deployments.v1.apps", "apps", "v1", "deployments", "", "kubectl's NAME.VERSION.GROUP"},
		{"widgets.v1beta1.example.com", "example.com", "v1beta1", "widgets", "", "beta versions are versions too"},
		{"widgets.vx.example.com", "vx.example.com", "", "widgets", "", "vx is part of the group"},
		{"widgets.v0.example.com", "v0.example.com", "", "widgets", "", "versions count from 1"},
		{"pods.v1", "", "v1", "pods", "", "core group, as Resource.String writes it"},
		{"pods.v1.", "", "v1", "pods", "pods.v1", "core group, as kubectl writes it"},
		{"v1/pods", "", "v1", "pods", "pods.v1", "core group, by apiVersion"},
		{"apps/v1/Deployment", "apps", "v1", "Deployment", "Deployment.v1.apps", "apiVersion and kind"},
		{"example.com/trial/widgets", "example.com", "trial", "widgets", "", "a custom version needs slashes"},
		{"v1.example.com/widgets", "v1.example.com", "", "widgets", "", "a group that starts like a version"},
		{"example.com/widgets", "example.com", "", "widgets", "widgets.example.com", "GROUP/NAME"},
		{"v1.example.com/v2/widgets", "v1.example.com", "v2", "widgets", "widgets.v2.v1.example.com",
			"the first one is the version"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := gvr.ParseRef(tt.in)
			if err != nil {
				t.Fatalf("%s: %v", tt.why, err)
			}
			want := gvr.Ref{Group: tt.group, Version: tt.version, Name: tt.name}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			str := tt.str
			if str == "" {
				str = tt.in
			}
			if got.String() != str {
				t.Errorf("%s: String() = %q, want %q", tt.why, got, str)
			}
		})
	}
}

func TestParseRefRejectsWhatNamesNoType(t *testing.T) {
	tests := []struct{ in, reason, why string }{
		{"", "empty", "nothing at all"},
		{" pods", `" pods"`, "white space comes from a quoting mistake"},
		{"pods\n", "invalid name", "a line with its line break"},
		{"pods,services", "invalid name", "one name at a time"},
		{".", "invalid name", "only a dot"},
		{".apps", "invalid name", "a group without a name"},
		{"pods/web-0", "single objects", "a pod is no resource type"},
		{"pods/log", "subresources", "a subresource can't be watched"},
		{"apps/deployments", "neither a version nor a group with a dot", "looks like TYPE/NAME"},
		{"/v1/pods", "empty part", "the core group takes no leading slash"},
		{"apps//deployments", "empty part", "the version is missing"},
		{"apps/v1/", "invalid name", "the name is missing"},
		{"a/b/c/d", "too many slashes", "a path"},
		{"/", "neither", "only a slash"},
		{"deployments.Apps", "invalid group", "groups are lower case"},
		{"deployments.apps..", "invalid group", "empty parts between dots"},
		{"example.com/V1/widgets", "invalid version", "versions are lower case"},
		{"v1/v1/pods", `invalid group "v1": it is a version`, "the core group's name is empty, not v1"},
		{"*.example.com", "invalid name", "a pattern is no name"},
		{"pod\u0130", "invalid name", "a non-ASCII letter whose lower case is ASCII"},
		{"pöds", "invalid name", "names are ASCII"},
		{strings.Repeat("a", 64), "at most 63", "longer than any resource name"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := gvr.ParseRef(tt.in)
			var pe *gvr.ParseError
			if !errors.As(err, &pe) {
				t.Fatalf("%s: got %+v, %v, want a *ParseError", tt.why, got, err)
			}
			if pe.Input != tt.in {
				t.Errorf("Input = %q, want %q", pe.Input, tt.in)
			}
			if !strings.Contains(err.Error(), tt.reason) || !strings.Contains(err.Error(), "must be NAME") {
				t.Errorf("%s: got %q, want the reason (%s) and the valid spellings", tt.why, err, tt.reason)
			}
		})
	}
}

func TestRefStringIsReadableForInvalidRefs(t *testing.T) {
	refs := []gvr.Ref{{}, {Group: "v1", Name: "x"}, {Version: "trial", Name: "x"}, {Group: "apps"}, {Version: "v1"}}
	for _, r := range refs {
		if s := r.String(); s == "" && r != (gvr.Ref{}) {
			t.Errorf("%+v has an empty String", r)
		}
	}
	// A server may list any plural.
	for name, want := range map[string]string{"a\nb": `a\nb.v1`, "\u202e": `\u202e.v1`, "ü\x00": `ü\x00.v1`} {
		if diff := cmp.Diff(want, gvr.Ref{Version: "v1", Name: name}.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{
		"po", "PodList", "deployments.v1.apps", "apps/v1/Deployment", "v1/pods", "pods.v1.", "v1.example.com/widgets",
		"example.com/trial/w", "a.v1.v1", "v1/v1", "v1.v1.v1", "v1.v1/v1", "..", "/./", "\xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := gvr.ParseRef(s)
		if err != nil {
			if diff := cmp.Diff(gvr.Ref{}, r); diff != "" {
				t.Errorf("ParseRef(%q) returned both %+v and %v", s, r, err)
			}
			return
		}
		if r.Name == "" {
			t.Errorf("ParseRef(%q) = %+v without a name", s, r)
		}
		again, err := gvr.ParseRef(r.String())
		if err != nil || again != r {
			t.Errorf("ParseRef(%q) = %+v, its String %q parses as %+v, %v", s, r, r, again, err)
		}
	})
}
