package decode_test

import (
	"errors"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
	"github.com/gvrwatch/gvrwatch/internal/seeds"
)

var randomSeeds = seeds.Flags("", "TestRandomIsTheSame", 20)

// TestRandomIsTheSame compares JSON that was made at random, and broken at random.
// A seed's inputs go through the same decoders.
func TestRandomIsTheSame(t *testing.T) {
	taken, all := map[string]int{}, 0
	for s := range randomSeeds.All {
		r, c := decodetest.NewRandom(s), newComparison()
		for range 20 {
			all++
			for _, input := range []struct {
				what    string
				data    []byte
				compare func([]byte) error
			}{{"object", r.Object(), c.object}, {"list", r.List(), c.list}, {"event", r.Frame(), c.event}} {
				for i, data := range [][]byte{input.data, r.Mutate(input.data), r.Mutate(input.data), input.data} {
					err := input.compare(data)
					if err != nil && !errors.Is(err, errDeclined) {
						t.Fatalf("seed %d, %s (mutated: %v): %v\n%.2000q", s, input.what, i%3 > 0, err, data)
					}
					if err == nil && i == 0 {
						taken[input.what]++
					}
				}
			}
		}
	}
	// A comparison of what is declined shows nothing.
	for _, what := range []string{"object", "list", "event"} {
		if part := float64(taken[what]) / float64(all); part < 0.2 {
			t.Errorf("%s: only %.0f %% were taken", what, 100*part)
		} else {
			t.Logf("%s: %.0f %% of %d taken", what, 100*part, all)
		}
	}
}
