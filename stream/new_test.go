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
		{listOnly, stream.Options{}, &stream.NotWatchableError{}, `the server serves ["list"]`, "no watch"},
		{gvr.Resource{}, stream.Options{}, &stream.NotWatchableError{}, "can't be watched", "nothing at all"},
		{cluster, stream.Options{Namespaces: []string{"default"}}, &stream.NotNamespacedError{}, `cluster-scoped, so it can't be watched in the namespace "default"`, "no namespace to watch in"},
		{widgets(), stream.Options{Namespaces: []string{"a/b"}}, &stream.NamespaceError{}, `"a/b" is not the name of a namespace`, "a path, not a name"},
		{widgets(), stream.Options{Namespaces: []string{"a", ""}}, &stream.OptionsError{}, "stands for the whole cluster", "all, and one of them"},
		{widgets(), stream.Options{LabelSelector: "a in (b"}, &stream.SelectorError{}, `"a in (b" is not a label selector`, "unparsable"},
		{widgets(), stream.Options{FieldSelector: "metadata.name"}, &stream.SelectorError{}, `"metadata.name" is not a field selector`, "unparsable"},
		{widgets(), stream.Options{InvolvedObject: &corev1.ObjectReference{Name: "a"}}, &stream.OptionsError{}, "involve no object", "only events do"},
		{events, stream.Options{InvolvedObject: &corev1.ObjectReference{}}, &stream.OptionsError{}, "no field that says which object", "it would mean nothing"},
		{events, stream.Options{InvolvedObject: &corev1.ObjectReference{}, Name: "e"}, &stream.OptionsError{}, "no field that says which object", "with a name neither"},
		{widgets(), stream.Options{Select: all, Index: stream.IndexNone}, &stream.OptionsError{}, "Select and IndexNone", "nobody would know what was told"},
		{widgets(), stream.Options{Start: stream.Now(), End: stream.WhenSynced}, &stream.OptionsError{}, "would tell nothing", "nothing between the beginning and the end"},
		{widgets(), stream.Options{Start: stream.After("5"), End: stream.WhenSynced}, &stream.OptionsError{}, "would tell nothing", "likewise"},
		{widgets(), stream.Options{Start: stream.After("")}, &stream.OptionsError{}, "After needs a resourceVersion", "no version"},
		{widgets(), stream.Options{Start: stream.After("00")}, &stream.OptionsError{}, "it would mean any", "however it is written"},
		{widgets(), stream.Options{Name: "a/b"}, &stream.OptionsError{}, `may not contain '/'`, "no object is called so"},
		{widgets(), stream.Options{Start: stream.After("0")}, &stream.OptionsError{}, "it would mean any", "never at version 0"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "0"})}, &stream.OptionsError{}, "no watch can begin at", "nor from a position"},
		{widgets(), stream.Options{Start: at(map[string]string{"a": "5"}), Namespaces: []string{"b"}}, &stream.OptionsError{}, "of other namespaces: a", "a position of something else"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "5"}), Namespaces: []string{"b"}}, &stream.OptionsError{}, "of other namespaces", "one of the whole cluster"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a", Name: "x"}), Namespaces: []string{"b"}}, &stream.OptionsError{}, "another namespace: a/x", "an object of something else"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a"})}, &stream.OptionsError{}, "without a name", "not an object"},
		{widgets(), stream.Options{Start: at(nil, checkpoint.Object{Namespace: "a", Name: "x"}), Index: stream.IndexNone}, &stream.OptionsError{}, "was taken with one", "nowhere to keep them"},
		{widgets(), stream.Options{Timeout: -1}, &stream.OptionsError{}, "whole seconds", "negative"},
		{widgets(), stream.Options{Timeout: time.Millisecond}, &stream.OptionsError{}, "whole seconds", "0 s would mean none"},
		{widgets(), stream.Options{IdleTimeout: -1}, &stream.OptionsError{}, "at least a second", "a promise can't be switched off"},
		{widgets(), stream.Options{IdleTimeout: 30}, &stream.OptionsError{}, "at least a second", "30 ns: a unit was forgotten, and it would be a hot loop"},
		{widgets(), stream.Options{Start: at(map[string]string{"": "5"}), End: stream.WhenSynced}, &stream.OptionsError{}, "would tell nothing", "a position that is past the snapshot"},
		{widgets(), stream.Options{GiveUpAfter: -1}, &stream.OptionsError{}, "zero for never", "negative"},
		{widgets(), stream.Options{PageSize: -1}, &stream.OptionsError{}, "PageSize", "negative"},
		{widgets(), stream.Options{End: "someday"}, &stream.OptionsError{}, "End", "no such constant"},
		{widgets(), stream.Options{OnExpired: "cry"}, &stream.OptionsError{}, "OnExpired", "no such constant"},
		{widgets(), stream.Options{Index: "big"}, &stream.OptionsError{}, "Index", "no such constant"},
		{widgets(), stream.Options{InitialList: "slow"}, &stream.OptionsError{}, "InitialList", "no such constant"},
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
		{&stream.Options{Start: stream.From(checkpoint.Position{}), End: stream.WhenSynced}, "the rest of a snapshot"},
		{&stream.Options{Start: stream.From(checkpoint.Position{})}, "the position of a sequence that has not begun"},
		{&stream.Options{Start: stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "5"}}), Index: stream.IndexNone}, "one without objects"},
		{&stream.Options{Start: stream.Now(), Index: stream.IndexNone}, "a version is all it takes"},
	}
	for _, tt := range tests {
		if _, err := stream.New((&script{t: t}).client(), widgets(), tt.o); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
}
