package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestNewRefuses: New returns an error that names what is invalid, and makes no request.
func TestNewRefuses(t *testing.T) {
	cluster := widgets()
	cluster.Namespaced = false
	listOnly := widgets()
	listOnly.Verbs = []string{"list"}
	at := func(versions map[string]string, objects ...checkpoint.Object) stream.Start {
		return stream.From(checkpoint.Position{ResourceVersions: versions, Objects: objects})
	}
	named := func(group, version, plural string) gvr.Resource {
		r := widgets()
		r.Group, r.Version, r.GroupVersionResource.Resource = group, version, plural
		return r
	}
	tests := []struct {
		r    gvr.Resource
		o    setup
		want error
		text string
		why  string
	}{
		{listOnly, setup{}, &stream.NotWatchableError{}, `must have the verbs list and watch, has ["list"]`,
			"a resource must have the verb watch"},
		{named("example.com", "v1", "a%b"), setup{}, &stream.OptionsError{}, "invalid Resource",
			"it is no part of a path"},
		{named("example.com", "v1", ""), setup{}, &stream.OptionsError{}, "invalid Resource", "no plural"},
		{named("example.com", "..", "widgets"), setup{}, &stream.OptionsError{}, "invalid Resource",
			"the version would lead to another path"},
		{named("..", "v1", "widgets"), setup{}, &stream.OptionsError{}, "invalid Resource",
			"so would the group"},
		{cluster, setup{Options: stream.Options{Namespaces: []string{"default"}}}, &stream.OptionsError{},
			`invalid Namespaces "default": must be empty, because`,
			"a cluster-scoped resource has no namespaces"},
		{widgets(), setup{Options: stream.Options{Namespaces: []string{"a/b"}}}, &stream.OptionsError{},
			`invalid Namespaces "a/b": must be the name of a namespace`,
			"a namespace is a name, not a path"},
		{widgets(), setup{Options: stream.Options{Namespaces: []string{"a", ""}}}, &stream.OptionsError{},
			"an empty name means the whole cluster",
			"the whole cluster excludes single namespaces"},
		{widgets(), setup{Options: stream.Options{LabelSelector: "a in (b"}}, &stream.OptionsError{},
			`invalid LabelSelector "a in (b": must be a label selector`,
			"a label selector must parse"},
		{widgets(), setup{Options: stream.Options{FieldSelector: "metadata.name"}}, &stream.OptionsError{},
			`invalid FieldSelector "metadata.name": must be a field selector`,
			"a field selector must parse"},
		{widgets(), setup{Run: stream.Run{Start: stream.Now(), Until: stream.UntilSynced}}, &stream.OptionsError{},
			"would deliver nothing",
			"a run from now until SYNCED has no events"},
		{widgets(), setup{Run: stream.Run{Start: stream.After("5"), Until: stream.UntilSynced}}, &stream.OptionsError{},
			"would deliver nothing",
			"a run after a version until SYNCED has no events"},
		{widgets(), setup{Run: stream.Run{Start: stream.After("")}}, &stream.OptionsError{},
			"After must have a resourceVersion",
			"After needs a version"},
		{widgets(), setup{Run: stream.Run{Start: stream.After("00")}}, &stream.OptionsError{},
			"would mean any",
			"version 0 is invalid in any spelling"},
		{widgets(), setup{Options: stream.Options{Name: "a/b"}}, &stream.OptionsError{},
			`may not contain '/'`,
			"no object can have this name"},
		{widgets(), setup{Run: stream.Run{Start: stream.After("0")}}, &stream.OptionsError{},
			"would mean any",
			"no run starts at version 0"},
		{widgets(), setup{Run: stream.Run{Start: at(map[string]string{"": "0"})}}, &stream.OptionsError{},
			`invalid Start "0": the position`,
			"no run starts from a position at version 0"},
		{widgets(), setup{Options: stream.Options{Namespaces: []string{"b"}},
			Run: stream.Run{Start: at(map[string]string{"a": "5"})}},
			&stream.OptionsError{},
			`invalid Start and Namespaces "a"`,
			"the position has the version of another namespace"},
		{widgets(), setup{Options: stream.Options{Namespaces: []string{"b"}},
			Run: stream.Run{Start: at(map[string]string{"": "5"})}},
			&stream.OptionsError{},
			"must be of the same namespaces",
			"the position has the version of the whole cluster"},
		{widgets(), setup{Options: stream.Options{Namespaces: []string{"b"}},
			Run: stream.Run{Start: at(nil, checkpoint.Object{Namespace: "a", Name: "x"})}}, &stream.OptionsError{},
			`"a/x": the objects of the position must be in the same namespaces`,
			"the position has an object of another namespace"},
		{widgets(), setup{Run: stream.Run{Start: at(nil, checkpoint.Object{Namespace: "a"})}}, &stream.OptionsError{},
			"must have names",
			"the position has an object without a name"},
		{widgets(), setup{Options: stream.Options{Requests: stream.Requests{WatchLifetime: -1}}},
			&stream.OptionsError{},
			"must be 0 or at least 1s",
			"a negative timeout"},
		{widgets(), setup{Options: stream.Options{Requests: stream.Requests{WatchLifetime: time.Millisecond}}},
			&stream.OptionsError{},
			"must be 0 or at least 1s",
			"timeoutSeconds would be 0, which means none"},
		{widgets(), setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: -1}}}, &stream.OptionsError{},
			"must be 0 or at least 1s",
			"IdleTimeout can't be switched off: liveness is a promise"},
		{widgets(), setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: 30}}}, &stream.OptionsError{},
			"must be 0 or at least 1s",
			"30 ns, because the unit is missing, would be a hot loop"},
		{widgets(), setup{Options: stream.Options{Requests: stream.Requests{GiveUpAfter: -1}}}, &stream.OptionsError{},
			"GiveUpAfter", "a negative duration"},
		{widgets(), setup{Options: stream.Options{Requests: stream.Requests{PageSize: -1}}}, &stream.OptionsError{},
			"PageSize", "a negative size"},
		{widgets(), setup{Run: stream.Run{Until: "Synced"}}, &stream.OptionsError{},
			`invalid Until "Synced": must be UntilSynced, UntilClosed or empty`,
			"a run ends in one of three ways"},
	}
	for _, tt := range tests {
		s := &script{t: t}
		got, err := newRunning(s.client(), tt.r, &tt.o)
		if got != nil || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", tt.want) ||
			!strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, %T %v, want %T with %q", tt.why, got, err, err, tt.want, tt.text)
		}
		if len(s.requests) > 0 {
			t.Errorf("%s: New made requests: %q", tt.why, s.requests)
		}
	}
}

