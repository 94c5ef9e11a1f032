package checkpoint_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// kept is what a Store has after steps on the marks of these events, each told
// live: "+a@5" that a exists, "-a@6" that it does not.
func kept(t *testing.T, events []string, steps func(marks map[string]*checkpoint.Mark)) (version string, objects map[string]string, st checkpoint.Status) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := tracker.Begin(t.Context(), "k", checkpoint.Identity{Resource: "widgets", Objects: true})
		if err != nil {
			t.Fatal(err)
		}
		p := s.Progress("")
		p.Mark("1", false).Ack() // SYNCED
		marks := map[string]*checkpoint.Mark{}
		for _, ev := range events {
			o := checkpoint.Object{Name: ev[1:2], UID: types.UID(ev[1:2]), ResourceVersion: ev[3:]}
			switch ev[0] {
			case '+':
				if err := p.Ahead(t.Context(), []checkpoint.Object{o}); err != nil {
					t.Fatal(err)
				}
				p.Note(checkpoint.Change{Object: o})
			case '~':
				p.Note(checkpoint.Change{Object: o})
			case '-':
				p.Note(checkpoint.Change{Object: o, Gone: true})
			}
			marks[ev] = p.Mark(ev[3:], false)
		}
		steps(marks)
		st = s.Status()
		s.End()
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := store.Load(t.Context(), "k")
		if err != nil || c == nil {
			t.Fatalf("nothing is kept: %v", err)
		}
		version, objects = c.Position.ResourceVersions[""], map[string]string{}
		for _, o := range c.Position.Objects {
			what := o.ResourceVersion
			if o.Unacked {
				what += " unacked"
			}
			if others, ok := objects[o.Name]; ok {
				what = others + ", " + what
			}
			objects[o.Name] = what
		}
	})
	return version, objects, st
}

// TestUndoIsWritten: what was written ahead and then is not told is taken back, also
// if nothing else is acked.
func TestUndoIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		tracker := newTracker(t, store, nil)
		p := begin(t, tracker, widgets()).Progress("")
		p.Mark("1", false).Ack()
		p.Mark("2", false) // stays as it is
		o := checkpoint.Object{Name: "a", UID: "a", ResourceVersion: "3"}
		if err := p.Ahead(t.Context(), []checkpoint.Object{o}); err != nil {
			t.Fatal(err)
		}
		p.Note(checkpoint.Change{Object: o})
		added := p.Mark("3", false)
		if diff := cmp.Diff("1 !a:a@3", saved(t, store)); diff != "" {
			t.Errorf("it is about to be told (-want +got):\n%s", diff)
		}
		p.Note(checkpoint.Change{Object: o, Gone: true})
		p.Mark("4", false).Undo(added)
		time.Sleep(time.Minute)
		if diff := cmp.Diff("1", saved(t, store)); diff != "" {
			t.Errorf("it never will be (-want +got):\n%s", diff)
		}
		if err := tracker.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestUndoLeavesGhosts: an earlier run was about to tell of an object, which is gone
// and comes back and goes again. If that is not told, its first end still has to be
// acked, or to be told again.
func TestUndoLeavesGhosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		object := func(rv string) checkpoint.Object {
			return checkpoint.Object{Name: "a", UID: "a", ResourceVersion: rv}
		}
		tracker := newTracker(t, store, nil)
		p := begin(t, tracker, widgets()).Progress("")
		p.Mark("1", false).Ack()
		if err := p.Ahead(t.Context(), []checkpoint.Object{object("5")}); err != nil {
			t.Fatal(err)
		}
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}

		tracker = newTracker(t, store, nil)
		p = begin(t, tracker, widgets()).Progress("")
		ghost := object("5")
		ghost.Unacked = true
		p.Note(checkpoint.Change{Object: ghost, Gone: true})
		end := p.Mark("6", false)
		for _, back := range []string{"7", "9"} {
			if err := p.Ahead(t.Context(), []checkpoint.Object{object(back)}); err != nil {
				t.Fatal(err)
			}
			p.Note(checkpoint.Change{Object: object(back)})
			added := p.Mark(back, false)
			p.Note(checkpoint.Change{Object: object(back), Gone: true})
			p.Mark(back+"0", false).Undo(added)
			time.Sleep(time.Minute)
			if diff := cmp.Diff("1 !a:a@5", saved(t, store)); diff != "" {
				t.Errorf("that it was gone at 6 has not been acked (-want +got):\n%s", diff)
			}
		}
		end.Ack()
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("90", saved(t, store)); diff != "" {
			t.Errorf("everything has been acked (-want +got):\n%s", diff)
		}
	})
}

