package acks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// The entry has a version once its object is acked.
func TestWrittenAheadEntryHasNoVersion(t *testing.T) {
	const synced = "snapshot a:1@3 synced@9 ack 0-1 "
	for _, tc := range []struct {
		name, first, script string
		want                string
		why                 string
	}{
		{"not acked", "", "snapshot +a:1@3 a:1@3", "- !a:1", "the program may have handled it"},
		{"not even delivered", "", "snapshot +a:1@3", "- !a:1",
			"the program may have been killed right after delivery"},
		{"acked", "", "snapshot +a:1@3 a:1@3 synced@9 ack 0-1", "9 a:1@3", "the version is known once it is acked"},
		{"acked in the next run", "snapshot +a:1@5", "snapshot a:1@5 ack 0", "- a:1@5", "it was delivered again"},
		{"acked in the next run, changed", "snapshot +a:1@5", "snapshot a:1@7 ack 0", "- a:1@7",
			"it was delivered again"},
		{"deleted", "snapshot +a:1@5", "snapshot -a:1 synced@9 ack 0-1", "9", "its deletion is acked"},
		{"deleted, not acked", "snapshot +a:1@5", "snapshot -a:1 synced@9", "- !a:1",
			"the next run has to report its deletion"},
		{"two of a name", "snapshot +a:1@3 +a:2@5", "snapshot a:2@5 ack 0", "- !a:1 a:2@5", "each has its own entry"},
		{"two of a name, one deleted", "snapshot a:1@3 ack 0 +a:2@5", "snapshot -a:2 synced@9 ack 0-1", "9 a:1@3",
			"the entry of the first one is unchanged"},

		{"deleted after an ack", "", synced + "-a:1@10 ack 2", "10", "it has no entry any more"},
		{"deleted and back, nothing acked", "", synced + "-a:1@10 +a:1@11 a:1@11", "9 a:1@3", "it was handled at 3"},
		{"deleted and back, its DELETED acked", "", synced + "-a:1@10 +a:1@11 a:1@11 ack 2", "10 !a:1",
			"it may have been handled again"},
		{"deleted and about to be back, its DELETED acked", "", synced + "-a:1@10 +a:1@11 ack 2", "10 !a:1",
			"it is about to be delivered"},
		{"about to be back, its DELETED acked", "", synced + "+a:1@11 -a:1@10 ack 2", "10 !a:1",
			"it is about to be delivered"},
		{"in the next run", "snapshot a:1@3 synced@9 ack 0-1", "+b:2@10", "9 a:1@3 !b:2", "the version stays"},
		{"deleted, acked, and about to be back", "", synced + "-a:1@10 ack 2 +a:1@11", "10 !a:1",
			"it is about to be delivered"},
		{"deleted and back, all acked", "", synced + "-a:1@10 +a:1@11 a:1@11 ack 2-3", "11 a:1@11",
			"it was handled again"},
		{"deleted twice", "", synced + "-a:1@10 +a:1@11 a:1@11 -a:1@12 ack 2-3", "11 a:1@11",
			"its second DELETED is not acked"},
		{"deleted twice, acked", "", synced + "-a:1@10 +a:1@11 a:1@11 -a:1@12 ack 2-4", "12",
			"it has no entry any more"},
		{"another object of the name", "", synced + "-a:1@10 +a:2@11 a:2@11 ack 2", "10 !a:2",
			"each has its own entry"},

		{"deferred", "", "defer after@9 +a:1@10", "nothing", "nothing is committed before the first ack"},
		{"deferred, then begun", "", "defer after@9 synced@9 +a:1@10 +b:2@11 a:1@10 ack 0-1", "10 a:1@10 !b:2",
			"the ack of the first takes the place of its entry"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, tc.first, nil, tc.script, tc.want, tc.why) })
	}
}

