package configmap

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// TestDamaged: whatever bit of a key is wrong, what can be read is what was
// written.
func TestDamaged(t *testing.T) {
	e := (*entry)(nil).with(delta("k", "5", "a", "b"), someTime)
	c := content{data: map[string]string{}, binary: map[string][]byte{}}
	if leftOut, err := c.add(map[string]*entry{"k": e}, plenty); err != nil || leftOut != nil {
		t.Fatal(leftOut, err)
	}
	text, index := c.data["checkpoint.k"], c.binary["index.k"]
	want := e.checkpoint()
	if got, err := readEntry("k", text, index); err != nil || got.size() != float64(len(index)) {
		t.Fatalf("undamaged: %+v, %v", got, err)
	}
	check := func(text string, index []byte, what string, at int) {
		t.Helper()
		got, err := readEntry("k", text, index)
		if err != nil {
			return
		}
		if d := cmp.Diff(want, got.checkpoint()); d != "" {
			t.Errorf("%s %d: %s", what, at, d)
		}
	}
	refuse := func(key, text string, index []byte, what string) {
		t.Helper()
		if got, err := readEntry(key, text, index); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
	for i := range text {
		refuse("k", text[:i], index, "the text is cut off")
		for bit := range 8 {
			b := []byte(text)
			b[i] ^= 1 << bit
			check(string(b), index, "a bit in the text at", i)
		}
	}
	for i := range index {
		refuse("k", text, index[:i], "the index is cut off")
		refuse("k", text, append(slices.Clone(index[:i]), index[i+1:]...), "a byte is missing")
		for bit := range 8 {
			b := slices.Clone(index)
			b[i] ^= 1 << bit
			refuse("k", text, b, "a bit in the index")
		}
	}
	refuse("k", text, append(slices.Clone(index), 0), "a byte too much")
	refuse("l", text, index, "another key's")
	refuse("k", "null", index, "null")
	refuse("k", "{}", nil, "an empty object")
	refuse("k", "[]", nil, "a list")

	older := delta("k", "4", "a")
	o := content{data: map[string]string{}, binary: map[string][]byte{}}
	if _, err := o.add(map[string]*entry{"k": (*entry)(nil).with(older, someTime)}, plenty); err != nil {
		t.Fatal(err)
	}
	refuse("k", text, o.binary["index.k"], "the index of another commit")
	refuse("k", o.data["checkpoint.k"], index, "the text of another commit")
	if o, err := readEntry("k", o.data["checkpoint.k"], o.binary["index.k"]); err != nil || len(o.objects) != 1 {
		t.Errorf("the other commit: %v %v", o, err)
	}
}

// TestBroken: a key that can't be read is not taken for nothing, left as it is, and
// no trouble for the others.
func TestBroken(t *testing.T) {
	tests := []struct {
		spoil func(c content)
		why   string
	}{
		{func(c content) { c.data["checkpoint.k"] = "x" + c.data["checkpoint.k"] }, "no JSON"},
		{func(c content) { c.data["checkpoint.k"] = "" }, "empty"},
		{func(c content) { c.data["checkpoint.k"] = c.data["checkpoint.l"] }, "another key's"},
		{func(c content) {
			c.data["checkpoint.k"], c.binary["index.k"] = c.data["checkpoint.l"], c.binary["index.l"]
		}, "all of another key"},
		{func(c content) { delete(c.data, "checkpoint.k") }, "the position is missing"},
		{func(c content) { delete(c.binary, "index.k") }, "the index is missing"},
		{func(c content) { c.binary["index.k"] = []byte{} }, "the index is empty"},
		{func(c content) { c.binary["index.k"] = c.binary["index.l"] }, "another key's index"},
		{func(c content) { c.binary["index.k"][3] ^= 4 }, "a bit in the index"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		commit(t, open(t, srv.Client(), "a"), delta("k", "5", "a", "b"), delta("l", "6", "c"))
		edit(t, srv, func(o *unstructured.Unstructured) {
			c := valuesOf(t, o)
			tt.spoil(c)
			c.into(o)
		})
		before := valuesOf(t, stored(t, srv))
		for range 2 { // a claim and a commit change nothing in it
			s := open(t, srv.Client(), "b")
			for range 2 {
				_, err := s.Load(t.Context(), "k")
				isBroken(t, err, tt.why)
				isBroken(t, s.Commit(t.Context(), []checkpoint.Delta{delta("l", "7"), delta("k", "7", "x")}), tt.why)
			}
			commit(t, s, delta("l", "8", "d"))
			if c := load(t, s, "l"); len(c.Position.Objects) != 2 {
				t.Errorf("%s: the other key has %v", tt.why, c.Position)
			}
		}
		after := valuesOf(t, stored(t, srv))
		for _, name := range []string{"checkpoint.k", "index.k"} {
			if before.data[name] != after.data[name] || !slices.Equal(before.binary[name], after.binary[name]) {
				t.Errorf("%s: %s was changed", tt.why, name)
			}
		}
		s := open(t, srv.Client(), "c")
		if err := s.Delete(t.Context(), "k"); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		for range 2 {
			if c := load(t, s, "k"); c != nil {
				t.Errorf("%s: deleted, and still %v", tt.why, c)
			}
			s = open(t, srv.Client(), "d")
		}
		commit(t, s, delta("k", "9", "e"))
	}
}

// TestBrokenKept: a Delete that fails leaves it broken.
func TestBrokenKept(t *testing.T) {
	srv := newServer(t)
	commit(t, open(t, srv.Client(), "a"), delta("k", "5", "a"), delta("l", "6", "c"))
	edit(t, srv, func(o *unstructured.Unstructured) {
		c := valuesOf(t, o)
		delete(c.data, "checkpoint.k")
		c.into(o)
	})
	s := open(t, srv.Client(), "b")
	if err := srv.Apply("configmaps write 1: 500"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "k"); err == nil {
		t.Fatal("deleted")
	}
	commit(t, s, delta("l", "7"))
	for _, s := range []*Store{s, open(t, srv.Client(), "c")} {
		_, err := s.Load(t.Context(), "k")
		isBroken(t, err, "it was not deleted")
	}
}

func isBroken(t *testing.T, err error, why string) {
	t.Helper()
	var e *checkpoint.CorruptError
	if !errors.As(err, &e) || e.Store != `ConfigMap ns/cp (key "k")` {
		t.Errorf("%s: %v, want a CorruptError", why, err)
	}
}
