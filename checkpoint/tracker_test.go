package checkpoint_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

func TestNewTrackerChecksOptions(t *testing.T) {
	cluster := checkpoint.Cluster{UID: "cluster-1"}
	tests := []struct {
		opts *checkpoint.Options
		want string // in the error; empty for none
		why  string
	}{
		{nil, "Options.Cluster: must be set", "no Options have no Cluster"},
		{&checkpoint.Options{}, "Options.Cluster: must be set", "nor have empty ones"},
		{&checkpoint.Options{Cluster: cluster, Interval: -1}, "Options.Interval \"-1ns\"", "negative"},
		{&checkpoint.Options{Cluster: cluster, Events: -1}, "Options.Events \"-1\"", "negative"},
		{&checkpoint.Options{Cluster: cluster, CommitTimeout: -1}, "Options.CommitTimeout \"-1ns\"", "negative"},
		{&checkpoint.Options{Cluster: checkpoint.Cluster{Address: "https://one"}}, "", "an address is enough"},
	}
	for _, tt := range tests {
		_, err := checkpoint.NewTracker(&checkpoint.Memory{}, tt.opts)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}

func TestNewTrackerRefusesNoStore(t *testing.T) {
	for _, store := range []checkpoint.Store{nil, (*checkpoint.Memory)(nil), (*file.Store)(nil)} {
		_, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "cluster-1"}})
		if err == nil {
			t.Errorf("no error for a Store that is %#v", store)
		}
	}
}

func TestZeroTrackerCommitsNothing(t *testing.T) {
	var tracker checkpoint.Tracker
	_, err := acks.Begin(t.Context(), &tracker, "k", checkpoint.Identity{}, false)
	if err == nil || !strings.Contains(err.Error(), "not from NewTracker") {
		t.Errorf("%v, want an error that names NewTracker", err)
	}
	noError(t, errors.Join(tracker.Flush(t.Context()), tracker.Close(), tracker.Close()))
}

func TestUnusedTrackerHasNothingToCommit(t *testing.T) {
	var m checkpoint.Memory
	tracker, err := checkpoint.NewTracker(&m, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "cluster-1"}})
	noError(t, err)
	noError(t, tracker.Flush(t.Context()))
	for range 2 {
		noError(t, tracker.Close())
	}
	noError(t, tracker.Flush(t.Context()))
	if keys := m.Keys(); len(keys) > 0 {
		t.Errorf("the store has %q", keys)
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
