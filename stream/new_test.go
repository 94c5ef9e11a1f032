package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	events := widgets()
	events.Resource, events.Group = "events", ""
	at := func(versions map[string]string, objects ...checkpoint.Object) stream.Start {
		return stream.From(checkpoint.Position{ResourceVersions: versions, Objects: objects})
	}
	tests := []struct {
		r    gvr.Resource
		o    stream.Options
		want error
		text string
		why  string
	}{
		{listOnly, stream.Options{}, &stream.NotWatchableError{}, `must have the verbs list and watch, has ["list"]`,
			"a resource must have the verb watch"},
		{cluster, stream.Options{Namespaces: []string{"default"}}, &stream.OptionsError{},
			`invalid Namespaces "default": must be empty, because`,
			"a cluster-scoped resource has no namespaces"},
		{widgets(), stream.Options{Namespaces: []string{"a/b"}}, &stream.OptionsError{},
			`invalid Namespaces "a/b": must be the name of a namespace`,
			"a namespace is a name, not a path"},
		{widgets(), stream.Options{Namespaces: []string{"a", ""}}, &stream.OptionsError{},
			"an empty name means the whole cluster",
			"the whole cluster excludes single namespaces"},
		{widgets(), stream.Options{LabelSelector: "a in (b"}, &stream.OptionsError{},
			`invalid LabelSelector "a in (b": must be a label selector`,
			"a label selector must parse"},
		{widgets(), stream.Options{FieldSelector: "metadata.name"}, &stream.OptionsError{},
			`invalid FieldSelector "metadata.name": must be a field selector`,
			"a field selector must parse"},
		{widgets(), stream.Options{InvolvedObject: &corev1.ObjectReference{Name: "a"}}, &stream.OptionsError{},
			"is not events",
			"only events have an involved object"},
		{events, stream.Options{InvolvedObject: &corev1.ObjectReference{}}, &stream.OptionsError{},
			"must have a field that is not empty",
			"an empty reference would select all events"},
		{events, stream.Options{InvolvedObject: &corev1.ObjectReference{}, Name: "e"}, &stream.OptionsError{},
			"must have a field that is not empty",
			"an empty reference is invalid even with Name"},
		{widgets(), stream.Options{Start: stream.Now(), UntilSynced: true}, &stream.OptionsError{},
			"would deliver nothing",
			"a run from now until SYNCED has no events"},
		{widgets(), stream.Options{Start: stream.After("5"), UntilSynced: true}, &stream.OptionsError{},
			"would deliver nothing",
			"a run after a version until SYNCED has no events"},
		{widgets(), stream.Options{Start: stream.After("")}, &stream.OptionsError{},
			"After must have a resourceVersion",
			"After needs a version"},
		{widgets(), stream.Options{Start: stream.After("00")}, &stream.OptionsError{},
			"would mean any",
			"version 0 is invalid in any spelling"},
		{widgets(), stream.Options{Name: "a/b"}, &stream.OptionsError{},
			`may not contain '/'`,
			"no object can have this name"},
		{widgets(), stream.Options{Start: stream.After("0")}, &stream.OptionsError{},
			"would mean any",
			"no run starts at version 0"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "0"})}, &stream.OptionsError{},
			`invalid Start "0": the position`,
			"no run starts from a position at version 0"},
		{widgets(), stream.Options{Start: at(map[string]string{"a": "5"}), Namespaces: []string{"b"}},
			&stream.OptionsError{},
			`invalid Start and Namespaces "a"`,
			"the position has the version of another namespace"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "5"}), Namespaces: []string{"b"}},
			&stream.OptionsError{},
			"must be of the same namespaces",
			"the position has the version of the whole cluster"},
		{widgets(), stream.Options{
			Start: at(nil, checkpoint.Object{Namespace: "a", Name: "x"}), Namespaces: []string{"b"},
		}, &stream.OptionsError{},
			`"a/x": the objects of the position must be in the same namespaces`,
			"the position has an object of another namespace"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a"})}, &stream.OptionsError{},
			"must have names",
			"the position has an object without a name"},
		{widgets(), stream.Options{Timeout: -1}, &stream.OptionsError{},
			"must be 0 or at least 1s",
			"a negative timeout"},
		{widgets(), stream.Options{Timeout: time.Millisecond}, &stream.OptionsError{},
			"must be 0 or at least 1s",
			"timeoutSeconds would be 0, which means none"},
		{widgets(), stream.Options{IdleTimeout: -1}, &stream.OptionsError{},
			"must be 0 or at least 1s",
			"IdleTimeout can't be switched off: liveness is a promise"},
		{widgets(), stream.Options{IdleTimeout: 30}, &stream.OptionsError{},
			"must be 0 or at least 1s",
			"30 ns, because the unit is missing, would be a hot loop"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "5"}), UntilSynced: true}, &stream.OptionsError{},
			"would deliver nothing",
			"a run from a position past the snapshot until SYNCED has no events"},
		{widgets(), stream.Options{GiveUpAfter: -1}, &stream.OptionsError{}, "GiveUpAfter", "a negative duration"},
		{widgets(), stream.Options{PageSize: -1}, &stream.OptionsError{}, "PageSize", "a negative size"},
		{widgets(), stream.Options{UntilSynced: true, UntilClosed: true}, &stream.OptionsError{},
			"at most one",
			"a run has one end"},
	}
	for _, tt := range tests {
		s := &script{t: t}
		got, err := stream.New(s.client(), tt.r, &tt.o)
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
	tests := []struct {
		o   *stream.Options
		why string
	}{
		{nil, "all defaults"},
		{&stream.Options{Namespaces: []string{""}}, "metav1.NamespaceAll means the whole cluster"},
		{&stream.Options{Namespaces: []string{"a", "a"}}, "duplicate namespaces are harmless"},
		{&stream.Options{Start: stream.After("opaque")}, "versions need not be numbers"},
		{&stream.Options{Start: stream.From(checkpoint.Position{}), UntilSynced: true},
			"the rest of the snapshot is still to be delivered"},
		{&stream.Options{Start: stream.From(checkpoint.Position{})}, "the position of a Stream that has not run"},
		{&stream.Options{
			Start: stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "5"}}),
		}, "a position without objects, as of a Store that keeps none"},
	}
	for _, tt := range tests {
		if _, err := stream.New((&script{t: t}).client(), widgets(), tt.o); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
}
