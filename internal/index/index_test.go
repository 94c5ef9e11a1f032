package index

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// obj returns an object of a namespace. Without a version it has a hash, as the objects of client-go's fake.
func obj(name, uid, rv string) objects.Version {
	if rv == "" {
		rv = "#hash"
	}
	return versionOf(named("ns", name), types.UID(uid), rv)
}

// uuid is a UUID without its last digit.
const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c"

// text returns changes as "ADDED", or as "DELETED name/uid@version" if Gone is set.
func text(changes []Change) string {
	var parts []string
	for _, c := range changes {
		s := string(c.Kind)
		if c.Gone != nil {
			s += " " + c.Gone.Name + "/" + strings.TrimPrefix(string(c.Gone.UID), uuid) + "@" + c.Gone.ResourceVersion
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

func TestIndex(t *testing.T) {
	packed := false // uids are such that entries can be packed
	as := func(o objects.Version) objects.Version {
		if packed && o.UID != "" {
			o.UID = uuid + o.UID
		}
		return o
	}
	type op func(*Index) []Change
	list := func(listed ...objects.Version) op {
		return func(x *Index) []Change {
			x.BeginList()
			return collect(func(d Deliver) error {
				for _, o := range listed {
					x.Put(as(o), true, Listed, d)
				}
				return x.EndList(d)
			})
		}
	}
	brokenList := func(o objects.Version) op {
		return func(x *Index) []Change {
			x.BeginList()
			return collect(func(d Deliver) error { return x.Put(as(o), true, Listed, d) })
		}
	}
	put := func(o objects.Version) op {
		return func(x *Index) []Change {
			return collect(func(d Deliver) error { return x.Put(as(o), true, Happened, d) })
		}
	}
	appear := func(o objects.Version) op {
		return func(x *Index) []Change {
			return collect(func(d Deliver) error { return x.Put(as(o), true, Appeared, d) })
		}
	}
	listedAgain := func(o objects.Version) op {
		return func(x *Index) []Change {
			return collect(func(d Deliver) error { return x.Put(as(o), true, ListedAgain, d) })
		}
	}
	only := func(o objects.Version) op {
		return func(x *Index) []Change {
			return collect(func(d Deliver) error { return x.Put(as(o), true, Only, d) })
		}
	}
	remove := func(o objects.Version) op {
		return func(x *Index) []Change { return collect(func(d Deliver) error { return x.Remove(as(o), Happened, d) }) }
	}
	replayPut := func(o objects.Version) op {
		return func(x *Index) []Change {
			return collect(func(d Deliver) error { return x.Put(as(o), true, Replayed, d) })
		}
	}
	replayRemove := func(o objects.Version) op {
		return func(x *Index) []Change { return collect(func(d Deliver) error { return x.Remove(as(o), Replayed, d) }) }
	}
	unselected := func(o objects.Version) op {
		return func(x *Index) []Change {
			return collect(func(d Deliver) error { return x.Put(as(o), false, Happened, d) })
		}
	}
	pending := func(name, uid string) op {
		return func(x *Index) []Change {
			x.Enter(as(versionOf(named("ns", name), types.UID(uid), "")))
			return nil
		}
	}
	beginList := func(x *Index) []Change { x.BeginList(); return nil }
	endList := func(x *Index) []Change { return collect(func(d Deliver) error { return x.EndList(d) }) }
	distrust := func(x *Index) []Change { x.Distrust(); return nil }

	tests := []struct {
		name, why string
		known     []op
		op        op
		want      string
	}{
		{"first list", "every object is ADDED",
			nil, list(obj("a", "1", "5"), obj("b", "2", "6")), "ADDED, ADDED"},
		{"unchanged", "an unchanged object causes no event",
			[]op{list(obj("a", "1", "5"))}, list(obj("a", "1", "5")), ""},
		{"changed between lists", "one MODIFIED stands for all changes in between",
			[]op{list(obj("a", "1", "5"))}, list(obj("a", "1", "7")), "MODIFIED"},
		{"gone between lists", "each DELETED has the uid and the last version; they come in the order of names",
			[]op{list(obj("d", "4", "6"), obj("b", "2", "6"), obj("c", "3", "6"), obj("a", "1", "5"))}, list(),
			"DELETED a/1@5, DELETED b/2@6, DELETED c/3@6, DELETED d/4@6"},
		{"gone in two lists", "a deletion is reported once",
			[]op{list(obj("a", "1", "5")), list()}, list(), ""},
		{"an object gets a uid", "an object without a uid may be any of its name",
			[]op{list(obj("a", "", "5"))}, list(obj("a", "1", "7")), "MODIFIED"},
		{"an object loses its uid", "an object without a uid may be any of its name",
			[]op{list(obj("a", "1", "5"))}, list(obj("a", "", "7")), "MODIFIED"},
		{"recreated between lists", "DELETED of the first object comes before ADDED of the second",
			[]op{list(obj("a", "1", "5"))}, list(obj("a", "2", "9")), "DELETED a/1@5, ADDED"},
		{"same version, other uid", "the uid decides: a restored etcd can repeat versions",
			[]op{list(obj("a", "1", "5"))}, list(obj("a", "2", "5")), "DELETED a/1@5, ADDED"},
		{"added live, then listed", "the next list knows what the watch has delivered",
			[]op{list(), put(obj("a", "1", "5"))}, list(obj("a", "1", "5")), ""},
		{"a list broke off, then a whole one", "what the broken list has seen does not count",
			[]op{list(obj("a", "1", "5"), obj("b", "2", "6")), brokenList(obj("b", "2", "6"))},
			list(obj("a", "1", "5")), "DELETED b/2@6"},
		{"listed twice", "what the broken list has delivered is not delivered again",
			[]op{brokenList(obj("a", "1", "5"))}, list(obj("a", "1", "5")), ""},

		{"live creation", "a new object is ADDED",
			nil, put(obj("a", "1", "5")), "ADDED"},
		{"live change", "a known object is MODIFIED, even if the server says ADDED",
			[]op{put(obj("a", "1", "5"))}, put(obj("a", "1", "6")), "MODIFIED"},
		{"changed while a list is read", "an object that has just changed exists, so the list's end deletes nothing",
			[]op{list(obj("a", "1", "5")), beginList, replayPut(obj("a", "1", "6"))}, endList, ""},
		{"live replay", "what was delivered is not delivered again",
			[]op{put(obj("a", "1", "5"))}, put(obj("a", "1", "5")), ""},
		{"live, with a pending entry of the name", "the watch will report the end of that object",
			[]op{pending("a", "1")}, put(obj("a", "2", "6")), "ADDED"},
		{"live replacement", "a deletion was missed, or the server has both: a list shows which",
			[]op{put(obj("a", "1", "5"))}, put(obj("a", "2", "6")), "CONTRADICTION"},
		{"live replacement, the list after it", "the deletion comes first",
			[]op{put(obj("a", "1", "5")), put(obj("a", "2", "6"))}, list(obj("a", "2", "6")), "DELETED a/1@5, ADDED"},
		{"live replacement on client-go's fake", "it has only one object of a name",
			[]op{put(obj("a", "1", "5"))}, only(obj("a", "2", "6")), "DELETED a/1@5, ADDED"},
		{"two of a name in a list", "a server of several clusters: the uid decides",
			nil, list(obj("a", "1", "5"), obj("a", "2", "6")), "ADDED, ADDED"},
		{"two of a name in two lists", "neither is gone while the other is listed",
			[]op{list(obj("a", "1", "5"), obj("a", "2", "6"))}, list(obj("a", "1", "5"), obj("a", "2", "7")),
			"MODIFIED"},
		{"two of a name, one is gone", "the list does not have it",
			[]op{list(obj("a", "1", "5"), obj("a", "2", "6"))}, list(obj("a", "2", "6")), "DELETED a/1@5"},
		{"two of a name, and a third", "no event shows that one of them is gone",
			[]op{list(obj("a", "1", "5"), obj("a", "2", "6"))}, put(obj("a", "3", "7")), "ADDED"},
		{"two of a name, and the end of an unknown one", "the same",
			[]op{list(obj("a", "1", "5"), obj("a", "2", "6"))}, remove(obj("a", "3", "7")), ""},
		{"two of a name, one is deleted", "DELETED has its uid",
			[]op{list(obj("a", "1", "5"), obj("a", "2", "6"))}, remove(obj("a", "1", "7")), "DELETED"},
		{"replayed deletion of an object that came back", "it left the selector at 7 and was back at 8",
			[]op{put(obj("a", "1", "8"))}, replayRemove(obj("a", "1", "7")), ""},
		{"replayed deletion, older than the state, without a uid", "it is the end of an earlier object of the name",
			[]op{put(obj("a", "", "5"))}, replayRemove(obj("a", "", "4")), ""},
		{"live deletion", "DELETED has the server's object",
			[]op{put(obj("a", "1", "5"))}, remove(obj("a", "1", "6")), "DELETED"},
		{"deletion of an unknown object", "it was never delivered, or its deletion was",
			nil, remove(obj("a", "1", "6")), ""},
		{"deletion without a uid", "the name decides",
			[]op{put(obj("a", "1", "5"))}, remove(obj("a", "", "6")), "DELETED"},
		{"deletion with a uid, known without one", "the name decides",
			[]op{put(obj("a", "", "5"))}, remove(obj("a", "1", "6")), "DELETED"},
		{"deletion with a uid, known without uid and version",
			"a deletion is reported even if a test double's object got uid and version late",
			[]op{put(obj("a", "", ""))}, remove(obj("a", "1", "6")), "DELETED"},
		{"deletion of an earlier object", "it was reported when the new object came",
			[]op{put(obj("a", "2", "8"))}, remove(obj("a", "1", "7")), ""},
		{"deletion of another object, versions that can't be compared",
			"it is unknown which object ended later, so no deletion is invented",
			[]op{put(obj("a", "2", "x"))}, remove(obj("a", "1", "y")), ""},
		{"replayed deletion of a known object", "some servers send the deletion with the version of the last change",
			[]op{put(obj("a", "1", "5"))}, replayRemove(obj("a", "1", "5")), "DELETED"},
		{"replayed deletion of another object", "a replay proves nothing about the known object",
			[]op{put(obj("a", "2", "8"))}, replayRemove(obj("a", "1", "9")), ""},
		{"replayed deletion of an unknown object", "it was delivered before",
			nil, replayRemove(obj("a", "1", "9")), ""},
		{"replayed change that is newer", "it should have come before: others may be missing, too",
			[]op{put(obj("a", "1", "5"))}, replayPut(obj("a", "1", "6")), "MODIFIED, CONTRADICTION"},
		{"replayed deletion that is newer", "the same",
			[]op{put(obj("a", "1", "5"))}, replayRemove(obj("a", "1", "6")), "DELETED, CONTRADICTION"},
		{"replayed deletion of the same version", "some servers send the version of the last change",
			[]op{put(obj("a", "1", "5"))}, replayRemove(obj("a", "1", "5")), "DELETED"},
		{"newer object that a list has twice", "it changed while the list was read",
			[]op{list(obj("a", "1", "5"))}, listedAgain(obj("a", "1", "6")), "MODIFIED"},
		{"creation of a known object", "it is as it is now, but the watch seems to say what exists",
			[]op{put(obj("a", "1", "5"))}, appear(obj("a", "1", "6")), "MODIFIED, CONTRADICTION"},
		{"creation of an unknown object", "that is what it means",
			[]op{put(obj("b", "1", "5"))}, appear(obj("a", "2", "6")), "ADDED"},
		{"creation of a known object, again", "it was delivered",
			[]op{put(obj("a", "1", "5"))}, appear(obj("a", "1", "5")), ""},
		{"creation that is older than another object of the name", "it is sent again: the name is the other's",
			[]op{list(obj("a", "2", "9"))}, appear(obj("a", "1", "3")), ""},
		{"replayed change that is older", "it was delivered before",
			[]op{put(obj("a", "1", "7"))}, replayPut(obj("a", "1", "6")), ""},
		{"replayed creation of an unknown object",
			"its deletion was delivered, or versions do not grow: a list shows which",
			nil, replayPut(obj("a", "1", "6")), "CONTRADICTION"},
		{"replayed creation of another object",
			"a replay proves nothing about the known object, and the list shows both",
			[]op{put(obj("a", "2", "8"))}, replayPut(obj("a", "1", "9")), "CONTRADICTION"},
		{"deletion of a later object", "the known one, which was before it, may be gone as well",
			[]op{put(obj("a", "1", "5"))}, remove(obj("a", "2", "8")), "CONTRADICTION"},
		{"creation after a deletion", "an object that left the selector and came back is ADDED",
			[]op{put(obj("a", "1", "5")), remove(obj("a", "1", "6"))}, put(obj("a", "1", "7")), "ADDED"},

		{"not selected", "an object that is not selected gets no entry",
			nil, unselected(obj("a", "1", "5")), ""},
		{"no longer selected", "DELETED has the object as it is now",
			[]op{put(obj("a", "1", "5"))}, unselected(obj("a", "1", "6")), "DELETED"},
		{"selected again", "ADDED follows DELETED",
			[]op{put(obj("a", "1", "5")), unselected(obj("a", "1", "6"))}, put(obj("a", "1", "7")), "ADDED"},
		{"deletion of an object that was never selected", "it was never delivered",
			[]op{unselected(obj("a", "1", "5"))}, remove(obj("a", "1", "6")), ""},
		{"replaced by an object that is not selected", "the old one may be gone, and a list shows it",
			[]op{put(obj("a", "1", "5"))}, unselected(obj("a", "2", "6")), "CONTRADICTION"},

		{"acked ahead, then an older change", "the watch resumes before what was acked",
			[]op{list(obj("a", "1", "9"))}, put(obj("a", "1", "7")), ""},
		{"acked ahead, then an older deletion", "it left the selector at 8 and came back at 9",
			[]op{list(obj("a", "1", "9"))}, remove(obj("a", "1", "8")), ""},

		{"pending, listed", "an object that was never acked is ADDED",
			[]op{pending("a", "1")}, list(obj("a", "1", "5")), "ADDED"},
		{"pending, changed", "an object that was never acked is ADDED",
			[]op{pending("a", "1")}, put(obj("a", "1", "5")), "ADDED"},
		{"pending, not in the list", "its ADDED may have been delivered, so its DELETED is",
			[]op{pending("a", "1")}, list(), "DELETED a/1@"},
		{"pending, an earlier deletion", "the watch has not reached the version that was delivered",
			[]op{pending("a", "1")}, remove(obj("a", "1", "4")), ""},
		{"pending, an earlier creation replayed", "the object was delivered after that, or versions do not grow",
			[]op{pending("a", "1")}, replayPut(obj("a", "1", "4")), "CONTRADICTION"},
		{"pending, back, then deleted", "now the watch has reached the version that was delivered",
			[]op{pending("a", "1"), put(obj("a", "1", "5"))}, remove(obj("a", "1", "6")), "DELETED"},
		{"pending, listed and no longer selected", "its ADDED may have been delivered, so its DELETED is",
			[]op{pending("a", "1")}, func(x *Index) []Change {
				return collect(func(d Deliver) error { return x.Put(as(obj("a", "1", "6")), false, Listed, d) })
			}, "DELETED"},
		{"pending, not selected at an earlier version", "the watch resumes before the version that was delivered",
			[]op{pending("a", "1")}, unselected(obj("a", "1", "6")), ""},
		{"two of a name, the old one changes", "the watch resumes before the new object was created",
			[]op{list(obj("a", "1", "5")), pending("a", "2")}, put(obj("a", "1", "6")), "MODIFIED"},
		{"two of a name, the old one is deleted", "the new object is still to come",
			[]op{list(obj("a", "1", "5")), pending("a", "2")}, remove(obj("a", "1", "6")), "DELETED"},
		{"two of a name, the new one is created", "the deletion of the old one was missed",
			[]op{list(obj("a", "1", "5")), pending("a", "2")}, put(obj("a", "2", "7")), "CONTRADICTION"},
		{"two of a name, the new one is listed", "each has its own entry",
			[]op{list(obj("a", "1", "5")), pending("a", "2")}, list(obj("a", "2", "7")), "DELETED a/1@5, ADDED"},
		{"two of a name, the acked one is listed", "the other one is gone, if it does not follow in the list",
			[]op{list(obj("a", "2", "5")), pending("a", "1")}, list(obj("a", "2", "7")), "MODIFIED, DELETED a/1@"},
		{"two of a name, a third is listed", "both are gone",
			[]op{list(obj("a", "1", "5")), pending("a", "2")}, list(obj("a", "3", "9")),
			"DELETED a/1@5, DELETED a/2@, ADDED"},

		{"rewound, unchanged", "the version may be of another state, so the object is MODIFIED",
			[]op{list(obj("a", "1", "5")), distrust}, list(obj("a", "1", "5")), "MODIFIED"},
		{"rewound, listed twice", "it was MODIFIED by the list that broke off",
			[]op{list(obj("a", "1", "5")), distrust, brokenList(obj("a", "1", "5"))}, list(obj("a", "1", "5")), ""},
		{"rewound, gone", "the object was known, so it is DELETED",
			[]op{list(obj("a", "1", "5")), distrust}, list(), "DELETED a/1@5"},
		{"rewound, pending", "an object that was never acked is ADDED",
			[]op{pending("a", "1"), distrust}, list(obj("a", "1", "5")), "ADDED"},

		{"no versions, unchanged", "client-go's fake: a hash takes the place of the version",
			[]op{list(obj("a", "", ""))}, list(obj("a", "", "")), ""},
		{"no versions, changed", "client-go's fake: a hash takes the place of the version",
			[]op{list(obj("a", "", ""))}, list(obj("a", "", "#other")), "MODIFIED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, packed = range []bool{false, true} {
				x := New(nil)
				for _, op := range tt.known {
					op(x)
				}
				if diff := cmp.Diff(tt.want, text(tt.op(x))); diff != "" {
					t.Errorf("packed: %v, %s (-want +got):\n%s", packed, tt.why, diff)
				}
			}
		})
	}
}

// The changes after an error of deliver are not made, and delivered the next time.
func TestFirstErrorEndsTheChanges(t *testing.T) {
	x, left := New(nil), errors.New("left")
	x.Put(obj("a", "1", "5"), true, Listed, nil)
	x.BeginList()
	var first []Change
	leave := func(c Change) error {
		first = append(first, c)
		return left
	}
	if err := x.Put(obj("a", "2", "6"), true, Listed, leave); err != left {
		t.Errorf("Put returns %v, want the error of deliver", err)
	}
	if diff := cmp.Diff("DELETED a/1@5", text(first)); diff != "" {
		t.Errorf("delivered first (-want +got):\n%s", diff)
	}
	if x.Has(obj("a", "1", "5").ID) {
		t.Error("a DELETED was delivered, but its entry is still there")
	}
	again := collect(func(d Deliver) error { return x.Put(obj("a", "2", "6"), true, Listed, d) })
	if diff := cmp.Diff("ADDED", text(again)); diff != "" {
		t.Errorf("the ADDED of the new object was not delivered yet (-want +got):\n%s", diff)
	}

	x.Put(obj("b", "1", "7"), true, Listed, nil)
	x.BeginList()
	if err := x.EndList(leave); err != left {
		t.Errorf("EndList returns %v, want the error of deliver", err)
	}
	if !x.Has(obj("b", "1", "7").ID) || x.Len() != 1 {
		t.Error("want an entry for b only, whose DELETED was not delivered")
	}
}

// collect returns the changes that f delivers, and at last whether it met a contradiction.
func collect(f func(Deliver) error) (all []Change) {
	err := f(func(c Change) error {
		all = append(all, c)
		return nil
	})
	if errors.As(err, new(*Contradiction)) {
		all = append(all, Change{Kind: "CONTRADICTION"})
	}
	return all
}

// HasName finds every entry whose deletion may have to be reported.
func TestHasNameFindsWhatMayBeDeleted(t *testing.T) {
	const uid = "0f3c1f1e-8a55-4a3e-9c11-5a1d0a6a1b2c"
	enter := func(name string, uid types.UID) func(*Index) {
		return func(x *Index) { x.Enter(versionOf(named("ns", name), uid, "5")) }
	}
	for _, tt := range []struct {
		why  string
		x    func(*Index)
		want bool
	}{
		{"an empty index", func(*Index) {}, false},
		{"a packed entry", enter("a", uid), true},
		{"an entry whose uid can't be packed", enter("a", "odd"), true},
		{"an entry of another name", enter("b", uid), false},
		{"a plain entry of another name", enter("b", "odd"), false},
		{"a pending entry", func(x *Index) { x.Enter(versionOf(named("ns", "a"), uid, "")) }, true},
	} {
		x := New(nil)
		tt.x(x)
		if got := x.HasName([]byte("ns"), []byte("a")); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.why, got, tt.want)
		}
		if x.HasName([]byte("other"), []byte("a")) {
			t.Errorf("%s: found in another namespace", tt.why)
		}
	}
}