// TestCoalesce: package mux delivers the newest event of an object in the place of the oldest one. Each pair has the
// numbers of two marks.
func TestCoalesce(t *testing.T) {
	const synced = "snapshot a:1@3 synced@9 ack 0-1 " // the marks 0 and 1
	for _, tc := range []struct {
		name, script string
		coalesce     [][2]int
		cancel       [][2]int
		acks         string
		want         string
		why          string
	}{
		{"acked in its place", synced + "a:1@10 b:2@11 a:1@12", [][2]int{{2, 4}}, nil, "ack 2", "10 a:1@12",
			"b is not acked"},
		{"acked, and all before it", synced + "a:1@10 b:2@11 a:1@12", [][2]int{{2, 4}}, nil, "ack 2-3",
			"12 a:1@12 b:2@11", "nothing waits"},
		{"not acked", synced + "a:1@10 b:2@11 a:1@12", [][2]int{{2, 4}}, nil, "ack 3", "9 a:1@3",
			"the mark waits at the older place"},
		{"several", synced + "a:1@10 a:1@11 a:1@12 b:2@13", [][2]int{{2, 3}, {2, 4}}, nil, "ack 2", "12 a:1@12",
			"they are one event"},
		{"deleted", synced + "b:2@10 a:1@11 c:3@12 -a:1@13", [][2]int{{3, 5}}, nil, "ack 2-3", "11 b:2@10",
			"a is deleted, c is not acked"},
		{"created and deleted", synced + "+b:2@10 b:2@10 c:3@11 -b:2@12", nil, [][2]int{{2, 4}}, "ack 3",
			"12 a:1@3 c:3@11",
			"b leaves no entry"},
		{"created and deleted, not acked", synced + "c:3@10 +b:2@11 b:2@11 -b:2@12", nil, [][2]int{{3, 4}}, "",
			"9 a:1@3",
			"the entry that was written ahead is removed"},
		{"created and deleted before a GAP", synced + "c:3@10 +b:2@11 b:2@11 -b:2@12 gap", nil, [][2]int{{3, 4}},
			"ack 2", "12 a:1@3 c:3@10", "GAP is not acked"},
		{"deleted, created and deleted", synced + "-a:1@10 +a:1@11 a:1@11 -a:1@12", nil, [][2]int{{3, 4}}, "",
			"9 a:1@3",
			"its first DELETED is not acked"},
		{"deleted, created and deleted, acked", synced + "-a:1@10 +a:1@11 a:1@11 -a:1@12", nil, [][2]int{{3, 4}},
			"ack 2", "12",
			"it has no entry any more"},
		{"created, changed and deleted", synced + "+b:2@10 b:2@10 b:2@11 -b:2@12", [][2]int{{2, 3}}, [][2]int{{2, 4}},
			"",
			"12 a:1@3", "all of its events cancel out"},
		{"within a snapshot", "snapshot b:2@1 a:1@3 c:3@4 a:1@5 synced@9", [][2]int{{1, 3}}, nil, "ack 1", "- a:1@5",
			"objects of a snapshot count in any order"},
		{"around a bookmark", synced + "a:1@10 bookmark@11 a:1@12 bookmark@13 b:2@14", [][2]int{{2, 3}}, nil, "ack 2",
			"13 a:1@12", "everything up to it is acked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			tracker := newTracker(t, s, nil)
			fd := newFeeder(t, begin(t, tracker, widgets())).run(tc.script)
			for _, m := range tc.coalesce {
				acks.Coalesce(fd.marks[m[0]], fd.marks[m[1]])
			}
			for _, m := range tc.cancel {
				acks.Cancel(fd.marks[m[0]], fd.marks[m[1]])
			}
			fd.run(tc.acks)
			flush(t, tracker)
			isSaved(t, s, tc.want, tc.why)
		})
	}
}

// Without writing ahead, the first object waits until the Store has the position as Unclean.
func TestFirstObjectWaitsForUnclean(t *testing.T) {
	s := newStore()
	for _, tc := range []struct {
		store checkpoint.Store
		opts  checkpoint.Options
		want  string
		acked string // what is saved once the object is acked
		why   string
	}{
		{s, checkpoint.Options{NoWriteAhead: true}, "- unclean", "- unclean a:1@3", "the option"},
		{positionsOnly{s}, checkpoint.Options{}, "- partial unclean", "- partial unclean", "a Store without objects"},
	} {
		s.commits = 0
		tracker := newTracker(t, tc.store, &tc.opts)
		fd := newFeeder(t, begin(t, tracker, widgets()))
		noError(t, fd.session.Progress("").WriteAhead(t.Context(), nil))
		isSaved(t, s, "nothing", "no object is about to be delivered")
		fd.run("snapshot +a:1@3")
		isSaved(t, s, tc.want, tc.why) // before the first is delivered
		if fd.run("+b:1@4"); s.commits != 1 {
			t.Errorf("%s: %d commits, want one for all objects", tc.why, s.commits)
		}
		fd.run("a:1@3 ack 0")
		flush(t, tracker)
		isSaved(t, s, tc.acked, tc.why)
		noError(t, s.Delete(t.Context(), key))
	}
}

