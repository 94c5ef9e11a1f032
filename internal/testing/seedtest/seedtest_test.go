package seedtest

import (
	"flag"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlagsChooseTheSeeds(t *testing.T) {
	for _, tt := range []struct {
		soak, seed string
		d          Default
		want       []uint64
		why        string
	}{
		{"0", "-1", 3, []uint64{0, 1, 2}, "the default"},
		{"0", "7", 3, []uint64{7}, "one seed only"},
		{"2", "-1", 2, []uint64{0, 1, 2, 3}, "more seeds"},
		{"2", "7", 2, []uint64{7, 8, 9, 10}, "more seeds, from another one on"},
		{"0", "-1", 0, []uint64{0}, "at least one"},
	} {
		set(t, "soak", tt.soak)
		set(t, "seed", tt.seed)
		set(t, "test.short", "false")
		if diff := cmp.Diff(tt.want, slices.Collect(tt.d.All(t))); diff != "" {
			t.Errorf("%s: -soak %s -seed %s (-want +got):\n%s", tt.why, tt.soak, tt.seed, diff)
		}
	}
	set(t, "test.short", "true")
	set(t, "soak", "0")
	set(t, "seed", "-1")
	if got := Default(30).Count(); got != 3 {
		t.Errorf("-short runs %d of 30 seeds, want a tenth", got)
	}
}

// set sets a flag until the test ends.
func set(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	t.Cleanup(func() { _ = flag.Set(name, before) })
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

func TestReplayNamesTheTest(t *testing.T) {
	want := "replay: go test github.com/gvrwatch/gvrwatch/internal/testing/seedtest " +
		"-run '^TestReplayNamesTheTest$' -seed 7"
	if diff := cmp.Diff(want, replay(t.Name()+"/a subtest", 7)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
