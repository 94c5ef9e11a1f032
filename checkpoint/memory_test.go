package checkpoint_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestMemory: what tests of other stores rely on when they compare them with a Memory.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &checkpoint.Memory{}
		id := checkpoint.Identity{Resource: "widgets", Namespaces: []string{"shop"}}
		d := checkpoint.Delta{Key: "widgets", Identity: id, ResourceVersions: map[string]string{"": "5"}}
		commit := func() error { return m.Commit(t.Context(), []checkpoint.Delta{d}) }
		noError(t, commit())
		d.ResourceVersions[""], d.Identity.Namespaces[0] = "changed by the caller", "likewise"
		want := &checkpoint.Checkpoint{
			Identity:  checkpoint.Identity{Resource: "widgets", Namespaces: []string{"shop"}},
			Committed: time.Now(),
			Position:  checkpoint.Position{ResourceVersions: map[string]string{"": "5"}},
		}
		time.Sleep(time.Second)
		noError(t, m.Close())
		if err := commit(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a commit after Close: %v, want os.ErrClosed", err)
		}
		for range 2 {
			got, err := m.Load(t.Context(), "widgets")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			got.Position.ResourceVersions[""], got.Identity.Namespaces[0] = "changed by the caller of Load", "likewise"
		}
	})
}

// outliving is a Store whose Close does nothing, so that what is in memory outlives it.
type outliving struct{ *checkpoint.Memory }

func (outliving) Close() error { return nil }

// TestMemoryConforms: Memory does what the documentation of Store demands.
func TestMemoryConforms(t *testing.T) {
	s := outliving{&checkpoint.Memory{}}
	if err := streamtest.CheckStore(func() (checkpoint.Store, error) { return s, nil }); err != nil {
		t.Error(err)
	}
}
