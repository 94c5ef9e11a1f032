package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/client/decode/decodetest"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
)

const recordings = "../../../testdata/objects"

// comparison is what is compared with client-go's decoders: decoders that are used for
// one input after another. What they keep of others may make no difference.
type comparison struct{ whole, dropping *decode.Decoder }

func newComparison() *comparison { return &comparison{decode.New(false), decode.New(true)} }

// errDeclined is wrapped by why an input was left to client-go.
var errDeclined = errors.New("declined")

// each calls f with both decoders, and what is left of an object that one returns. f
// returns what the decoder did, which is compared if that is no error.
func (c *comparison) each(f func(d *decode.Decoder, left func(map[string]any)) error) error {
	var declined error
	for _, d := range []*decode.Decoder{c.whole, c.dropping} {
		err := f(d, func(o map[string]any) {
			if d == c.dropping {
				unstructured.RemoveNestedField(o, "metadata", "managedFields")
			}
		})
		switch {
		case errors.Is(err, decode.ErrDeclined), errors.Is(err, decode.ErrShort):
			if d == c.whole {
				declined = fmt.Errorf("%w: %w", errDeclined, err)
			}
		case errors.Is(err, errTaken) && d == c.dropping: // what is in managedFields it does not check
		case err != nil:
			return fmt.Errorf("dropping: %v: %w", d == c.dropping, err)
		}
	}
	return declined
}

// lent gives f a copy of data, and overwrites that afterwards: nothing that f returns
// may depend on it.
func lent(data []byte, f func([]byte)) {
	data = slices.Clone(data)
	f(data)
	for i := range data {
		data[i] = '#'
	}
}

func different(d string) error {
	if d == "" {
		return nil
	}
	return errors.New("different: " + d)
}

// object compares what the decoders make of an object.
func (c *comparison) object(data []byte) error {
	want, refused := decodetest.Object(data)
	return c.each(func(d *decode.Decoder, left func(map[string]any)) (err error) {
		var got map[string]any
		lent(data, func(data []byte) { got, err = d.Object(data) })
		if err != nil || refused != nil {
			return taken(err, refused)
		}
		want := decodetest.Copy(want)
		left(want)
		return different(decodetest.Difference(want, got))
	})
}

var errTaken = errors.New("client-go refuses what was taken")

// taken is err, if a decoder has refused something, or an error if client-go has
// refused what the decoder took.
func taken(err, refused error) error {
	if err == nil && refused != nil {
		return fmt.Errorf("%w: %w", errTaken, refused)
	}
	return err
}

// list compares what the decoders make of a list, as a whole and in pieces.
func (c *comparison) list(data []byte) error {
	want, refused := decodetest.List(data)
	return c.each(func(d *decode.Decoder, left func(map[string]any)) error {
		got, err := inPieces(d, data, len(data)+1)
		most := len(data) / 5
		if len(data) < 300 {
			most = 1 // it may end anywhere in what has come
		}
		pieces, inPiecesErr := inPieces(d, data, most)
		if (err == nil) != (inPiecesErr == nil) {
			return fmt.Errorf("as a whole: %v; in pieces: %v", err, inPiecesErr) // which is none of those that may be
		}
		if err != nil || refused != nil {
			return taken(err, refused)
		}
		want := &unstructured.UnstructuredList{Object: want.Object, Items: slices.Clone(want.Items)}
		for i := range want.Items {
			want.Items[i].Object = decodetest.Copy(want.Items[i].Object)
			left(want.Items[i].Object)
		}
		return different(decodetest.DifferenceOfLists(want, got) + decodetest.DifferenceOfLists(want, pieces))
	})
}

// inPieces decodes a list that comes in pieces of random sizes, up to most bytes.
func inPieces(d *decode.Decoder, data []byte, most int) (*unstructured.UnstructuredList, error) {
	r := rand.New(rand.NewPCG(uint64(len(data)), 6))
	for l, n := d.Lister(), 0; ; n = min(len(data), n+1+r.IntN(max(most, 1))) {
		if most > len(data) {
			n = len(data)
		}
		var err error
		lent(data[:n], func(data []byte) { err = l.Decode(data) })
		switch {
		case n == len(data) && err == nil:
			return l.List()
		case n == len(data), err != nil && err != decode.ErrShort:
			return nil, err
		case err != nil:
			if _, err := l.List(); err == nil {
				return nil, fmt.Errorf("%d of %d bytes lack something, and make a list", n, len(data))
			}
		}
	}
}

