package stream

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// What is told, and noted, where an earlier run may have told of objects that the
// index does not know, or not in that version.
func TestGhosts(t *testing.T) {
	type op func(*index) []change
	list := func(objects ...object) op {
		return func(x *index) []change {
			x.beginList()
			var all []change
			for _, o := range objects {
				all = slices.AppendSeq(all, x.bury(o.name(), o.GetUID()))
				all = slices.AppendSeq(all, x.put(o, true))
			}
			return slices.AppendSeq(all, x.endList(nil))
		}
	}
	unwanted := func(o object) op {
		return func(x *index) []change {
			x.beginList()
			return slices.AppendSeq(slices.Collect(x.put(o, false)), x.endList(nil))
		}
	}
	put := func(o object) op { return func(x *index) []change { return slices.Collect(x.put(o, true)) } }
	remove := func(o object) op { return func(x *index) []change { return slices.Collect(x.remove(o)) } }
	knew := func(o object) op {
		return func(x *index) []change {
			x.enter(known{identity: identity{o.name(), o.GetUID(), o.version}})
			return nil
		}
	}
	hidden := func(o object) op {
		return func(x *index) []change { x.enter(known{identity{o.name(), o.GetUID(), o.version}, true}); return nil }
	}
	ghost := func(o object) op {
		return func(x *index) []change { x.haunt(identity{o.name(), o.GetUID(), o.version}); return nil }
	}
	a5, b6 := ghost(obj("a", "1", "5")), ghost(obj("b", "2", "6"))

	tests := []struct {
		name string
		ops  []op
		want string
		left string // ghosts
		why  string
	}{
		{"gone", []op{a5, list()}, "DELETED a/1@5 unsure; note -a/1@5?", "", "in case it was told"},
		{"several", []op{b6, a5, ghost(obj("a", "2", "6")), list()}, "DELETED a/1@5 unsure, DELETED a/2@6 unsure, DELETED b/2@6 unsure; note -a/1@5? -a/2@6? -b/2@6?", "", "in the order of names"},
		{"there", []op{a5, list(obj("a", "1", "5"))}, "ADDED unsure; note a/1@5 -a/1@5?", "", "it comes again"},
		{"there, changed", []op{a5, list(obj("a", "1", "7"))}, "ADDED unsure; note a/1@7 -a/1@5?", "", "it comes in its new state"},
		{"there, older", []op{a5, list(obj("a", "1", "3"))}, "ADDED unsure; note a/1@3 -a/1@5?", "", "the server has gone back in time, and a list is the present"},
		{"there, another one", []op{a5, list(obj("a", "2", "7"))}, "DELETED a/1@5 unsure, ADDED; note -a/1@5? a/2@7", "", "the end of the first comes first"},
		{"two, one of them there", []op{a5, ghost(obj("a", "2", "7")), list(obj("a", "2", "7"))}, "DELETED a/1@5 unsure, ADDED unsure; note -a/1@5? a/2@7 -a/2@7?", "", "each by itself"},
		{"two, in the watch", []op{a5, ghost(obj("a", "2", "7")), put(obj("a", "2", "7"))}, "ADDED unsure; note a/2@7 -a/2@7?", "a/1@5", "the end of the other one will come"},
		{"there, not wanted", []op{a5, unwanted(obj("a", "1", "7"))}, "DELETED left a/1@5 unsure; note (a/1@7) -a/1@5?", "", "it may have been told when it was"},
		{"not wanted then either", []op{hidden(obj("a", "1", "4")), unwanted(obj("a", "1", "4"))}, "", "", "nobody was told"},

		{"known too", []op{knew(obj("a", "1", "4")), a5, list(obj("a", "1", "4"))}, "MODIFIED; note -a/1@5?", "", "it may have been told at another version, of a time that is no more"},
		{"known too, at the same version", []op{knew(obj("a", "1", "5")), a5, list(obj("a", "1", "5"))}, "; note -a/1@5?", "", "that is what was told"},
		{"known too, and gone", []op{knew(obj("a", "1", "4")), a5, list()}, "DELETED a/1@4; note -a/1@ -a/1@5?", "", "an end is told once"},
		{"known, and gone, and another one", []op{knew(obj("a", "1", "4")), ghost(obj("a", "2", "5")), list()}, "DELETED a/1@4, DELETED a/2@5 unsure; note -a/1@ -a/2@5?", "", "both ends"},
		{"known too, and another one there", []op{knew(obj("a", "1", "4")), a5, list(obj("a", "2", "7"))}, "DELETED a/1@4, ADDED; note -a/1@5? -a/1@ a/2@7", "", "an end is told once"},
		{"known as not wanted, and gone", []op{hidden(obj("a", "1", "4")), a5, list()}, "DELETED a/1@5 unsure; note -a/1@ -a/1@5?", "", "it was wanted once"},
		{"known as not wanted, and another one there", []op{hidden(obj("a", "1", "4")), a5, list(obj("a", "2", "7"))}, "DELETED a/1@5 unsure, ADDED; note -a/1@5? -a/1@ a/2@7", "", "the same"},

		{"before it in the watch", []op{a5, put(obj("a", "1", "3"))}, "ADDED; note a/1@3", "a/1@5", "that it was there then says nothing of later"},
		{"in the watch", []op{a5, put(obj("a", "1", "5"))}, "ADDED unsure; note a/1@5 -a/1@5?", "", "it comes again"},
		{"its end in the watch", []op{a5, remove(obj("a", "1", "6"))}, "DELETED unsure; note -a/1@5?", "", "with the server's object"},
		{"an earlier end in the watch", []op{a5, remove(obj("a", "1", "4"))}, "", "a/1@5", "it left the selector, and was back"},
		{"the end of another one", []op{a5, remove(obj("a", "2", "6"))}, "", "a/1@5", "nothing is said of it"},
		{"its end, known as not wanted", []op{hidden(obj("a", "1", "5")), a5, remove(obj("a", "1", "6"))}, "DELETED unsure; note -a/1@5? -a/1@", "", "it was wanted once"},
		{"its end, another one known as not wanted", []op{hidden(obj("a", "2", "5")), a5, remove(obj("a", "1", "6"))}, "DELETED unsure; note -a/1@5? -a/2@", "", "two of a name never exist at once, so the other one is gone, too"},
		{"its end, another one known", []op{knew(obj("a", "2", "4")), a5, remove(obj("a", "1", "6"))}, "DELETED unsure, DELETED a/2@4; note -a/1@5? -a/2@", "", "both ends"},
		{"its end, known too", []op{knew(obj("a", "1", "5")), a5, remove(obj("a", "1", "6"))}, "DELETED; note -a/1@5? -a/1@", "", "an end is told once"},
		{"once", []op{a5, list(), list()}, "DELETED a/1@5 unsure; note -a/1@5?", "", "then nothing is left of it"},
		{"before the list ends, and after", []op{a5, list(), a5, put(obj("a", "1", "3"))}, "DELETED a/1@5 unsure, ADDED; note -a/1@5? a/1@3", "a/1@5", "after a list it is a watch again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, notes, got := newIndex(), "", []string{}
			x.noted = func(c checkpoint.Change) {
				text := fmt.Sprintf("%s/%s@%s", c.Name, c.UID, c.ResourceVersion)
				if c.Hidden {
					text = "(" + text + ")"
				}
				if c.Gone {
					text = "-" + text
				}
				if c.Unacked {
					text += "?"
				}
				notes += " " + text
			}
			for _, op := range tt.ops {
				for _, c := range op(x) {
					text := said([]change{c})
					if c.left != nil {
						text += " left " + c.left.Name + "/" + string(c.left.uid) + "@" + c.left.version
					}
					if c.unsure {
						text += " unsure"
					}
					got = append(got, text)
				}
			}
			all := strings.Join(got, ", ")
			if notes != "" {
				all += "; note" + notes
			}
			if diff := cmp.Diff(tt.want, all); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			var left []string
			for _, g := range x.allGhosts() {
				left = append(left, g.Name+"/"+string(g.uid)+"@"+g.version)
			}
			if diff := cmp.Diff(tt.left, strings.Join(left, " ")); diff != "" {
				t.Errorf("what is left: %s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// Who leaves in between has been told of what is no ghost any more, and of nothing
// else.
func TestGhostsLeft(t *testing.T) {
	for what, changes := range map[string]func(*index) iter.Seq[change]{
		"bury":    func(x *index) iter.Seq[change] { return x.bury(obj("a", "", "").name(), "9") },
		"endList": func(x *index) iter.Seq[change] { x.beginList(); return x.endList(nil) },
	} {
		x := newIndex()
		for _, o := range []object{obj("a", "1", "5"), obj("a", "2", "6")} {
			x.haunt(identity{o.name(), o.GetUID(), o.version})
		}
		for range changes(x) {
			break
		}
		if left := x.allGhosts(); len(left) != 1 || left[0].uid != "2" {
			t.Errorf("%s: %v are left, want the second one", what, left)
		}
	}
}

// What is known is told once more after the server has gone back in time.
func TestDoubts(t *testing.T) {
	a, b := obj("a", "1", "5"), obj("b", "2", "6")
	tests := []struct {
		name   string
		before func(*index) // the doubt
		after  func(*index)
		want   string
		why    string
	}{
		{"known", func(*index) {}, func(*index) {}, "a b", "the versions may be those of something else now"},
		{"told of meanwhile", func(x *index) {
			for range x.put(obj("a", "1", "7"), true) {
			}
		}, func(*index) {}, "a b", "by the watch before"},
		{"told of since", func(*index) {}, func(x *index) {
			for range x.put(obj("a", "1", "5"), true) {
			}
		}, "b", "by a list that broke off"},
		{"a list was told to its end", func(*index) {}, func(x *index) {
			x.beginList()
			for _, o := range []object{a, b} {
				for range x.put(o, true) {
				}
			}
			for range x.endList(nil) {
			}
		}, "", "it is all confirmed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newIndex()
			for _, o := range []object{a, b} {
				x.enter(known{identity: identity{o.name(), o.GetUID(), o.version}})
			}
			tt.before(x)
			x.doubt()
			tt.after(x)
			for i := range 2 { // of a list that breaks off, and one that begins again
				var told []string
				x.beginList()
				for k := range x.all() {
					for c := range x.put(obj(k.Name, string(k.uid), k.version), true) {
						if c.kind != Modified {
							t.Errorf("%s is told as %s", k.Name, c.kind)
						}
						told = append(told, k.Name)
					}
				}
				slices.Sort(told)
				if diff := cmp.Diff(tt.want, strings.Join(told, " ")); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if i > 0 {
					for range x.endList(nil) {
					}
				}
				tt.want = "" // what has been told is doubted no longer
			}
		})
	}
}
