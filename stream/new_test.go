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

func TestNewRefuses(t *testing.T) {
	cluster := widgets()
	cluster.Namespaced = false
	listOnly := widgets()
	listOnly.Verbs = []string{"list"}
	events := widgets()
	events.Resource, events.Group = "events", ""
	all := func(stream.Meta) bool { return true }
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
		{listOnly, stream.Options{}, &stream.NotWatchableError{}, `must have the verbs list and watch, has ["list"]`, "no watch"},
		{gvr.Resource{}, stream.Options{}, &stream.NotWatchableError{}, "cannot watch", "nothing at all"},
		{cluster, stream.Options{Namespaces: []string{"default"}}, &stream.OptionsError{}, `invalid Namespaces "default": must be empty, because`, "no namespace to watch in"},
		{widgets(), stream.Options{Namespaces: []string{"a/b"}}, &stream.OptionsError{}, `invalid Namespaces "a/b": must be the name of a namespace`, "a path, not a name"},
		{widgets(), stream.Options{Namespaces: []string{"a", ""}}, &stream.OptionsError{}, "an empty name means the whole cluster", "all, and one of them"},
		{widgets(), stream.Options{LabelSelector: "a in (b"}, &stream.OptionsError{}, `invalid LabelSelector "a in (b": must be a label selector`, "unparsable"},
		{widgets(), stream.Options{FieldSelector: "metadata.name"}, &stream.OptionsError{}, `invalid FieldSelector "metadata.name": must be a field selector`, "unparsable"},
		{widgets(), stream.Options{InvolvedObject: &corev1.ObjectReference{Name: "a"}}, &stream.OptionsError{}, "is not events", "only events do"},
		{events, stream.Options{InvolvedObject: &corev1.ObjectReference{}}, &stream.OptionsError{}, "must have a field that is not empty", "it would mean nothing"},
		{events, stream.Options{InvolvedObject: &corev1.ObjectReference{}, Name: "e"}, &stream.OptionsError{}, "must have a field that is not empty", "with a name neither"},
		{widgets(), stream.Options{Select: all, NoIndex: true}, &stream.OptionsError{}, "Select and NoIndex", "nobody would know what was told"},
		{widgets(), stream.Options{Start: stream.Now(), UntilSynced: true}, &stream.OptionsError{}, "would deliver nothing", "nothing between the beginning and the end"},
		{widgets(), stream.Options{Start: stream.After("5"), UntilSynced: true}, &stream.OptionsError{}, "would deliver nothing", "likewise"},
		{widgets(), stream.Options{Start: stream.After("")}, &stream.OptionsError{}, "After must have a resourceVersion", "no version"},
		{widgets(), stream.Options{Start: stream.After("00")}, &stream.OptionsError{}, "would mean any", "however it is written"},
		{widgets(), stream.Options{Name: "a/b"}, &stream.OptionsError{}, `may not contain '/'`, "no object is called so"},
		{widgets(), stream.Options{Start: stream.After("0")}, &stream.OptionsError{}, "would mean any", "never at version 0"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "0"})}, &stream.OptionsError{}, `invalid Start "0": the position`, "nor from a position"},
		{widgets(), stream.Options{Start: at(map[string]string{"a": "5"}), Namespaces: []string{"b"}}, &stream.OptionsError{}, `invalid Start and Namespaces "a"`, "a position of something else"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "5"}), Namespaces: []string{"b"}}, &stream.OptionsError{}, "must be of the same namespaces", "one of the whole cluster"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a", Name: "x"}), Namespaces: []string{"b"}}, &stream.OptionsError{}, `"a/x": the objects of the position must be in the same namespaces`, "an object of something else"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a"})}, &stream.OptionsError{}, "must have names", "not an object"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a", Name: "x"}), NoIndex: true}, &stream.OptionsError{}, "was taken with an index", "nowhere to keep them"},
		{widgets(), stream.Options{Timeout: -1}, &stream.OptionsError{}, "must be 0 or at least 1s", "negative"},
		{widgets(), stream.Options{Timeout: time.Millisecond}, &stream.OptionsError{}, "must be 0 or at least 1s", "0 s would mean none"},
		{widgets(), stream.Options{IdleTimeout: -1}, &stream.OptionsError{}, "must be 0 or at least 1s", "a promise can't be switched off"},
		{widgets(), stream.Options{IdleTimeout: 30}, &stream.OptionsError{}, "must be 0 or at least 1s", "30 ns: a unit was forgotten, and it would be a hot loop"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "5"}), UntilSynced: true}, &stream.OptionsError{}, "would deliver nothing", "a position that is past the snapshot"},
		{widgets(), stream.Options{GiveUpAfter: -1}, &stream.OptionsError{}, "GiveUpAfter", "negative"},
		{widgets(), stream.Options{PageSize: -1}, &stream.OptionsError{}, "PageSize", "negative"},
		{widgets(), stream.Options{UntilSynced: true, UntilClosed: true}, &stream.OptionsError{}, "at most one", "two ends"},
	}
	for _, tt := range tests {
		s := &script{t: t}
		got, err := stream.New(s.client(), tt.r, &tt.o)
		if got != nil || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, %T %v, want %T with %q", tt.why, got, err, err, tt.want, tt.text)
		}
		if len(s.requests) > 0 {
			t.Errorf("%s: requests before the error: %q", tt.why, s.requests)
		}
	}
}

func TestNewAccepts(t *testing.T) {
	tests := []struct {
		o   *stream.Options
		why string
	}{
		{nil, "all defaults"},
		{&stream.Options{Namespaces: []string{""}}, "metav1.NamespaceAll"},
		{&stream.Options{Namespaces: []string{"a", "a"}}, "the same twice is no contradiction"},
		{&stream.Options{Start: stream.After("opaque")}, "versions need not be numbers"},
		{&stream.Options{Start: stream.From(checkpoint.Position{}), UntilSynced: true}, "the rest of a snapshot"},
		{&stream.Options{Start: stream.From(checkpoint.Position{})}, "the position of a sequence that has not begun"},
		{&stream.Options{Start: stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "5"}}), NoIndex: true}, "one without objects"},
		{&stream.Options{Start: stream.Now(), NoIndex: true}, "a version is all it takes"},
	}
	for _, tt := range tests {
		if _, err := stream.New((&script{t: t}).client(), widgets(), tt.o); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
}
