package decode_test

import (
	"errors"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// biggestSeed keeps the fuzzer quick: it mutates what it is given as a whole.
const biggestSeed = 4 << 10

// The fuzz targets compare with client-go's decoders. One comparison serves all
// inputs of a process: what it has kept from others may make no difference.

func FuzzObject(f *testing.F) {
	for _, c := range decodetest.Objects() {
		seedWith(f, []byte(c.Text))
	}
	fuzz(f, (*comparison).object)
}

func FuzzList(f *testing.F) {
	for _, c := range decodetest.Lists() {
		seedWith(f, []byte(c.Text))
	}
	for _, r := range decodetest.ReadRecorded(f, recordings) {
		if !r.Watch {
			seedWith(f, r.Data)
		}
	}
	fuzz(f, (*comparison).list)
}

func FuzzEvent(f *testing.F) {
	for _, c := range decodetest.Frames() {
		seedWith(f, []byte(c.Text))
	}
	for _, r := range decodetest.ReadRecorded(f, recordings) {
		if r.Watch {
			for _, frame := range r.Frames() {
				seedWith(f, frame)
			}
		}
	}
	fuzz(f, (*comparison).event)
}

func seedWith(f *testing.F, data []byte) {
	if len(data) <= biggestSeed {
		f.Add(data)
	}
}

func fuzz(f *testing.F, compare func(*comparison, []byte) error) {
	c := newComparison()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := compare(c, data); err != nil && !errors.Is(err, errDeclined) {
			t.Error(err)
		}
	})
}
