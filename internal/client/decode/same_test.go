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
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

const recordings = "../../../testdata/objects"

// comparison compares Decoders with client-go's decoders. It uses the same Decoders for all inputs, so that a
// difference caused by earlier inputs is found.
type comparison struct{ whole, dropping *decode.Decoder }

func newComparison() *comparison { return &comparison{decode.New(false), decode.New(true)} }

// errDeclined says that the Decoder has declined an input, and is wrapped with its error.
var errDeclined = errors.New("declined")

// each calls f with both Decoders, and with a function that removes from client-go's object what the Decoder drops. f
// compares the results, and returns the Decoder's error or the difference.
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
		case errors.Is(err, errTaken) && d == c.dropping: // it does not check dropped managedFields
		case err != nil:
			return fmt.Errorf("dropping: %v: %w", d == c.dropping, err)
		}
	}
	return declined
}

// lent calls f with a copy of data, and then overwrites the copy: no result of f may depend on it.
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

// object compares the results for an object.
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

var errTaken = errors.New("accepted, but client-go rejects it")

// taken returns err, or errTaken if only client-go has rejected the input.
func taken(err, refused error) error {
	if err == nil && refused != nil {
		return fmt.Errorf("%w: %w", errTaken, refused)
	}
	return err
}

// list compares the results for a list, decoded as a whole and in pieces.
func (c *comparison) list(data []byte) error {
	want, refused := decodetest.List(data)
	return c.each(func(d *decode.Decoder, left func(map[string]any)) error {
		got, err := inPieces(d, data, len(data)+1)
		most := len(data) / 5
		if len(data) < 300 {
			most = 1 // try every place where a piece can end
		}
		pieces, inPiecesErr := inPieces(d, data, most)
		if (err == nil) != (inPiecesErr == nil) {
			// It is not ErrDeclined, so it fails the test.
			return fmt.Errorf("as a whole: %v; in pieces: %v", err, inPiecesErr)
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

// inPieces decodes a list that arrives in pieces of random sizes, up to most bytes.
func inPieces(d *decode.Decoder, data []byte, most int) (*unstructured.UnstructuredList, error) {
	r := rand.New(rand.NewPCG(uint64(len(data)), 6))
	for l, n := d.Lister(false), 0; ; n = min(len(data), n+1+r.IntN(max(most, 1))) {
		if most > len(data) {
			n = len(data)
		}
		var err error
		lent(data[:n], func(data []byte) { err = l.Decode(data) })
		switch {
		case n == len(data) && err == nil:
			list, _, err := l.List()
			return list, err
		case n == len(data), err != nil && err != decode.ErrShort:
			return nil, err
		case err != nil:
			if _, _, err := l.List(); err == nil {
				return nil, fmt.Errorf("%d of %d bytes are an incomplete list, but List returned one", n, len(data))
			}
		}
	}
}

// event compares the results for the event that data begins with.
func (c *comparison) event(data []byte) error {
	kind, o, refused := decodetest.Event(data)
	length, more, broken := decodetest.Frame(data)
	if broken == nil && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		if n := frameEnd(data); !more && n != length || more && n >= 0 {
			return fmt.Errorf("the frame ends at %d, want %d; incomplete: %v", n, length, more)
		}
	}
	return c.each(func(d *decode.Decoder, left func(map[string]any)) (err error) {
		var got decode.Event
		var n int
		lent(data, func(data []byte) { got, n, err = d.Event(data) })
		if errors.Is(err, decode.ErrShort) && !more && broken == nil {
			return fmt.Errorf("ErrShort, but the event is complete with %d bytes", length)
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

// compare fails the test if f finds a difference, or if the Decoder has declined an input that is not exotic.
func compare(t testing.TB, exotic bool, why string, data []byte, f func([]byte) error) {
	t.Helper()
	if err := f(data); err != nil && !(exotic && errors.Is(err, errDeclined)) {
		t.Errorf("%s: %v\n%.300q", why, err, data)
	}
}

func TestRecordedIsTheSame(t *testing.T) {
	c := newComparison()
	for range 3 { // earlier inputs must make no difference
		for _, r := range decodetest.ReadRecorded(t, recordings) {
			if !r.Watch {
				compare(t, r.Exotic, r.Name, r.Data, c.list)
				compare(t, r.Exotic, r.Name, r.Data, c.rawList)
				continue
			}
			for _, frame := range r.Frames() {
				compare(t, r.Exotic, r.Name, frame, c.event)
				compare(t, true, r.Name, frame, c.rawEvent)
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
	}{ // most of the frames have no resourceVersion, so there is no raw event of them
		{"object", decodetest.Objects(), c.object},
		{"list", decodetest.Lists(), c.list}, {"raw list", decodetest.Lists(), c.rawList},
		{"event", decodetest.Frames(), c.event}, {"raw event", decodetest.Frames(), c.rawEvent},
	} {
		t.Run(test.what, func(t *testing.T) {
			for again := range 2 {
				for _, k := range test.cases {
					if again == 0 || len(k.Text) < 10<<10 {
						compare(t, k.Exotic || strings.HasPrefix(test.what, "raw"), k.Why, []byte(k.Text), test.compare)
					}
				}
			}
		})
	}
}

const randomSeeds = seedtest.Default(10)

// TestRandomIsTheSame: random JSON, valid or not, gives the same results. All inputs of a seed go through the same
// Decoders.
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
			}{
				{"object", r.Object(), c.object},
				{"list", r.List(), c.list}, {"raw list", r.List(), c.rawList},
				{"event", r.Frame(), c.event}, {"raw event", r.Frame(), c.rawEvent},
			} {
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
	// Enough must be accepted: a declined input compares nothing.
	for _, what := range []string{"object", "list", "raw list", "event", "raw event"} {
		if part := float64(taken[what]) / float64(all); part < 0.2 {
			t.Errorf("%s: only %.0f %% were accepted, want at least 20 %%", what, 100*part)
		} else {
			t.Logf("%s: %.0f %% of %d accepted", what, 100*part, all)
		}
	}
}

func FuzzObject(f *testing.F) { fuzz(f, decodetest.Objects(), (*comparison).object) }
func FuzzList(f *testing.F)   { fuzz(f, decodetest.Lists(), (*comparison).list) }
func FuzzEvent(f *testing.F)  { fuzz(f, decodetest.Frames(), (*comparison).event) }

func fuzz(f *testing.F, cases []decodetest.Case, compare func(*comparison, []byte) error) {
	const biggest = 4 << 10 // the fuzzer mutates whole inputs, so large ones are slow
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
