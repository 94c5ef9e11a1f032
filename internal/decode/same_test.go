package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

const recordings = "../../testdata/objects"

// dropped are paths that the cases and the random objects have, and some that lead
// through what is no map.
var dropped = [][]string{
	{"metadata", "managedFields"}, {"status"}, {"spec", "v", "a"}, {"spec", "a"}, {"spec", "a", "b"}, {"metadata", "annotations", "note"}, {"kind", "a"},
	{"metadata", "name", "a"}, {"spec", "v", ""}, {"items"},
}

// comparison is what is compared with client-go's decoders: decoders that are used
// for one input after another.
type comparison struct {
	plain, dropping, metadata, both *decode.Decoder
}

func newComparison() *comparison {
	return &comparison{
		decode.New(decode.Options{}), decode.New(decode.Options{Drop: dropped}),
		decode.New(decode.Options{MetadataOnly: true}), decode.New(decode.Options{Drop: dropped, MetadataOnly: true}),
	}
}

// each calls f with every decoder and what its options are to make of an object.
func (c *comparison) each(f func(d *decode.Decoder, options string, pruned func(map[string]any)) error) error {
	for _, o := range []struct {
		name           string
		d              *decode.Decoder
		drop, metadata bool
	}{{"", c.plain, false, false}, {"Drop: ", c.dropping, true, false}, {"MetadataOnly: ", c.metadata, false, true}, {"Drop, MetadataOnly: ", c.both, true, true}} {
		err := f(o.d, o.name, func(m map[string]any) {
			for _, path := range dropped {
				if o.drop {
					unstructured.RemoveNestedField(m, path...)
				}
			}
			for key := range m {
				if o.metadata && key != "apiVersion" && key != "kind" && key != "metadata" {
					delete(m, key)
				}
			}
		})
		if err != nil {
			return fmt.Errorf("%s%w", o.name, err)
		}
	}
	return nil
}

var errDeclined = errors.New("declined")

// lent gives f a copy of data, and overwrites that afterwards.
func lent(data []byte, f func([]byte)) {
	data = slices.Clone(data)
	f(data)
	for i := range data {
		data[i] = '#'
	}
}

// object compares what the decoders make of data. It is errDeclined if the plain
// one left it to apimachinery.
func (c *comparison) object(data []byte) error {
	var declined error
	want, refused := decodetest.Object(data)
	err := c.each(func(d *decode.Decoder, options string, pruned func(map[string]any)) error {
		var got map[string]any
		var err error
		lent(data, func(data []byte) { got, err = d.Object(data) })
		if err != nil {
			if options == "" {
				declined = fmt.Errorf("%w: %w", errDeclined, err)
			}
			return known(err)
		}
		if refused != nil {
			return fmt.Errorf("apimachinery refuses what was taken: %w", refused)
		}
		want := decodetest.Copy(want)
		pruned(want)
		return different(decodetest.Difference(want, got))
	})
	return first(err, declined)
}

func (c *comparison) list(data []byte) error {
	var declined error
	want, refused := decodetest.List(data)
	err := c.each(func(d *decode.Decoder, options string, pruned func(map[string]any)) error {
		var got *unstructured.UnstructuredList
		var err error
		lent(data, func(data []byte) { got, err = d.List(data) })
		if d := sameInPieces(d, data, got, err); d != nil {
			return d
		}
		if err != nil {
			if options == "" {
				declined = fmt.Errorf("%w: %w", errDeclined, err)
			}
			return known(err)
		}
		if refused != nil {
			return fmt.Errorf("client-go refuses what was taken: %w", refused)
		}
		want := &unstructured.UnstructuredList{Object: want.Object, Items: slices.Clone(want.Items)}
		for i := range want.Items {
			want.Items[i].Object = decodetest.Copy(want.Items[i].Object)
			pruned(want.Items[i].Object)
		}
		return different(decodetest.DifferenceOfLists(want, got))
	})
	return first(err, declined)
}

func (c *comparison) event(data []byte) error {
	var declined error
	kind, want, refused := decodetest.Event(data)
	length, more, broken := decodetest.Frame(data)
	err := c.each(func(d *decode.Decoder, options string, pruned func(map[string]any)) error {
		var got decode.Event
		var n int
		var err error
		lent(data, func(data []byte) { got, n, err = d.Event(data) })
		if err != nil {
			if options == "" {
				declined = fmt.Errorf("%w: %w", errDeclined, err)
			}
			if errors.Is(err, decode.ErrShort) && !more && broken == nil {
				return fmt.Errorf("ErrShort, but the event is complete with %d bytes", length)
			}
			return known(err)
		}
		if refused != nil {
			return fmt.Errorf("client-go refuses what was taken: %w", refused)
		}
		u, ok := want.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("client-go makes %T of what was taken", want)
		}
		if n != length || got.Type != kind {
			return fmt.Errorf("want %s of %d bytes, got %s of %d", kind, length, got.Type, n)
		}
		want := decodetest.Copy(u.Object)
		if kind != watch.Bookmark {
			pruned(want)
		}
		return different(decodetest.Difference(want, got.Object))
	})
	return first(err, declined)
}

// known is nil for the errors that a decoder may return.
func known(err error) error {
	if errors.Is(err, decode.ErrUnlike) || errors.Is(err, decode.ErrShort) {
		return nil
	}
	return fmt.Errorf("the error should be ErrUnlike or ErrShort: %w", err)
}

func different(d string) error {
	if d == "" {
		return nil
	}
	return errors.New("different: " + d)
}

func first(different, declined error) error {
	if different != nil {
		return different
	}
	return declined
}

// compare reports a difference, and that what is not exotic was declined.
func compare(t testing.TB, exotic bool, what string, data []byte, f func([]byte) error) {
	t.Helper()
	if err := f(data); err != nil && !(exotic && errors.Is(err, errDeclined)) {
		t.Errorf("%s: %v\n%.300q", what, err, data)
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
	for _, test := range []struct {
		what  string
		cases []decodetest.Case
		of    func(*comparison) func([]byte) error
	}{
		{"object", decodetest.Objects(), func(c *comparison) func([]byte) error { return c.object }},
		{"list", decodetest.Lists(), func(c *comparison) func([]byte) error { return c.list }},
		{"event", decodetest.Frames(), func(c *comparison) func([]byte) error { return c.event }},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := newComparison()
			for again := range 2 {
				for _, k := range test.cases {
					if again == 1 && len(k.Text) > 10<<10 {
						continue
					}
					compare(t, k.Exotic, k.Why, []byte(k.Text), test.of(c))
				}
			}
		})
	}
}

// TestPrefixesAreShort: what has only half come is waited for, or left to
// client-go; never is it taken.
func TestPrefixesAreShort(t *testing.T) {
	c := newComparison()
	for _, r := range decodetest.ReadRecorded(t, recordings) {
		for _, frame := range r.Frames()[:min(2, len(r.Frames()))] {
			if !r.Watch || r.Exotic {
				continue
			}
			frame = bytes.TrimSuffix(frame, []byte("\n"))
			for n := 0; n < len(frame); n += 1 + n/64 {
				if _, _, err := c.plain.Event(frame[:n]); !errors.Is(err, decode.ErrShort) {
					t.Fatalf("%s: %d of %d bytes: %v, want ErrShort", r.Name, n, len(frame), err)
				}
			}
		}
	}
}