// positionsOnly is a Store that keeps no objects.
type positionsOnly struct{ *store }

func (positionsOnly) PositionsOnly() {}

// Without writing ahead, the first object of each namespace waits until the Store has the position as Unclean.
func TestEachNamespaceWaitsForUnclean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.hinder(func(context.Context) error { time.Sleep(time.Second); return nil })
		tracker := newTracker(t, s, &checkpoint.Options{NoWriteAhead: true, Interval: time.Hour})
		session := begin(t, tracker, widgets("x", "y"))
		for _, namespace := range []string{"x", "y"} {
			go func() {
				ids := []objects.ID{{Namespace: namespace, Name: "a", UID: "1"}}
				err := session.Progress(namespace).WriteAhead(t.Context(), ids)
				if err != nil || s.count() == 0 {
					t.Errorf("%s: %v, after %d commits", namespace, err, s.count())
				}
			}()
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		if session.Progress("x").WritesAhead() {
			t.Error("the position is committed as Unclean twice")
		}
		s.heal()
	})
}

func TestEventsOfTwoSessionsAreNotCoalesced(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, nil)
	first := newFeeder(t, begin(t, tracker, widgets())).run("snapshot +a:1@3 a:1@3")
	first.session.End()
	second := newFeeder(t, begin(t, tracker, widgets())).run("snapshot a:1@4")
	if older, newer := first.marks[0], second.marks[0]; acks.Coalesce(older, newer) || acks.Cancel(older, newer) {
		t.Error("marks of two sessions were coalesced or canceled")
	}
	second.run("synced@9").ackAll()
	flush(t, tracker)
	isSaved(t, s, "9 a:1@4", "in the store")
}

func TestAckedEventIsNotCoalesced(t *testing.T) {
	fd := newFeeder(t, begin(t, newTracker(t, newStore(), nil), widgets())).run("snapshot a:1@3 a:1@4 a:1@5 ack 1")
	for _, pair := range [][2]int{{0, 1}, {1, 2}} {
		older, newer := fd.marks[pair[0]], fd.marks[pair[1]]
		if acks.Coalesce(older, newer) || acks.Cancel(older, newer) {
			t.Errorf("the marks %v were coalesced or canceled, and 1 is acked", pair)
		}
	}
}

// TestWriteAheadIsRetried: after a failed commit the next one has the entries, as they have become meanwhile.
func TestWriteAheadIsRetried(t *testing.T) {
	for _, tc := range []struct {
		name, before, during, after string
		want                        string
		why                         string
	}{
		{"nothing meanwhile", "+a:1@3 a:1@3", "", "", "- !a:1", "it is not written yet"},
		{"acked meanwhile", "+a:1@3 a:1@3", "ack 0", "", "- a:1@3", "the acked version takes the place of the entry"},
		{"acked afterwards", "+a:1@3 a:1@3", "", "ack 0", "- a:1@3", "the acked version takes the place of the entry"},
		{"deleted meanwhile", "+a:1@3 a:1@3", "-a:1 ack 0-1", "", "-", "an older entry must not take its place"},
		{"deleted and back meanwhile", "+a:1@3 a:1@3", "-a:1 ack 0-1 +a:1@5", "", "- !a:1",
			"it is about to be delivered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			tracker := newTracker(t, s, &checkpoint.Options{Interval: time.Hour})
			fd := newFeeder(t, begin(t, tracker, widgets())).run("snapshot")
			s.fail(errNoSpace)
			fd.run(tc.before)
			s.hinder(func(context.Context) error { fd.run(tc.during); return errNoSpace })
			if err := tracker.Flush(t.Context()); !errors.Is(err, errNoSpace) {
				t.Errorf("%v, want the Store's error", err)
			}
			fd.run(tc.after)
			s.heal()
			flush(t, tracker)
			isSaved(t, s, tc.want, tc.why)
		})
	}
}

