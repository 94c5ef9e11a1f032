package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

func TestStates(t *testing.T) {
	robot := func(state mux.FollowState, cause error, namespaces ...string) mux.Followed {
		return mux.Followed{Resource: droids, State: state, Namespaces: namespaces, Cause: cause}
	}
	name := func(cause error) mux.Followed {
		return mux.Followed{Ref: gvr.Ref{Name: "robtos"}, State: mux.FollowUnserved, Cause: cause}
	}
	refused := &stream.RequestError{Verb: "list", Resource: droids, Err: errors.New("you\nmay not")}
	v2 := droids
	v2.GroupVersionResource = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "robots"}
	nobody := gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "planets"}}
	const is = "gvrwatch: robots.v1.example.com: "
	tests := []struct {
		wanted  []string
		changes []mux.Followed
		want    string
		why     string
	}{
		{nil, []mux.Followed{robot(mux.FollowWatching, nil), robot(mux.FollowWatching, nil)}, "", "that what was there is watched goes without saying"},
		{nil, []mux.Followed{{Resource: worlds, State: mux.FollowWatching}}, "gvrwatch: planets.v1.space.io: served now: watching\n", "it was not there"},
		{nil, []mux.Followed{robot(mux.FollowGone, nil), robot(mux.FollowGone, nil), robot(mux.FollowWatching, nil), robot(mux.FollowGone, nil)},
			is + "gone: waiting\n" + is + "served again: watching\n" + is + "gone: waiting\n", "a line for each change, and for no change none"},
		{nil, []mux.Followed{robot(mux.FollowStarting, nil), robot(mux.FollowGone, nil), robot(mux.FollowStarting, nil), robot(mux.FollowWatching, nil)},
			is + "gone: waiting\n" + is + "served again: watching\n", "as Follow tells it"},
		{nil, []mux.Followed{robot(mux.FollowGone, nil), {Resource: v2, State: mux.FollowWatching}},
			is + "gone: waiting\ngvrwatch: robots.v2.example.com: served again: watching\n", "it is the same in another version"},
		{nil, []mux.Followed{robot(mux.FollowFailing, refused), robot(mux.FollowFailing, errors.New("otherwise")), robot(mux.FollowWatching, nil)},
			is + "failing, to be tried again: you may not\n" + is + "failing no more: watching\n", "one line, and not again because it is worded otherwise"},
		{nil, []mux.Followed{robot(mux.FollowForbidden, refused), robot(mux.FollowForbidden, nil, "a"), robot(mux.FollowForbidden, nil, "a", "b"), robot(mux.FollowForbidden, refused, "a", "b"), robot(mux.FollowForbidden, refused)},
			is + "forbidden across the cluster: waiting: you may not\n" + is + "forbidden across the cluster: watching in a\n" +
				is + "forbidden across the cluster: watching in a, b\n" + is + "forbidden across the cluster: waiting: you may not\n", "where it is watched"},
		{[]string{"a"}, []mux.Followed{robot(mux.FollowForbidden, refused, "a"), robot(mux.FollowForbidden, refused), robot(mux.FollowWatching, nil, "a")},
			is + "forbidden in the namespace a: waiting: you may not\n" + is + "allowed: watching\n", "the one that is wanted"},
		{[]string{"a"}, []mux.Followed{{Resource: nobody, State: mux.FollowForbidden, Cause: refused}},
			"gvrwatch: planets.v1: forbidden across the cluster: waiting: you may not\n", "it lives in no namespace"},
		{nil, []mux.Followed{name(nil), name(&discovery.NotFoundError{}), name(&discovery.UnavailableError{Err: errors.New("down")}), name(errors.New("still down")),
			name(&discovery.AmbiguousError{Ref: gvr.Ref{Name: "robtos"}, Candidates: []gvr.Resource{droids, v2}})},
			"gvrwatch: robtos: not served yet: waiting\ngvrwatch: robtos: not known whether it is served: waiting: down\n" +
				`gvrwatch: robtos: not clear what it is: waiting: ambiguous resource type "robtos": must be one of robots.v1.example.com, robots.v2.example.com` + "\n", "why a name stands for nothing"},
	}
	for _, tt := range tests {
		var b bytes.Buffer
		s := newStates(&b, []gvr.Resource{droids}, tt.wanted)
		for _, f := range tt.changes {
			s.changed(f)
		}
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}
