package configmap

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// entryOf has so many objects, whose index needs some 26 bytes for each.
func entryOf(n int) *entry {
	d := delta("", "5")
	d.Put = usual(n)
	return (*entry)(nil).with(d, someTime)
}

func TestFit(t *testing.T) {
	tests := []struct {
		objects map[string]int
		room    int // beside the positions
		want    []string
		why     string
	}{
		{map[string]int{"a": 100, "b": 200, "c": 300}, 20_000, nil, "all have room"},
		{map[string]int{"a": 100, "b": 200, "c": 300}, 15_000, []string{"c"}, "the biggest one is left out"},
		{map[string]int{"a": 300, "b": 200, "c": 100}, 15_000, []string{"a"}, "whatever its name"},
		{map[string]int{"a": 100, "b": 200, "c": 300}, 4_000, []string{"b", "c"}, "the two biggest ones"},
		{map[string]int{"a": 300, "b": 200, "c": 100}, 4_000, []string{"a", "b"}, "and are sorted"},
		{map[string]int{"a": 100, "b": 0, "c": 0}, 1_000, []string{"a"}, "what has no objects fits"},
		{map[string]int{"a": 1, "b": 0}, 0, []string{"a"}, "no room at all"},
		{map[string]int{"a": 1, "b": 0}, -100, []string{"a"}, "less than that: positions are kept whatever it is"},
	}
	for _, tt := range tests {
		entries := map[string]*entry{}
		for key, n := range tt.objects {
			entries[key] = entryOf(n)
			entries[key].pack(plenty, &compressor{}) // so that the sizes are known
		}
		bare := content{data: map[string]string{"theirs": "xyz"}, binary: map[string][]byte{}}
		if _, err := bare.add(entries, 0); err != nil {
			t.Fatal(err)
		}
		maxBytes := bare.bytes() + tt.room
		c := content{data: map[string]string{"theirs": "xyz"}, binary: map[string][]byte{}}
		got, err := c.add(entries, maxBytes)
		if d := cmp.Diff(tt.want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", tt.why, err, d)
		}
		if tt.room >= 0 && c.bytes() > maxBytes {
			t.Errorf("%s: %d bytes, and %d were allowed", tt.why, c.bytes(), maxBytes)
		}
		for key, e := range entries {
			read, err := readEntry(key, c.data["checkpoint."+key], c.binary["index."+key])
			if err != nil {
				t.Errorf("%s: %s: %v", tt.why, key, err)
				continue
			}
			want := e.checkpoint()
			if slices.Contains(got, key) {
				want.Position.Objects, want.Position.Partial = nil, true
			}
			if d := cmp.Diff(want, read.checkpoint()); d != "" {
				t.Errorf("%s: %s: %s", tt.why, key, d)
			}
		}
	}
}

