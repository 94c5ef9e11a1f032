package decode_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// inPieces decodes a list that comes in pieces of random sizes: of most of them there
// are about so many.
func inPieces(d *decode.Decoder, data []byte, pieces int, r *rand.Rand) (*unstructured.UnstructuredList, error) {
	l := d.Lister()
	for n := 0; ; {
		var err error
		lent(data[:n], func(data []byte) { err = l.Come(data) })
		if n == len(data) || err != nil && !errors.Is(err, decode.ErrShort) {
			if err != nil {
				return nil, err
			}
			return l.List()
		}
		if _, none := l.List(); err != nil && none == nil {
			return nil, fmt.Errorf("%d of %d bytes lack something, and make a list", n, len(data))
		}
		n = min(len(data), n+1+r.IntN(2*len(data)/pieces+1))
	}
}

// sameInPieces compares with what came of data when it was decoded as a whole.
func sameInPieces(d *decode.Decoder, data []byte, want *unstructured.UnstructuredList, wantErr error) error {
	r := rand.New(rand.NewPCG(uint64(len(data)), randomSeeds.First()))
	got, err := inPieces(d, data, min(len(data)+1, 10), r)
	switch {
	case wantErr == nil && err != nil:
		return fmt.Errorf("in pieces it is refused: %w", err)
	case wantErr != nil && err == nil:
		return fmt.Errorf("in pieces it is taken, and as a whole it is not: %w", wantErr)
	case err != nil:
		return known(err)
	}
	return different(decodetest.DifferenceOfLists(want, got))
}

// TestListsByteForByte: a list may end anywhere in what has come.
func TestListsByteForByte(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 0))
	d := decode.New(decode.Options{})
	taken := 0
	for _, c := range decodetest.Lists() {
		if len(c.Text) > 300 {
			continue
		}
		want, err := d.List([]byte(c.Text))
		if err != nil {
			continue
		}
		got, err := inPieces(d, []byte(c.Text), 2*len(c.Text), r)
		if err != nil {
			t.Errorf("%s: %v\n%q", c.Why, err, c.Text)
			continue
		}
		if diff := decodetest.DifferenceOfLists(want, got); diff != "" {
			t.Errorf("%s: %s\n%q", c.Why, diff, c.Text)
		}
		taken++
	}
	if taken < 100 {
		t.Errorf("only %d lists were taken", taken)
	}
}
