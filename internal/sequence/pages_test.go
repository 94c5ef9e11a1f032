package sequence

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// A page that was too large is requested with a quarter of the objects, and later ones grow again.
func TestPageSizes(t *testing.T) {
	tooLarge := guard.TooLarge("too large")
	for _, tt := range []struct {
		why     string
		answers []error
		want    []int // the size of each next page; 0 is the default of 500
		smaller bool  // whether the last page may be requested again, with fewer objects
	}{
		{"pages that fit", []error{nil, nil}, []int{0, 0}, false},
		{"another error is no reason for a smaller page", []error{errors.New("refused")}, []int{0}, false},
		{"a quarter each time, down to one object", []error{tooLarge, tooLarge, tooLarge, tooLarge, tooLarge},
			[]int{125, 31, 7, 1, 1}, false},
		{"a page that was too large", []error{tooLarge}, []int{125}, true},
		{"then twice as many, below what was refused", []error{tooLarge, tooLarge, nil, nil, nil},
			[]int{125, 31, 62, 124, 124}, false},
	} {
		var p pageSizes
		var sizes []int
		smaller := false
		for _, err := range tt.answers {
			smaller = p.resize(500, err)
			sizes = append(sizes, p.size)
		}
		if diff := cmp.Diff(tt.want, sizes); diff != "" || smaller != tt.smaller {
			t.Errorf("%s: smaller = %v, sizes (-want +got):\n%s", tt.why, smaller, diff)
		}
	}
}

// A server that repeats its pages would be read for ever.
func TestNotePage(t *testing.T) {
	for _, tt := range []struct {
		why   string
		known string   // names in the index that the list has shown before
		pages []string // names on each page; an upper-case name is not selected
		want  []bool
	}{
		{"pages in the order of names", "", []string{"a b", "c d", "e"}, []bool{false, false, false}},
		{"the first page is never a duplicate", "a b", []string{"a b"}, []bool{false}},
		{"the first page again", "a b", []string{"a b", "a b"}, []bool{false, true}},
		{"an earlier page again", "a b c d", []string{"a b", "c d", "a b"}, []bool{false, false, true}},
		{"one new object among old ones", "a b", []string{"a b", "a c"}, []bool{false, false}},
		{"an empty page is not a duplicate: the API permits them", "", []string{"a", ""}, []bool{false, false}},
		{"an object out of order that the list has not shown", "", []string{"b", "a"}, []bool{false, false}},
		{"one that is not selected is not in the index", "b", []string{"b", "A"}, []bool{false, true}},
	} {
		d := &delivery{inbox: &inbox{}, index: index.New(nil), target: NewTarget(Config{
			Select: func(m Meta) bool { return m.GetName() != "A" },
		})}
		for _, name := range strings.Fields(tt.known) {
			d.index.Enter(objects.Version{ID: objects.ID{Name: name}, ResourceVersion: "1"})
		}
		var got []bool
		for i, page := range tt.pages {
			var all []object
			for _, name := range strings.Fields(page) {
				o := object{Version: objects.Version{ID: objects.ID{Name: name}}}
				o.body.json = []byte(`{"metadata":{"name":"` + name + `"}}`)
				all = append(all, o)
			}
			d.inbox.putPage(all)
			got = append(got, d.notePage(i == 0))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: duplicates (-want +got):\n%s", tt.why, diff)
		}
	}
}