// Concurrent callers share the failure of a commit, too.
func TestConcurrentWriteAheadsShareACommit(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail error
		want int
		why  string
	}{
		{"succeeding", nil, 2, "one commit was under way, and one is for all later callers"},
		{"failing", errNoSpace, 1, "no caller waits for a second attempt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, attempts := newStore(), 0
				session := begin(t, newTracker(t, s, &checkpoint.Options{Interval: time.Hour}), widgets())
				s.hinder(func(context.Context) error {
					attempts++
					session.Progress("").Pass(fmt.Sprint(attempts), false) // which no event waits for
					time.Sleep(time.Second)
					return tc.fail
				})
				began := time.Now()
				for _, name := range []string{"a", "b", "c", "d"} {
					ids := []objects.ID{{Name: name, UID: "1"}}
					go session.Progress("").WriteAhead(t.Context(), ids)
					synctest.Wait()
				}
				pass(time.Duration(tc.want)*time.Second + time.Millisecond)
				if attempts != tc.want {
					t.Errorf("%d commits after %v, want %d: %s", attempts, time.Since(began), tc.want, tc.why)
				}
				s.heal()
			})
		})
	}
}

// Other commits fail meanwhile.
func TestHangingRetryDelaysNoWriteAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.fail(errNoSpace)
		fd := live(t, newTracker(t, s, nil))
		time.Sleep(5 * time.Second)
		hangs := make(chan struct{})
		s.hinder(func(ctx context.Context) error {
			close(hangs)
			<-ctx.Done()
			s.heal()
			return ctx.Err()
		})
		<-hangs
		began := time.Now()
		fd.run("+a:1@10")
		if waited := time.Since(began); waited > 0 {
			t.Errorf("WriteAhead waited %v", waited)
		}
		pass(time.Minute)
	})
}

// Stopping a Stream while it writes ahead is not a failure of the Store.
func TestStopDuringWriteAheadIsNoFailure(t *testing.T) {
	s := newStore()
	session := begin(t, newTracker(t, s, nil), widgets())
	ctx, stop := context.WithCancel(t.Context())
	s.hinder(func(ctx context.Context) error { stop(); return ctx.Err() })
	session.Progress("").WriteAhead(ctx, []objects.ID{{Name: "a", UID: "1"}})
	if err := session.Status().Err; err != nil {
		t.Errorf("Status.Err is %v", err)
	}
	isSaved(t, s, "- !a:1", "in the store")
}

// The Stream waits for the commit of another one.
func TestStopBeforeWriteAheadIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.hinder(func(context.Context) error { time.Sleep(time.Second); return nil })
		session := begin(t, newTracker(t, s, nil), widgets("x", "y"))
		go newFeeder(t, session).run("x/+a:1@3")
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errTired)
		defer cancel()
		ids := []objects.ID{{Namespace: "y", Name: "a", UID: "1"}}
		if err := session.Progress("y").WriteAhead(ctx, ids); !errors.Is(err, errTired) {
			t.Errorf("%v, want the cause of its ctx", err)
		}
		if err := session.Status().Err; err != nil {
			t.Errorf("Status.Err is %v", err)
		}
		time.Sleep(time.Minute)
	})
}

// Without writing ahead, the position has every object only if the run ended with everything acked.
func TestUncleanUnlessEndedWithEverythingAcked(t *testing.T) {
	const delivered = "snapshot a:1@3 synced@9 ack 0-1"
	for _, tc := range []struct {
		name, script, later string
		end                 any // whether it ends; or "during" the first commit
		want                string
		why                 string
	}{
		{"ended during a commit", delivered, "", "during", "9 a:1@3", "that commit has the position as unclean"},
		{"running", delivered, "", false, "9 unclean a:1@3", "more may be delivered before it is killed"},
		{"ended", delivered, "", true, "9 a:1@3", "nothing more is delivered"},
		{"ended before anything", "", "", true, "nothing", "there is nothing to commit"},
		{"ended before an ack", delivered + " b:2@10", "", true, "9 unclean a:1@3", "b was delivered"},
		{"acked after the end", delivered + " b:2@10", "ack 2", true, "10 a:1@3 b:2@10", "every event is acked"},
		{"one not acked after the end", delivered + " b:2@10 c:3@11", "ack 2", true, "10 unclean a:1@3 b:2@10",
			"c was delivered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			tracker := newTracker(t, s, &checkpoint.Options{NoWriteAhead: true, Interval: time.Hour})
			fd := newFeeder(t, begin(t, tracker, widgets())).run(tc.script)
			if tc.end == "during" {
				s.hinder(func(context.Context) error { s.heal(); fd.session.End(); return nil })
			}
			flush(t, tracker)
			if tc.end == true {
				fd.session.End()
			}
			flush(t, tracker)
			fd.run(tc.later)
			flush(t, tracker)
			isSaved(t, s, tc.want, tc.why)
		})
	}
}
