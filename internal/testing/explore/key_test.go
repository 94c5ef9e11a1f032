package explore

import (
	"slices"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// TestKeysMergeOnlyWhatIsTheSame: two states of one key must have the same steps, which lead to states of the same
// keys, and both keep the promises or both do not. If that holds for each pair of states that a walk merges, it loses
// nothing by merging them.
func TestKeysMergeOnlyWhatIsTheSame(t *testing.T) {
	for _, u := range setups() {
		if u.name == "paged, all failures" || u.name == "streamed, all failures" {
			continue // the same parts of the key, with more classes
		}
		seen, follows := map[string]*world{}, map[string][]string{}
		level := []*world{newWorld(u)}
		merged := 0
		for len(level) > 0 && len(seen) < 150*seedtest.Soak() {
			var next []*world
			for _, w := range level {
				for step, to := range w.Steps() {
					key := string(to.AppendKey(nil))
					first, ok := seen[key]
					if !ok {
						seen[key] = to
						next = append(next, to)
						continue
					}
					merged++
					want, ok := follows[key]
					if !ok {
						want = follow(first)
						follows[key] = want
					}
					got := follow(to)
					if !slices.Equal(want, got) {
						t.Fatalf("%s: %s leads to a state with the key of another one, but other steps follow:"+
							"\n%q\n%q\n%v\n%v", u.name, step, want, got, first, to)
					}
				}
			}
			level = next
		}
		if merged == 0 && len(seen) > 100 {
			t.Errorf("%s: no state was reached twice", u.name)
		}
	}
}

// follow returns the keys of what follows a state, in the order of the steps, and whether promises are kept there.
func follow(w *world) (keys []string) {
	for step, to := range w.Steps() {
		key := string(to.AppendKey(nil))
		if isCalm(step) {
			key = "calm " + key
		}
		if to.Check() != nil {
			key = "broken " + key
		}
		keys = append(keys, key)
	}
	if w.Settle() != nil {
		keys = append(keys, "not settled")
	}
	return keys
}