// TestUndoOfWhatWaits: what came in a snapshot, where its ADDED waits for the end of
// another one of that name, and came and went since, is as if it had never been.
func TestUndoOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		tracker := newTracker(t, store, nil)
		s := begin(t, tracker, widgets())
		p := s.Progress("")
		object := func(uid types.UID, rv string) checkpoint.Object {
			return checkpoint.Object{Name: "a", UID: uid, ResourceVersion: rv}
		}
		added := func(o checkpoint.Object, rv string) *checkpoint.Mark {
			if err := p.Ahead(t.Context(), []checkpoint.Object{o}); err != nil {
				t.Fatal(err)
			}
			p.Note(checkpoint.Change{Object: o})
			return p.Mark(rv, false)
		}
		gone := func(o checkpoint.Object, rv string) *checkpoint.Mark {
			p.Note(checkpoint.Change{Object: o, Gone: true})
			return p.Mark(rv, false)
		}
		added(object("t", "1"), "1").Ack()
		p.Mark("1", false).Ack() // SYNCED
		gap := p.Mark("1", false)
		p.Pass("", false)
		end := gone(object("t", "1"), "")
		added2 := added(object("u", "2"), "")
		synced := p.Mark("3", false)
		gone4 := gone(object("u", "4"), "4")
		added5 := added(object("u", "5"), "5")
		added5.CoverNew(gone4) // SYNCED stands before them
		gone6 := gone(object("u", "6"), "6")
		gone6.Cover(added5)
		synced.Void() // another GAP has come
		gone6.Undo(added2)
		gap.Ack()
		end.Ack()
		if n := s.Status().Unacked; n != 0 {
			t.Errorf("all is acked, and %d wait", n)
		}
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("6", saved(t, store)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestCover(t *testing.T) {
	type marks = map[string]*checkpoint.Mark
	tests := []struct {
		events  []string
		steps   func(marks)
		version string
		objects map[string]string
		unacked int
		why     string
	}{
		{[]string{"+a@2", "~a@3", "~a@4"}, func(m marks) { m["+a@2"].Ack(); m["~a@4"].Cover(m["~a@3"]) },
			"3", map[string]string{"a": "2"}, 1, "a is as it was told; that it has changed comes with 4"},
		{[]string{"+a@2", "~a@3", "~a@4"}, func(m marks) { m["+a@2"].Ack(); m["~a@4"].Cover(m["~a@3"]); m["~a@4"].Ack() },
			"4", map[string]string{"a": "4"}, 0, "an ack covers both"},
		{[]string{"+a@2", "+b@3", "~a@4"}, func(m marks) { m["~a@4"].CoverNew(m["+a@2"]); m["+b@3"].Ack() },
			"1", map[string]string{"a": "2 unacked", "b": "3 unacked"}, 3, "at 3 there was an a: nothing goes past it"},
		{[]string{"+a@2", "+b@3", "~a@4", "~a@5"}, func(m marks) {
			m["~a@4"].CoverNew(m["+a@2"])
			m["~a@5"].CoverNew(m["~a@4"])
			m["+b@3"].Ack()
			m["~a@5"].Ack()
		}, "5", map[string]string{"a": "5", "b": "3"}, 0, "of any number the first holds back, until the last is acked"},
		{[]string{"+a@2", "+b@3", "+c@4", "~a@5", "~a@6"}, func(m marks) {
			m["~a@5"].CoverNew(m["+a@2"])
			m["~a@6"].CoverNew(m["~a@5"])
			m["+b@3"].Ack()
			m["~a@6"].Ack()
		}, "3", map[string]string{"a": "2", "b": "3", "c": "4 unacked"}, 2, "it is acked ahead of another: at 3 there was an a all the same"},
		{[]string{"+a@2", "-a@3", "+b@4", "+c@5", "+a@6", "~a@7"}, func(m marks) {
			m["+a@2"].Ack()
			m["+a@6"].CoverNew(m["-a@3"])
			m["~a@7"].Cover(m["+a@6"])
			m["+b@4"].Ack()
		}, "2", map[string]string{"a": "2, 6 unacked", "b": "4 unacked", "c": "5 unacked"}, 5, "it went and came back: nothing goes past that"},
		{[]string{"+a@2", "-a@3", "+b@4", "+c@5", "+a@6", "~a@7"}, func(m marks) {
			m["+a@2"].Ack()
			m["+a@6"].CoverNew(m["-a@3"])
			m["~a@7"].Cover(m["+a@6"])
			m["+b@4"].Ack()
			m["~a@7"].Ack()
		}, "4", map[string]string{"a": "6 unacked", "b": "4", "c": "5 unacked"}, 3, "at 4 it was gone"},
		{[]string{"+a@2", "-a@3", "+b@4", "+a@5", "+c@6", "~a@7"}, func(m marks) {
			m["+a@2"].Ack()
			m["+a@5"].CoverNew(m["-a@3"])
			m["~a@7"].Cover(m["+a@5"])
			m["+b@4"].Ack()
			m["~a@7"].Ack()
		}, "5", map[string]string{"a": "5", "b": "4", "c": "6 unacked"}, 2, "at 5 it was back"},
		{[]string{"+a@2", "+b@3", "-a@4", "+c@5", "+a@6", "~a@7"}, func(m marks) {
			m["-a@4"].CoverNew(m["+a@2"])
			m["+a@6"].CoverNew(m["-a@4"])
			m["~a@7"].Cover(m["+a@6"])
			m["+b@3"].Ack()
		}, "3", map[string]string{"a": "6 unacked", "b": "3", "c": "5 unacked"}, 4, "what came and went is held by nothing, and what came back is"},
		{[]string{"+a@2", "-a@3", "+b@4", "+a@5", "-a@6", "+c@7", "+a@8", "-a@9"}, func(m marks) {
			m["+a@2"].Ack()
			m["+a@5"].CoverNew(m["-a@3"])
			m["-a@6"].Cover(m["+a@5"])
			m["+a@8"].CoverNew(m["-a@6"])
			m["-a@9"].Cover(m["+a@8"])
			m["+b@4"].Ack()
			m["-a@9"].Ack()
			m["+c@7"].Ack()
		}, "9", map[string]string{"b": "4", "c": "7"}, 0, "it has gone and come back any number of times"},
		// What a GAP or a SYNCED parted is merged when that has gone: the older one comes last.
		{[]string{"+a@2", "-a@3", "+a@4", "~a@5", "+b@6"}, func(m marks) {
			m["+a@2"].Ack()
			m["~a@5"].CoverNew(m["+a@4"])
			m["~a@5"].CoverNew(m["-a@3"])
			m["~a@5"].Ack()
			m["+b@6"].Ack()
		}, "6", map[string]string{"a": "5", "b": "6"}, 0, "an older end comes last, and is acked"},
		{[]string{"+a@2", "~a@3", "-a@4", "+a@5", "+b@6"}, func(m marks) {
			m["+a@2"].Ack()
			m["+a@5"].CoverNew(m["-a@4"])
			m["+a@5"].Cover(m["~a@3"])
			m["+a@5"].Ack()
			m["+b@6"].Ack()
		}, "6", map[string]string{"a": "5", "b": "6"}, 0, "an older change comes last"},
		{[]string{"+a@2", "-a@3", "+a@4", "-a@5", "+b@6"}, func(m marks) {
			m["+a@4"].CoverNew(m["-a@3"])
			m["-a@5"].Cover(m["+a@4"])
			m["-a@5"].Undo(m["+a@2"])
			m["+b@6"].Ack()
		}, "6", map[string]string{"b": "6"}, 0, "an older beginning comes last, so that nothing has been"},
		{[]string{"+a@2", "-a@3", "+a@4", "-a@5", "+a@6", "+b@7", "~a@8"}, func(m marks) {
			m["+a@2"].Ack()
			m["~a@8"].CoverNew(m["+a@6"])
			m["+a@4"].CoverNew(m["-a@3"])
			m["-a@5"].Cover(m["+a@4"])
			m["~a@8"].CoverNew(m["-a@5"])
			m["~a@8"].Ack()
		}, "6", map[string]string{"a": "6", "b": "7 unacked"}, 2, "both stand for others"},
		{[]string{"+b@2", "+a@3", "-a@4"}, func(m marks) { m["-a@4"].Undo(m["+a@3"]); m["+b@2"].Ack() },
			"4", map[string]string{"b": "2"}, 0, "what came and went is as if it had never been"},
		{[]string{"+b@2", "+a@3", "~a@4", "-a@5"}, func(m marks) { m["~a@4"].CoverNew(m["+a@3"]); m["-a@5"].Undo(m["~a@4"]); m["+b@2"].Ack() },
			"5", map[string]string{"b": "2"}, 0, "what had changed in between, too"},
		{[]string{"+b@2", "+a@3", "-a@4", "+a@5", "-a@6"}, func(m marks) { m["-a@6"].Undo(m["+a@5"]); m["+b@2"].Ack() },
			"2", map[string]string{"a": "3 unacked", "b": "2"}, 2, "but what had been told before may have been handled"},
		{[]string{"+b@2", "+a@3", "-a@4", "+a@5", "-a@6", "+a@7", "-a@8"}, func(m marks) {
			m["-a@6"].Undo(m["+a@5"])
			m["-a@8"].Undo(m["+a@7"])
			m["+b@2"].Ack()
		}, "2", map[string]string{"a": "3 unacked", "b": "2"}, 2, "however often"},
		{[]string{"+b@2", "+a@3", "-a@4", "+a@5", "-a@6"}, func(m marks) {
			m["-a@6"].Undo(m["+a@5"])
			m["+b@2"].Ack()
			m["+a@3"].Ack()
			m["-a@4"].Ack()
		}, "6", map[string]string{"b": "2"}, 0, "until its end is acked"},
		{[]string{"+a@2", "-a@3"}, func(m marks) { m["-a@3"].Undo(m["+a@2"]) },
			"3", map[string]string{}, 0, "with nothing before it"},
		{[]string{"+a@2", "~a@3"}, func(m marks) {
			m["~a@3"].Cover(nil)
			m["~a@3"].Undo(m["~a@3"])
			(*checkpoint.Mark)(nil).Cover(m["+a@2"])
			(*checkpoint.Mark)(nil).Void()
		},
			"1", map[string]string{"a": "2 unacked"}, 2, "nothing covers nothing"},
		{[]string{"+b@2", "=x@3", "=x@4"}, func(m marks) { m["=x@3"].Void(); m["=x@4"].Void(); m["+b@2"].Ack() },
			"4", map[string]string{"b": "2"}, 0, "bookmarks that are not told"},
		{[]string{"+a@2", "~a@3"}, func(m marks) { m["+a@2"].Ack(); m["~a@3"].Ack(); m["~a@3"].Cover(m["+a@2"]); m["~a@3"].Void() },
			"3", map[string]string{"a": "3"}, 0, "what is acked is acked"},
	}
	for _, tt := range tests {
		version, objects, st := kept(t, tt.events, tt.steps)
		if diff := cmp.Diff(tt.objects, objects); diff != "" || version != tt.version || st.Unacked != tt.unacked {
			t.Errorf("%s: at %s, %d unacked, want %s, %d (-want +got):\n%s", tt.why, version, st.Unacked, tt.version, tt.unacked, diff)
		}
	}
}
