package decode_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// frameEnds feeds a Frame in pieces of random sizes, and returns where the first
// frame of data ends, or -1.
func frameEnds(data []byte, r *rand.Rand) int {
	var f decode.Frame
	for at := 0; at < len(data); {
		piece := data[at:min(len(data), at+1+r.IntN(r.IntN(60)+1))]
		if n := f.End(piece); n >= 0 {
			return at + n
		}
		at += len(piece)
	}
	return -1
}

// sameFrameEnd compares with the length that encoding/json tells. Where that finds
// no JSON anything may come out.
func sameFrameEnd(t *testing.T, data []byte, r *rand.Rand) {
	t.Helper()
	want, more, err := decodetest.Frame(data)
	switch {
	case err != nil:
		frameEnds(data, r)
		return
	case !strings.HasPrefix(strings.TrimLeft(string(data), " \t\r\n"), "{"):
		return // no event
	case more:
		want = -1
	}
	if got := frameEnds(data, r); got != want {
		t.Errorf("the frame ends at %d, want %d: %.300q", got, want, data)
	}
}

func TestSameFrameEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, randomSeeds.First()))
	for _, recorded := range decodetest.ReadRecorded(t, recordings) {
		for _, frame := range recorded.Frames() {
			sameFrameEnd(t, frame, r)
			sameFrameEnd(t, frame[:len(frame)/2], r)
		}
	}
	for _, c := range decodetest.Frames() {
		if len(c.Text) < 10<<10 {
			sameFrameEnd(t, []byte(c.Text), r)
		}
	}
	random := decodetest.NewRandom(randomSeeds.First())
	for range 3000 {
		data := random.Frame()
		sameFrameEnd(t, data, r)
		sameFrameEnd(t, random.Mutate(data), r)
	}
}
