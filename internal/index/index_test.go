package index

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// obj is an entry of ns; without a resourceVersion it has the hash of a fake's object.
func obj(name, uid, rv string) Entry {
	if rv == "" {
		rv = "#hash"
	}
	return Entry{named("ns", name), types.UID(uid), rv}
}

// said writes changes as "ADDED", or "DELETED name/uid@version" for one without an object.
func said(changes []Change) string {
	var parts []string
	for _, c := range changes {
		s := string(c.Kind)
		if c.Gone != nil {
			s += " " + c.Gone.Name + "/" + string(c.Gone.UID) + "@" + c.Gone.Version
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

func TestIndex(t *testing.T) {
	type op func(*Index) []Change
	list := func(objects ...Entry) op {
		return func(x *Index) []Change {
			x.BeginList()
			var all []Change
			for _, o := range objects {
				all = slices.AppendSeq(all, x.Put(o, true, Listed))
			}
			return slices.AppendSeq(all, x.EndList())
		}
	}
	brokenOff := func(o Entry) op {
		return func(x *Index) []Change { x.BeginList(); return slices.Collect(x.Put(o, true, Listed)) }
	}
	put := func(o Entry) op {
		return func(x *Index) []Change { return slices.Collect(x.Put(o, true, Happened)) }
	}
	remove := func(o Entry) op { return func(x *Index) []Change { return slices.Collect(x.Remove(o, Happened)) } }
	putOld := func(o Entry) op {
		return func(x *Index) []Change { return slices.Collect(x.Put(o, true, Replayed)) }
	}
	removeOld := func(o Entry) op { return func(x *Index) []Change { return slices.Collect(x.Remove(o, Replayed)) } }
	unwanted := func(o Entry) op {
		return func(x *Index) []Change { return slices.Collect(x.Put(o, false, Happened)) }
	}
	pending := func(name, uid string) op {
		return func(x *Index) []Change {
			x.Enter(Entry{named("ns", name), types.UID(uid), ""})
			return nil
		}
	}
	distrust := func(x *Index) []Change { x.Distrust(); return nil }

	tests := []struct {
		name  string
		known []op
		op    op
		want  string
		why   string
	}{
		{"first list", nil, list(obj("a", "1", "5"), obj("b", "2", "6")), "ADDED, ADDED", "all is new"},
		{"unchanged", []op{list(obj("a", "1", "5"))}, list(obj("a", "1", "5")), "", "nothing to tell"},
		{"changed meanwhile", []op{list(obj("a", "1", "5"))}, list(obj("a", "1", "7")), "MODIFIED", "only its last state"},
		{"gone meanwhile", []op{list(obj("d", "4", "6"), obj("b", "2", "6"), obj("c", "3", "6"), obj("a", "1", "5"))}, list(),
			"DELETED a/1@5, DELETED b/2@6, DELETED c/3@6, DELETED d/4@6", "by uid and last version, in the order of names"},
		{"gone for good", []op{list(obj("a", "1", "5")), list()}, list(), "", "an end is told once"},
		{"no uid in an earlier version", []op{list(obj("a", "", "5"))}, list(obj("a", "1", "7")), "MODIFIED", "what did not say who it was is no proof of another one"},
		{"no uid in a later version", []op{list(obj("a", "1", "5"))}, list(obj("a", "", "7")), "MODIFIED", "what does not say who it is is no proof of another one"},
		{"recreated meanwhile", []op{list(obj("a", "1", "5"))}, list(obj("a", "2", "9")), "DELETED a/1@5, ADDED", "another object of the same name: the first one's end is told first"},
		{"same version, other uid", []op{list(obj("a", "1", "5"))}, list(obj("a", "2", "5")), "DELETED a/1@5, ADDED", "the uid decides (a restored etcd can repeat versions)"},
		{"added live, kept by list", []op{list(), put(obj("a", "1", "5"))}, list(obj("a", "1", "5")), "", "live events are known to the next list"},
		{"broken off list, then whole", []op{list(obj("a", "1", "5"), obj("b", "2", "6")), brokenOff(obj("b", "2", "6"))}, list(obj("a", "1", "5")), "DELETED b/2@6", "seen by the list that broke off does not count"},
		{"listed twice", []op{brokenOff(obj("a", "1", "5"))}, list(obj("a", "1", "5")), "", "told by the list that broke off, not told again"},

		{"live add", nil, put(obj("a", "1", "5")), "ADDED", ""},
		{"live change", []op{put(obj("a", "1", "5"))}, put(obj("a", "1", "6")), "MODIFIED", "also if the server calls it ADDED"},
		{"live replay", []op{put(obj("a", "1", "5"))}, put(obj("a", "1", "5")), "", "told"},
		{"live replacement", []op{put(obj("a", "1", "5"))}, put(obj("a", "2", "6")), "DELETED a/1@5, ADDED", "a missed end is told"},
		{"live end", []op{put(obj("a", "1", "5"))}, remove(obj("a", "1", "6")), "DELETED", "with the server's object"},
		{"end of the unknown", nil, remove(obj("a", "1", "6")), "", "never told of, or told of its end"},
		{"end of one of no uid", []op{put(obj("a", "1", "5"))}, remove(obj("a", "", "6")), "DELETED", "by name"},
		{"end of one that had no uid", []op{put(obj("a", "", "5"))}, remove(obj("a", "1", "6")), "DELETED", "by name"},
		{"end of one that had neither", []op{put(obj("a", "", ""))}, remove(obj("a", "1", "6")), "DELETED", "a removal must be told, even of a double's object that got its uid and version late"},
		{"end of a predecessor", []op{put(obj("a", "2", "8"))}, remove(obj("a", "1", "7")), "", "told of already"},
		{"end of somebody, opaque versions", []op{put(obj("a", "2", "x"))}, remove(obj("a", "1", "y")), "", "whose end is later can't be told: no guess"},
		{"old end never told", []op{put(obj("a", "1", "5"))}, removeOld(obj("a", "1", "5")), "DELETED", "a server whose last event bears the version of the one before"},
		{"old end of one that came back", []op{put(obj("a", "1", "8"))}, removeOld(obj("a", "1", "7")), "", "a replay: it left the selector at 7 and was back at 8"},
		{"old end of another", []op{put(obj("a", "2", "8"))}, removeOld(obj("a", "1", "9")), "", "a replay"},
		{"old end of the unknown", nil, removeOld(obj("a", "1", "9")), "", "a replay"},
		{"old change never told", []op{put(obj("a", "1", "5"))}, putOld(obj("a", "1", "6")), "MODIFIED", "newer than what was told of it"},
		{"old change", []op{put(obj("a", "1", "7"))}, putOld(obj("a", "1", "6")), "", "a replay"},
		{"old addition of the unknown", nil, putOld(obj("a", "1", "6")), "", "a replay of one whose end was told, for all that is known"},
		{"old addition of another", []op{put(obj("a", "2", "8"))}, putOld(obj("a", "1", "9")), "", "a replay"},
		{"end of a successor", []op{put(obj("a", "1", "5"))}, remove(obj("a", "2", "8")), "DELETED a/1@5", "the one that was told of must be gone as well"},
		{"back after its end", []op{put(obj("a", "1", "5")), remove(obj("a", "1", "6"))}, put(obj("a", "1", "7")), "ADDED", "left the selector and came back"},

		{"not wanted", nil, unwanted(obj("a", "1", "5")), "", "it is not entered"},
		{"no longer wanted", []op{put(obj("a", "1", "5"))}, unwanted(obj("a", "1", "6")), "DELETED", "with the object as it is now"},
		{"wanted again", []op{put(obj("a", "1", "5")), unwanted(obj("a", "1", "6"))}, put(obj("a", "1", "7")), "ADDED", "its end was delivered"},
		{"end of the unwanted", []op{unwanted(obj("a", "1", "5"))}, remove(obj("a", "1", "6")), "", "it was never delivered"},
		{"replaced by an unwanted", []op{put(obj("a", "1", "5"))}, unwanted(obj("a", "2", "6")), "DELETED a/1@5", "only the end of the old one is delivered"},

		{"acked ahead", []op{list(obj("a", "1", "9"))}, put(obj("a", "1", "7")), "", "the watch goes on before what was acked"},
		{"end before what was acked ahead", []op{list(obj("a", "1", "9"))}, remove(obj("a", "1", "8")), "", "it left, and came back at 9"},

		{"pending, listed", []op{pending("a", "1")}, list(obj("a", "1", "5")), "ADDED", "nobody acked it"},
		{"pending, changed", []op{pending("a", "1")}, put(obj("a", "1", "5")), "ADDED", "nobody acked it"},
		{"pending, gone from the list", []op{pending("a", "1")}, list(), "DELETED a/1@", "it may have been delivered"},
		{"pending, an earlier end", []op{pending("a", "1")}, remove(obj("a", "1", "4")), "", "the watch has not come to what was delivered"},
		{"pending, an earlier life replayed", []op{pending("a", "1")}, putOld(obj("a", "1", "4")), "", "it was delivered after that"},
		{"pending, back, and its end", []op{pending("a", "1"), put(obj("a", "1", "5"))}, remove(obj("a", "1", "6")), "DELETED", "now it has"},
		{"pending, not wanted any more", []op{pending("a", "1")}, func(x *Index) []Change {
			return slices.Collect(x.Put(obj("a", "1", "6"), false, Listed))
		}, "DELETED", "it may have been delivered"},
		{"pending, not wanted yet", []op{pending("a", "1")}, unwanted(obj("a", "1", "6")), "", "the watch goes on before it was delivered"},
		{"two of a name, the old one changes", []op{list(obj("a", "1", "5")), pending("a", "2")}, put(obj("a", "1", "6")), "MODIFIED", "the watch goes on before the new one"},
		{"two of a name, the old one ends", []op{list(obj("a", "1", "5")), pending("a", "2")}, remove(obj("a", "1", "6")), "DELETED", "the new one is still to come"},
		{"two of a name, the new one comes", []op{list(obj("a", "1", "5")), pending("a", "2")}, put(obj("a", "2", "7")), "DELETED a/1@5, ADDED", "the end of the old one was missed"},
		{"two of a name, the new one listed", []op{list(obj("a", "1", "5")), pending("a", "2")}, list(obj("a", "2", "7")), "DELETED a/1@5, ADDED", "each has its entry"},
		{"two of a name, the known one listed", []op{list(obj("a", "2", "5")), pending("a", "1")}, list(obj("a", "2", "7")), "DELETED a/1@, MODIFIED", "the end of the other one comes first"},
		{"two of a name, another one listed", []op{list(obj("a", "1", "5")), pending("a", "2")}, list(obj("a", "3", "9")), "DELETED a/1@5, DELETED a/2@, ADDED", "both are gone"},

		{"gone back in time, unchanged", []op{list(obj("a", "1", "5")), distrust}, list(obj("a", "1", "5")), "MODIFIED", "the version may be that of something else"},
		{"gone back in time, listed twice", []op{list(obj("a", "1", "5")), distrust, brokenOff(obj("a", "1", "5"))}, list(obj("a", "1", "5")), "", "it was delivered since"},
		{"gone back in time, gone", []op{list(obj("a", "1", "5")), distrust}, list(), "DELETED a/1@5", "it was known"},
		{"gone back in time, pending", []op{pending("a", "1"), distrust}, list(obj("a", "1", "5")), "ADDED", "nobody acked it"},

		{"no versions, unchanged", []op{list(obj("a", "", ""))}, list(obj("a", "", "")), "", "fakes: the hash is the version"},
		{"no versions, changed", []op{list(obj("a", "", ""))}, list(obj("a", "", "#other")), "MODIFIED", "fakes: the hash is the version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New()
			for _, op := range tt.known {
				op(x)
			}
			if diff := cmp.Diff(tt.want, said(tt.op(x))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestIndexEntersWhatIsYielded(t *testing.T) {
	// Whoever leaves in the middle finds the rest untold the next time.
	x := New()
	drain(x.Put(obj("a", "1", "5"), true, Listed))
	for c := range x.Put(obj("a", "2", "6"), true, Listed) {
		if c.Kind != watch.Deleted {
			t.Errorf("got %v first, want the end of the old one", c.Kind)
		}
		break
	}
	if x.Has(obj("a", "1", "5")) {
		t.Error("its end was told, but it is still known")
	}
	if diff := cmp.Diff("ADDED", said(slices.Collect(x.Put(obj("a", "2", "6"), true, Listed)))); diff != "" {
		t.Errorf("the new one was not told yet (-want +got):\n%s", diff)
	}

	drain(x.Put(obj("b", "1", "7"), true, Listed))
	x.BeginList()
	for range x.EndList() {
		break
	}
	if !x.Has(obj("b", "1", "7")) || x.Len() != 1 {
		t.Error("after the end of a only b is known, whose end was not told")
	}
}

func drain(changes iter.Seq[Change]) {
	for range changes {
	}
}

// TestHasName: it is known whose end may have to be reported.
func TestHasName(t *testing.T) {
	const uid = "0f3c1f1e-8a55-4a3e-9c11-5a1d0a6a1b2c"
	enter := func(name string, uid types.UID) func(*Index) {
		return func(x *Index) { x.Enter(Entry{named("ns", name), uid, "5"}) }
	}
	for _, tt := range []struct {
		why  string
		x    func(*Index)
		want bool
	}{
		{"nothing is known", func(*Index) {}, false},
		{"it is known", enter("a", uid), true},
		{"with a uid that can't be packed", enter("a", "odd"), true},
		{"another one is", enter("b", uid), false},
		{"another one is, with an odd uid", enter("b", "odd"), false},
		{"a pending one", func(x *Index) { x.Enter(Entry{named("ns", "a"), uid, ""}) }, true},
	} {
		x := New()
		tt.x(x)
		if got := x.HasName([]byte("ns"), []byte("a")); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.why, got, tt.want)
		}
		if x.HasName([]byte("other"), []byte("a")) {
			t.Errorf("%s: known in another namespace", tt.why)
		}
	}
	if (*Index)(nil).HasName([]byte("ns"), []byte("a")) {
		t.Error("known without an index")
	}
}