// event compares what the decoders make of the event that data begins with.
func (c *comparison) event(data []byte) error {
	kind, o, refused := decodetest.Event(data)
	length, more, broken := decodetest.Frame(data)
	if broken == nil && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		if n := frameEnd(data); !more && n != length || more && n >= 0 {
			return fmt.Errorf("the frame ends at %d, want %d, or none: %v", n, length, more)
		}
	}
	return c.each(func(d *decode.Decoder, left func(map[string]any)) (err error) {
		var got decode.Event
		var n int
		lent(data, func(data []byte) { got, n, err = d.Event(data) })
		if errors.Is(err, decode.ErrShort) && !more && broken == nil {
			return fmt.Errorf("short, but the event is complete with %d bytes", length)
		}
		if err != nil || refused != nil {
			return taken(err, refused)
		}
		u, ok := o.(*unstructured.Unstructured)
		if !ok || n != length || got.Type != kind {
			return fmt.Errorf("want %s of %d bytes with %T, got %s of %d", kind, length, o, got.Type, n)
		}
		want := decodetest.Copy(u.Object)
		if kind != watch.Bookmark {
			left(want)
		}
		return different(decodetest.Difference(want, got.Object))
	})
}

// frameEnd feeds a Frame in pieces, and returns where the first frame of data ends.
func frameEnd(data []byte) int {
	r := rand.New(rand.NewPCG(uint64(len(data)), 7))
	var f decode.Frame
	for at := 0; at < len(data); {
		piece := data[at:min(len(data), at+1+r.IntN(60))]
		if n := f.End(piece); n >= 0 {
			return at + n
		}
		at += len(piece)
	}
	return -1
}

// compare reports a difference, and that what is not exotic was declined.
func compare(t testing.TB, exotic bool, why string, data []byte, f func([]byte) error) {
	t.Helper()
	if err := f(data); err != nil && !(exotic && errors.Is(err, errDeclined)) {
		t.Errorf("%s: %v\n%.300q", why, err, data)
	}
}

func TestRecordedIsTheSame(t *testing.T) {
	c := newComparison()
	for range 3 { // what is kept from before makes no difference
		for _, r := range decodetest.ReadRecorded(t, recordings) {
			if !r.Watch {
				compare(t, r.Exotic, r.Name, r.Data, c.list)
				continue
			}
			for _, frame := range r.Frames() {
				compare(t, r.Exotic, r.Name, frame, c.event)
				compare(t, true, r.Name, frame, c.object)
			}
			compare(t, r.Exotic, r.Name, r.Data, c.event)
		}
	}
}

func TestCasesAreTheSame(t *testing.T) {
	c := newComparison()
	for _, test := range []struct {
		what    string
		cases   []decodetest.Case
		compare func([]byte) error
	}{{"object", decodetest.Objects(), c.object}, {"list", decodetest.Lists(), c.list}, {"event", decodetest.Frames(),
		c.event}} {
		t.Run(test.what, func(t *testing.T) {
			for again := range 2 {
				for _, k := range test.cases {
					if again == 0 || len(k.Text) < 10<<10 {
						compare(t, k.Exotic, k.Why, []byte(k.Text), test.compare)
					}
				}
			}
		})
	}
}

const randomSeeds = seedtest.Default(20)

// TestRandomIsTheSame compares JSON that was made at random, and broken at random. A
// seed's inputs go through the same decoders.
func TestRandomIsTheSame(t *testing.T) {
	taken, all := map[string]int{}, 0
	for s := range randomSeeds.All(t) {
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

func FuzzObject(f *testing.F) { fuzz(f, decodetest.Objects(), (*comparison).object) }
func FuzzList(f *testing.F)   { fuzz(f, decodetest.Lists(), (*comparison).list) }
func FuzzEvent(f *testing.F)  { fuzz(f, decodetest.Frames(), (*comparison).event) }

func fuzz(f *testing.F, cases []decodetest.Case, compare func(*comparison, []byte) error) {
	const biggest = 4 << 10 // the fuzzer mutates what it is given as a whole
	for _, c := range cases {
		if len(c.Text) <= biggest {
			f.Add([]byte(c.Text))
		}
	}
	for _, r := range decodetest.ReadRecorded(f, recordings) {
		for _, data := range append(r.Frames(), r.Data) {
			if r.Watch == strings.Contains(f.Name(), "Event") && len(data) <= biggest {
				f.Add(data)
			}
		}
	}
	c := newComparison()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := compare(c, data); err != nil && !errors.Is(err, errDeclined) {
			t.Error(err)
		}
	})
}
