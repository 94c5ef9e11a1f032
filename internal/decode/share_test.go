package decode_test

import (
	"slices"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// decodedTwice decodes all recorded events, and the items of all recorded lists,
// twice with the same decoder.
func decodedTwice(t *testing.T) (objects, copies []map[string]any) {
	d := decode.New(decode.Options{})
	for range 2 {
		for _, r := range decodetest.ReadRecorded(t, recordings) {
			if !r.Watch {
				lent(r.Data, func(data []byte) {
					l, err := d.List(data)
					if err != nil {
						return
					}
					objects = append(objects, l.Object)
					for _, item := range l.Items {
						objects = append(objects, item.Object)
					}
				})
			}
			for _, frame := range r.Frames() {
				lent(frame, func(data []byte) {
					if ev, _, err := d.Event(data); err == nil {
						objects = append(objects, ev.Object)
					}
				})
			}
			// As soon as it was decoded, to compare with in the end.
			for _, o := range objects[len(copies):] {
				copies = append(copies, decodetest.Copy(o))
			}
		}
	}
	if len(objects) < 100 {
		t.Fatalf("only %d objects were decoded", len(objects))
	}
	return objects, copies
}

func TestResultsLastAndShareNothing(t *testing.T) {
	objects, want := decodedTwice(t)
	for i, o := range objects {
		if d := decodetest.Difference(want[i], o); d != "" {
			t.Errorf("object %d changed when others were decoded: %s", i, d)
		}
	}
	for round := range 2 {
		for i, o := range objects {
			if i%2 == round {
				decodetest.Ruin(o)
			}
		}
		if round == 1 {
			return
		}
		for i, o := range objects {
			if i%2 == 1 {
				if d := decodetest.Difference(want[i], o); d != "" {
					t.Errorf("object %d changed when others were written to: %s", i, d)
				}
			}
		}
	}
}

// TestWithinAnObjectNothingIsShared: equal parts of one object are apart, too.
func TestWithinAnObjectNothingIsShared(t *testing.T) {
	const part = `{"a":[1,"x",{}],"b":{"c":[]}}`
	data := []byte(`{"apiVersion":"v1","kind":"Thing","one":` + part + `,"two":` + part + `,"many":[` + part + `,` + part + `]}`)
	d := decode.New(decode.Options{})
	for range 3 {
		o, err := d.Object(data)
		if err != nil {
			t.Fatal(err)
		}
		want := decodetest.Copy(o["two"])
		decodetest.Ruin(o["one"])
		decodetest.Ruin(o["many"].([]any)[0])
		for what, got := range map[string]any{"two": o["two"], "many[1]": o["many"].([]any)[1]} {
			if diff := decodetest.Difference(want, got); diff != "" {
				t.Errorf("%s changed when another part was written to: %s", what, diff)
			}
		}
		again, err := d.Object(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := decodetest.Difference(want, again["one"]); diff != "" {
			t.Errorf("an object that was written to is seen in the next one: %s", diff)
		}
	}
}

// TestAppendingStaysWithin: who appends to a list must not write into another.
func TestAppendingStaysWithin(t *testing.T) {
	o, err := decode.New(decode.Options{}).Object([]byte(`{"apiVersion":"v1","kind":"Thing","lists":[[1],[2,3],[],[4],[5,6,7],[8]]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := decodetest.Copy(o)
	lists := o["lists"].([]any)
	for _, l := range lists {
		_ = append(l.([]any), "appended", "appended")
	}
	_ = append(lists, slices.Clone(lists)...)
	if d := decodetest.Difference(want, o); d != "" {
		t.Error(d)
	}
}
