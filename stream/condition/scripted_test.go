package condition_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// scripted is a source that delivers a list of events, and is synced all the time, as a Stream may be a moment before
// SYNCED.
type scripted string

func (s scripted) Synced(friend.Access) (all, whole bool) { return true, true }

// Events delivers words: "SYNCED", "GAP", "gadgets:SYNCED" of the gadgets, and for an object "ADDED/uid/status". A word
// may begin with the key of a source in a Mux: "b>ADDED/uid/status". All objects are the widget door. The status
// "broken" is JSON that is invalid.
func (s scripted) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for _, word := range strings.Fields(string(s)) {
			ev := stream.Event{Resource: widgets}
			if source, rest, ok := strings.Cut(word, ">"); ok {
				ev.Envelope(friend.Access{}).Source, word = source, rest
			}
			if rest, ok := strings.CutPrefix(word, "gadgets:"); ok {
				ev.Resource, word = gadgets, rest
			}
			parts := strings.Split(word, "/")
			ev.Type = stream.Type(parts[0])
			if len(parts) == 3 && parts[2] == "broken" {
				ev.JSON = json.RawMessage(`{"metadata":{"namespace":"shop","name":"door","uid":"1"},"status":}`)
			} else if len(parts) == 3 {
				status := map[string]any{"phase": parts[2]}
				ev.Object = &unstructured.Unstructured{Object: map[string]any{"status": status}}
				ev.Object.SetNamespace("shop")
				ev.Object.SetName("door")
				ev.Object.SetUID(types.UID(parts[1]))
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func TestWaitOnScriptedSequences(t *testing.T) {
	tests := []struct {
		condition, events string
		want              bool
		why               string
	}{
		{"jsonpath=.status.phase=on", "ADDED/1/on SYNCED", true, ""},
		{"jsonpath=.status.phase=on", "ADDED/1/on", false, "not before SYNCED, even if the source claims to be synced"},
		{"jsonpath=.status.phase=on", "ADDED/1/off SYNCED GAP MODIFIED/1/on MODIFIED/1/off SYNCED", false,
			"no answer between GAP and SYNCED"},
		{"jsonpath=.status.phase=on", "ADDED/1/off SYNCED GAP MODIFIED/1/on SYNCED", true, "but then"},
		{"jsonpath=.status.phase=on", "ADDED/1/broken SYNCED", false, "an object that can't be decoded meets nothing"},
		{"jsonpath=.status.phase=on", "ADDED/1/broken SYNCED MODIFIED/1/on", true, "until it can"},
		{"delete", "gadgets:SYNCED", false, "the resource of the target has not been delivered"},
		{"delete", "gadgets:SYNCED SYNCED", true, "now it has"},
		{"delete", "ADDED/1/on SYNCED DELETED/1/on", true, ""},
		{"delete", "ADDED/1/on SYNCED DELETED/2/on", false, "the removal of another object of that name"},
		{"jsonpath=.status.phase=on", "a>ADDED/1/off a>SYNCED b>ADDED/1/on b>SYNCED", false,
			"one object of two sources has to meet the condition in both"},
		{"delete", "a>ADDED/1/on a>SYNCED b>ADDED/1/on b>SYNCED a>DELETED/1/on", true,
			"what b delivers after the first answer does not count"},
	}
	for _, tt := range tests {
		err := condition.Wait(t.Context(), scripted(tt.events),
			all(must(condition.Parse(tt.condition)), target(widgets, "door"))...)
		if tt.want && err != nil || !tt.want && !errors.Is(err, stream.ErrUnmet) {
			t.Errorf("%s in %s: %v, want met %v (%s)", tt.condition, tt.events, err, tt.want, tt.why)
		}
	}
}

// An object that was deleted is named by no error.
func TestDeletedObjectsAreForgotten(t *testing.T) {
	err := condition.Wait(t.Context(), scripted("ADDED/1/off ADDED/2/off SYNCED DELETED/1/off DELETED/2/off"),
		all(condition.MustParse("jsonpath=.status.phase=on"))...)
	want := "jsonpath={.status.phase}=on is not met by *: has no objects: " + stream.ErrUnmet.Error()
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