// TestFitUnpacked: the same without sizes that are known from before, when what is
// packed first need not be the smallest.
func TestFitUnpacked(t *testing.T) {
	for _, maxBytes := range []int{0, 500, 2_000, 5_000, 9_000, 15_000, 30_000} {
		entries := map[string]*entry{"a": entryOf(100), "b": entryOf(300), "c": entryOf(200)}
		c := content{data: map[string]string{}, binary: map[string][]byte{}}
		leftOut, err := c.add(entries, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(leftOut) < 3 && c.bytes() > maxBytes {
			t.Errorf("%d bytes, and %d were allowed", c.bytes(), maxBytes)
		}
		if maxBytes == 30_000 && leftOut != nil {
			t.Errorf("left out with %d bytes: %v", maxBytes, leftOut)
		}
	}
}

// TestFitObvious: what obviously has no room is not packed, over and over.
func TestFitObvious(t *testing.T) {
	before := entryOf(1000)
	if !before.pack(plenty, &compressor{}) {
		t.Fatal("no room")
	}
	size := len(before.index)
	changed := func() *entry { return before.with(delta("k", "6", "one-more"), someTime) }
	known := changed()
	known.pack(plenty, &compressor{})
	big := entryOf(blockSize * 3)
	big.pack(100_000, &compressor{})
	tests := []struct {
		entry      *entry
		room       int
		fits, work bool
		why        string
	}{
		{known, len(known.index), true, false, "it is packed already"},
		{known, len(known.index) - 1, false, false, "its size is known"},
		{changed(), size * 8 / 10, false, false, "it was far bigger"},
		{changed(), size * 95 / 100, false, true, "it was a little bigger: it could have become smaller"},
		{big, 80_000, false, false, "the first attempt broke off, and has shown that it needs more"},
		{entryOf(10), 0, false, false, "there is no room at all"},
		{entryOf(0), 0, true, false, "nothing needs no room"},
	}
	for _, tt := range tests {
		var fits bool
		allocated := testing.AllocsPerRun(1, func() { fits = tt.entry.pack(tt.room, &compressor{}) })
		if fits != tt.fits || tt.work != (allocated > 0) {
			t.Errorf("%s: fits: %t; %v allocations", tt.why, fits, allocated)
		}
	}
}

// TestLeftOut: what does not fit is left out of the ConfigMap, not of the memory,
// and comes back when it fits.
func TestLeftOut(t *testing.T) {
	srv := newServer(t)
	small, err := Open(t.Context(), srv.Client(), "ns", "cp", &Options{MaxBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint.NewMemory()
	enter := func(d checkpoint.Delta, leftOut ...string) {
		t.Helper()
		commit(t, small, d)
		if err := want.Commit(t.Context(), []checkpoint.Delta{d}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(leftOut, small.LeftOut()); d != "" {
			t.Errorf("left out: %s", d)
		}
		if c := valuesOf(t, stored(t, srv)); c.bytes() > 20_000 {
			t.Errorf("%d bytes", c.bytes())
		}
	}
	big, bigger := delta("big", "5"), delta("bigger", "5")
	big.Put, bigger.Put = usual(300), usual(500)
	enter(big)
	enter(bigger, "bigger")
	sameAs(t, want, small, "big")
	sameAs(t, want, small, "bigger")

	read := func() *Store {
		t.Helper()
		o := stored(t, srv)
		s := &Store{namespace: "ns", name: "cp"}
		if _, err := s.read(o); err != nil {
			t.Fatal(err)
		}
		return s
	}
	lost := load(t, read(), "bigger")
	position := checkpoint.Position{ResourceVersions: bigger.ResourceVersions, Partial: true}
	if d := cmp.Diff(position, lost.Position); d != "" {
		t.Errorf("left out, and then loaded: %s", d)
	}
	sameAs(t, want, read(), "big")

	fewer := delta("bigger", "6")
	for _, o := range bigger.Put[200:] {
		fewer.Gone = append(fewer.Gone, o.NamespacedName())
	}
	enter(fewer)
	sameAs(t, want, read(), "big")
	sameAs(t, want, read(), "bigger")

	// Somebody else needs the room: the index goes while it is committed.
	edit(t, srv, func(o *unstructured.Unstructured) {
		c := valuesOf(t, o)
		c.binary["theirs"] = make([]byte, 10_000)
		c.into(o)
	})
	enter(delta("bigger", "7"), "big")
	edit(t, srv, func(o *unstructured.Unstructured) {
		c := valuesOf(t, o)
		delete(c.binary, "theirs")
		c.into(o)
	})
	enter(delta("bigger", "8"))
	sameAs(t, want, read(), "big")

	// The next run knows only what it is told from then on.
	enter(bigger, "bigger")
	next, err := Open(t.Context(), srv.Client(), "ns", "cp", &Options{MaxBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, next, delta("big", "9"))
	again := open(t, srv.Client(), "c")
	if c := load(t, again, "bigger"); !c.Position.Partial || len(c.Position.Objects) != 0 {
		t.Errorf("a commit of another key has made it %v", c.Position)
	}
	d := delta("bigger", "9", "x")
	d.Partial = true
	commit(t, again, d)
	if c := load(t, open(t, srv.Client(), "d"), "bigger"); !c.Position.Partial || len(c.Position.Objects) != 1 {
		t.Errorf("with one object: %v", c.Position)
	}
}

func TestMerge(t *testing.T) {
	// A word is a name, then a version; of one that is Unacked, the uid between them.
	object := func(word string) checkpoint.Object {
		o := checkpoint.Object{Namespace: "ns", Name: word[:1], ResourceVersion: word[len(word)-1:]}
		if len(word) == 3 {
			o.Unacked, o.UID = true, types.UID(word[1:2])
		}
		return o
	}
	tests := []struct {
		put, gone, told, settled string
		want                     string
		why                      string
	}{
		{"", "", "", "", "b1 d1 f1 bx1 by1", "nothing"},
		{"a2 c2 g2", "", "", "", "a2 b1 c2 d1 f1 g2 bx1 by1", "before, between and behind"},
		{"d2", "b0 f0", "", "", "d2 bx1 by1", "changed, and all around it gone"},
		{"", "a0 c0 g0", "", "", "b1 d1 f1 bx1 by1", "gone, and never there"},
		{"g2 f2 b2 a2", "d0", "", "", "a2 b2 f2 g2 bx1 by1", "in any order"},
		{"", "", "bz2 bx2 aa2", "", "b1 d1 f1 aa2 bx2 by1 bz2", "told"},
		{"", "", "", "bx0 by0 bz0", "b1 d1 f1", "settled, and never told"},
		{"b2", "", "bw2", "bx0", "b2 d1 f1 bw2 by1", "both of a name"},
		{"", "b0", "", "", "d1 f1 bx1 by1", "gone is not settled"},
	}
	var was []checkpoint.Object
	for _, w := range strings.Fields("b1 d1 f1 bx1 by1") {
		was = append(was, object(w))
	}
	kept := slices.Clone(was)
	for _, tt := range tests {
		var d checkpoint.Delta
		for _, w := range strings.Fields(tt.put) {
			o := object(w)
			o.Unacked = true // whatever it says of itself
			d.Put = append(d.Put, o)
		}
		for _, w := range strings.Fields(tt.gone) {
			d.Gone = append(d.Gone, object(w).NamespacedName())
		}
		for _, w := range strings.Fields(tt.told) {
			o := object(w)
			o.Unacked = false
			d.Told = append(d.Told, o)
		}
		for _, w := range strings.Fields(tt.settled) {
			d.Settled = append(d.Settled, object(w).ID())
		}
		var got []string
		for _, o := range merge(was, changesOf(d)) {
			word := o.Name + o.ResourceVersion
			if o.Unacked {
				word = o.Name + string(o.UID) + o.ResourceVersion
			}
			got = append(got, word)
		}
		if d := cmp.Diff(strings.Fields(tt.want), got); d != "" {
			t.Errorf("%s: %s", tt.why, d)
		}
		if d := cmp.Diff(kept, was); d != "" {
			t.Errorf("%s: what was there has changed: %s", tt.why, d)
		}
	}
}
