package gvr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
)

func TestParseRef(t *testing.T) {
	tests := []struct {
		in   string
		want gvr.Ref
		str  string // String(), if it is not in
		why  string
	}{
		{"po", gvr.Ref{Name: "po"}, "", "short name"},
		{"pods", gvr.Ref{Name: "pods"}, "", "plural"},
		{"Pod", gvr.Ref{Name: "Pod"}, "", "kind, its case kept for messages"},
		{"PodList", gvr.Ref{Name: "PodList"}, "", "list kind"},
		{"deployments.apps", gvr.Ref{Group: "apps", Name: "deployments"}, "", "NAME.GROUP"},
		{"widgets.example.com", gvr.Ref{Group: "example.com", Name: "widgets"}, "", "a group with a dot"},
		{"deployments.v1.apps", gvr.Ref{Group: "apps", Version: "v1", Name: "deployments"}, "", "kubectl's NAME.VERSION.GROUP"},
		{"widgets.v1beta1.example.com", gvr.Ref{Group: "example.com", Version: "v1beta1", Name: "widgets"}, "", "beta versions are versions too"},
		{"widgets.vx.example.com", gvr.Ref{Group: "vx.example.com", Name: "widgets"}, "", "vx is not a Kubernetes version, so it belongs to the group"},
		{"widgets.v0.example.com", gvr.Ref{Group: "v0.example.com", Name: "widgets"}, "", "versions count from 1"},
		{"pods.v1", gvr.Ref{Version: "v1", Name: "pods"}, "", "core group, as Resource.String writes it"},
		{"pods.v1.", gvr.Ref{Version: "v1", Name: "pods"}, "pods.v1", "core group, kubectl's way"},
		{"v1/pods", gvr.Ref{Version: "v1", Name: "pods"}, "pods.v1", "core group by apiVersion"},
		{"apps/v1/Deployment", gvr.Ref{Group: "apps", Version: "v1", Name: "Deployment"}, "Deployment.v1.apps", "apiVersion and kind"},
		{"example.com/trial/widgets", gvr.Ref{Group: "example.com", Version: "trial", Name: "widgets"}, "", "a CRD's own version names need slashes, and keep them"},
		{"v1.example.com/widgets", gvr.Ref{Group: "v1.example.com", Name: "widgets"}, "", "a group that begins like a version"},
		{"example.com/widgets", gvr.Ref{Group: "example.com", Name: "widgets"}, "widgets.example.com", "GROUP/NAME of any group with a dot"},
		{"v1.example.com/v2/widgets", gvr.Ref{Group: "v1.example.com", Version: "v2", Name: "widgets"}, "widgets.v2.v1.example.com", "the first version is the version"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := gvr.ParseRef(tt.in)
			if err != nil {
				t.Fatalf("%s: %v", tt.why, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
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

func TestParseRefRefuses(t *testing.T) {
	tests := []struct{ in, names, why string }{
		{"", "empty", "nothing at all"},
		{" pods", `" pods"`, "white space is a quoting mistake, not a name"},
		{"pods\n", "no resource name", "a line read with its end"},
		{"pods,services", "no resource name", "one name at a time"},
		{"pods.", "nothing after the dot", "half a name must not mean the whole"},
		{".apps", "no resource name", "a group without a name"},
		{"pods/web-0", "single objects", "a pod is not a resource type"},
		{"pods/log", "subresources", "a subresource can't be watched"},
		{"apps/deployments", "neither a version nor a group with a dot", "looks like TYPE/NAME; the message tells what to write"},
		{"/v1/pods", "empty part", "the core group has no slash in front"},
		{"apps//deployments", "empty part", "a version left out"},
		{"apps/v1/", "no resource name", "a name left out"},
		{"a/b/c/d", "too many slashes", "a path"},
		{"/", "neither", "only a slash"},
		{"deployments.Apps", "no API group", "groups are lower case"},
		{"deployments.apps..", "no API group", "dots without parts"},
		{"example.com/V1/widgets", "no API version", "versions are lower case"},
		{"v1/v1/pods", `group "v1" is a version`, "the core group's name is empty, not v1"},
		{"*.example.com", "no resource name", "patterns are not names"},
		{"pod\u0130", "no resource name", "a letter whose lower case is ASCII is not ASCII itself"},
		{"pöds", "no resource name", "names are ASCII"},
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
			if !strings.Contains(err.Error(), tt.names) || !strings.Contains(err.Error(), "write NAME") {
				t.Errorf("%s: the message must name what is wrong (%s) and what would be right: %v", tt.why, tt.names, err)
			}
		})
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"po", "PodList", "deployments.v1.apps", "apps/v1/Deployment", "v1/pods", "pods.v1.",
		"v1.example.com/widgets", "example.com/trial/w", "a.v1.v1", "v1/v1", "v1.v1.v1", "v1.v1/v1", "..", "/./", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := gvr.ParseRef(s)
		if err != nil {
			if diff := cmp.Diff(gvr.Ref{}, r); diff != "" {
				t.Errorf("ParseRef(%q) gave both %+v and %v", s, r, err)
			}
			return
		}
		if r.Name == "" {
			t.Errorf("ParseRef(%q) = %+v without a name", s, r)
		}
		again, err := gvr.ParseRef(r.String())
		if err != nil || again != r {
			t.Errorf("ParseRef(%q) = %+v, written %q, read back %+v, %v", s, r, r, again, err)
		}
	})
}

func TestRefStringOfUnparsable(t *testing.T) {
	// Nothing promises more than a readable text here, and no panic.
	for _, r := range []gvr.Ref{{}, {Group: "v1", Name: "x"}, {Version: "trial", Name: "x"}, {Group: "apps"}, {Version: "v1"}} {
		if s := r.String(); s == "" && r != (gvr.Ref{}) {
			t.Errorf("%+v has no text", r)
		}
	}
}
