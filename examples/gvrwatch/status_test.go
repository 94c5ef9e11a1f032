package main

import (
	"bytes"
	"errors"
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
	nobody := gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "planets"}}
	const is = "gvrwatch: robots.v1.example.com: "
	tests := []struct {
		wanted  []string
		changes []follow.ResourceStatus
		want    string
		why     string
	}{
		{nil, []follow.ResourceStatus{robot(follow.Watching, nil), robot(follow.Watching, nil)}, "", "that what was there is watched goes without saying"},
		{nil, []follow.ResourceStatus{{Resource: planetType, State: follow.Watching}}, "gvrwatch: planets.v1.space.io: served now: watching\n", "it was not there"},
		{nil, []follow.ResourceStatus{robot(follow.Gone, nil), robot(follow.Gone, nil), robot(follow.Watching, nil), robot(follow.Gone, nil)},
			is + "gone: waiting\n" + is + "served again: watching\n" + is + "gone: waiting\n", "a line for each change, and for no change none"},
		{nil, []follow.ResourceStatus{robot(follow.Starting, nil), robot(follow.Gone, nil), robot(follow.Starting, nil), robot(follow.Watching, nil)},
			is + "gone: waiting\n" + is + "served again: watching\n", "as Follow tells it"},
		{nil, []follow.ResourceStatus{robot(follow.Gone, nil), {Resource: v2, State: follow.Watching}},
			is + "gone: waiting\ngvrwatch: robots.v2.example.com: served again: watching\n", "it is the same in another version"},
		{nil, []follow.ResourceStatus{robot(follow.Failing, refused), robot(follow.Failing, errors.New("otherwise")), robot(follow.Watching, nil)},
			is + "failing, to be tried again: you may not\n" + is + "failing no more: watching\n", "one line, and not again because it is worded otherwise"},
		{nil, []follow.ResourceStatus{robot(follow.Forbidden, refused), robot(follow.Forbidden, nil, "a"), robot(follow.Forbidden, nil, "a", "b"), robot(follow.Forbidden, refused, "a", "b"), robot(follow.Forbidden, refused)},
			is + "forbidden across the cluster: waiting: you may not\n" + is + "forbidden across the cluster: watching in a\n" +
				is + "forbidden across the cluster: watching in a, b\n" + is + "forbidden across the cluster: waiting: you may not\n", "where it is watched"},
		{[]string{"a"}, []follow.ResourceStatus{robot(follow.Forbidden, refused, "a"), robot(follow.Forbidden, refused), robot(follow.Watching, nil, "a")},
			is + "forbidden in the namespace a: waiting: you may not\n" + is + "allowed: watching\n", "the one that is wanted"},
		{[]string{"a"}, []follow.ResourceStatus{{Resource: nobody, State: follow.Forbidden, Cause: refused}},
			"gvrwatch: planets.v1: forbidden across the cluster: waiting: you may not\n", "it lives in no namespace"},
		{nil, []follow.ResourceStatus{name(nil), name(&discovery.NotFoundError{}), name(&discovery.UnavailableError{Err: errors.New("down")}), name(errors.New("still down")),
			name(&discovery.AmbiguousError{Ref: gvr.Ref{Name: "robtos"}, Candidates: []gvr.Resource{robotType, v2}})},
			"gvrwatch: robtos: not served yet: waiting\ngvrwatch: robtos: not known whether it is served: waiting: down\n" +
				`gvrwatch: robtos: not clear what it is: waiting: ambiguous resource type "robtos": must be one of robots.v1.example.com, robots.v2.example.com` + "\n", "why a name stands for nothing"},
	}
	for _, tt := range tests {
		var b bytes.Buffer
		s := newStatusPrinter(&b, []gvr.Resource{robotType}, tt.wanted)
		for _, f := range tt.changes {
			s.changed(f)
		}
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}
