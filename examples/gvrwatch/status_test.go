package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

func TestStatusLines(t *testing.T) {
	robot := func(state follow.State, cause error, namespaces ...string) follow.ResourceStatus {
		return follow.ResourceStatus{Resource: robotType, State: state, Namespaces: namespaces, Cause: cause}
	}
	name := func(cause error) follow.ResourceStatus {
		return follow.ResourceStatus{Ref: gvr.Ref{Name: "robtos"}, State: follow.Unserved, Cause: cause}
	}
	refused := &stream.RequestError{Verb: "list", Resource: robotType, Err: errors.New("you\nmay not")}
	v2 := robotType
	v2.GroupVersionResource = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "robots"}
	clusterScoped := gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "planets"}}
	long := gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Resource: strings.Repeat("x", 1000)}}
	const prefix = "gvrwatch: robots.v1.example.com: "
	tests := []struct {
		wanted  []string
		changes []follow.ResourceStatus
		want    string
		why     string
	}{
		{nil, []follow.ResourceStatus{robot(follow.Watching, nil), robot(follow.Watching, nil)}, "",
			"nothing is printed when the watch of a type begins that was served at the start"},
		{nil, []follow.ResourceStatus{{Resource: planetType, State: follow.Watching}},
			"gvrwatch: planets.v1.space.io: served now: watching\n",
			"a line is printed when a type is served that was not at the start"},
		{nil, []follow.ResourceStatus{
			robot(follow.Gone, nil), robot(follow.Gone, nil), robot(follow.Watching, nil), robot(follow.Gone, nil),
		}, prefix + "gone: waiting\n" + prefix + "served again: watching\n" + prefix + "gone: waiting\n",
			"each change prints one line, a repetition none"},
		{nil, []follow.ResourceStatus{
			robot(follow.Starting, nil), robot(follow.Gone, nil),
			robot(follow.Starting, nil), robot(follow.Watching, nil),
		}, prefix + "gone: waiting\n" + prefix + "served again: watching\n",
			"Starting prints nothing, and does not hide that the type was gone"},
		{nil, []follow.ResourceStatus{robot(follow.Gone, nil), {Resource: v2, State: follow.Watching}},
			prefix + "gone: waiting\ngvrwatch: robots.v2.example.com: served again: watching\n",
			"two versions of a resource share one status"},
		{nil, []follow.ResourceStatus{
			robot(follow.Failing, refused), robot(follow.Failing, errors.New("otherwise")), robot(follow.Watching, nil),
		}, prefix + "failing, trying again: you may not\n" + prefix + "no longer failing: watching\n",
			"another cause prints no line"},
		{nil, []follow.ResourceStatus{
			robot(follow.Forbidden, refused), robot(follow.Forbidden, nil, "a"), robot(follow.Forbidden, nil, "a", "b"),
			robot(follow.Forbidden, refused, "a", "b"), robot(follow.Forbidden, refused),
		}, prefix + "forbidden across the cluster: waiting: you may not\n" +
			prefix + "forbidden across the cluster: watching in a\n" +
			prefix + "forbidden across the cluster: watching in a, b\n" +
			prefix + "forbidden across the cluster: waiting: you may not\n",
			"the line has the namespaces that are watched"},
		{[]string{"a"}, []follow.ResourceStatus{
			robot(follow.Forbidden, refused, "a"), robot(follow.Forbidden, refused), robot(follow.Watching, nil, "a"),
		}, prefix + "forbidden in the namespace a: waiting: you may not\n" + prefix + "allowed: watching\n",
			"with one namespace the line has that namespace"},
		{[]string{"a"}, []follow.ResourceStatus{{Resource: clusterScoped, State: follow.Forbidden, Cause: refused}},
			"gvrwatch: planets.v1: forbidden across the cluster: waiting: you may not\n",
			"the line of a cluster-scoped type has no namespace"},
		{nil, []follow.ResourceStatus{
			name(nil), name(&discovery.NotFoundError{}),
			name(&discovery.UnavailableError{Err: errors.New("down")}), name(errors.New("still down")),
			name(&discovery.AmbiguousError{Ref: gvr.Ref{Name: "robtos"}, Candidates: []gvr.Resource{robotType, v2}}),
		}, "gvrwatch: robtos: not served yet: waiting\n" +
			"gvrwatch: robtos: unknown whether it is served: waiting: down\n" +
			`gvrwatch: robtos: several types match: waiting: ambiguous resource type "robtos": ` +
			"must be one of robots.v1.example.com, robots.v2.example.com\n",
			"the line has the reason why a name can't be resolved"},
		{nil, []follow.ResourceStatus{name(&discovery.NotFoundError{Similar: []gvr.Resource{long}})},
			"gvrwatch: robtos: not served yet: waiting; did you mean " + strings.Repeat("x", 381) + "...?\n",
			"a long name is cut"},
	}
	for _, tt := range tests {
		var b bytes.Buffer
		s := newStatusPrinter(&b, []gvr.Resource{robotType}, tt.wanted, ": waiting")
		for _, f := range tt.changes {
			s.changed(f)
		}
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}