func TestNewAccepts(t *testing.T) {
	at := func(versions map[string]string) stream.Start {
		return stream.From(checkpoint.Position{ResourceVersions: versions})
	}
	tests := []struct {
		o   *setup
		why string
	}{
		{nil, "all defaults"},
		{&setup{Options: stream.Options{Namespaces: []string{""}}}, "metav1.NamespaceAll means the whole cluster"},
		{&setup{Options: stream.Options{Namespaces: []string{"a", "a"}}}, "duplicate namespaces are harmless"},
		{&setup{Run: stream.Run{Start: stream.After("opaque")}}, "versions need not be numbers"},
		{&setup{Run: stream.Run{Start: stream.From(checkpoint.Position{}), Until: stream.UntilSynced}},
			"the rest of the snapshot is still to be delivered"},
		{&setup{Run: stream.Run{Start: at(map[string]string{"": "5"}), Until: stream.UntilSynced}},
			"the differences from the position are delivered, then SYNCED"},
		{&setup{Run: stream.Run{Key: "any text"}}, "without a Checkpoint the key is only a name in a Mux"},
		{&setup{Run: stream.Run{Start: stream.From(checkpoint.Position{})}},
			"the position of a Stream that has not run"},
		{&setup{Run: stream.Run{Start: stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "5"}})}},
			"a position without objects, as of a Store that keeps none"},
	}
	for _, tt := range tests {
		if _, err := newRunning((&script{t: t}).client(), widgets(), tt.o); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
}
