package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := startWorld(ctx, seed, t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	return w
}

// checkTruth compares the truth with the objects on the server.
func checkTruth(t *testing.T, w *world) {
	t.Helper()
	if err := w.failure(); err != nil {
		t.Fatal(err)
	}
	type version struct {
		resource string
		uid      types.UID
		version  string
	}
	got, want := map[version]bool{}, map[version]bool{}
	objects := map[types.UID]change{}
	h := w.database.truth.history()
	for _, c := range valid(h.changes, h.epochs, len(h.epochs)-1) {
		if c.UID == "" {
			t.Errorf("a change without a uid: %+v", c)
		}
		if objects[c.UID] = c; c.Kind == deleted {
			delete(objects, c.UID)
		}
	}
	for uid, c := range objects {
		got[version{c.Resource, uid, fmt.Sprint(c.Revision)}] = true
	}
	for _, info := range w.definitions.resources() {
		list, err := w.servers[0].client().Resource(info.GVR).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			want[version{info.resource(), o.GetUID(), o.GetResourceVersion()}] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the truth differs from the objects on the server (-server +truth):\n%s", diff)
	}
}

func TestTruthEqualsTheServerAfterManyFaults(t *testing.T) {
	if seedtest.Soak() == 1 {
		t.Skip("without -soak: it takes a minute for each seed (.ci/soak runs it, from its second round on)")
	}
	for seed := range seedtest.Default(1).All(t) {
		w := newWorld(t, seed)
		faults := w.run(t.Context(), time.Minute)
		if len(faults) < 10 {
			t.Errorf("only %d faults in a minute", len(faults))
		}
		checkTruth(t, w)
	}
}
