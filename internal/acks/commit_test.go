package acks_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

// tellMany tells and acks live events of n objects, the first of which is number from.
func tellMany(l *teller, from, n int) {
	for i := from; i < from+n; i++ {
		l.run(fmt.Sprintf("o%d:%d@%d ack %d", i, i, 100+i, len(l.marks)))
	}
}

// live begins a sequence that has been told and has acked an empty snapshot.
func live(t *testing.T, tracker *checkpoint.Tracker) *teller {
	return newTeller(t, begin(t, tracker, widgets())).run("snapshot synced@9 ack 0")
}

// When acks are committed, and how many at a time.
func TestCommitBatches(t *testing.T) {
	type at struct {
		After time.Duration
		Saved string
	}
	for _, tc := range []struct {
		name string
		opts checkpoint.Options
		tell func(l *teller)
		want []at
		why  string
	}{
		{"after a second", checkpoint.Options{}, func(l *teller) { l.run("a:1@10 ack 1") },
			[]at{{999 * time.Millisecond, "nothing"}, {time.Second, "10 a:1@10"}}, "the default interval"},
		{"what came meanwhile", checkpoint.Options{}, func(l *teller) {
			l.run("a:1@10 ack 1")
			time.Sleep(900 * time.Millisecond)
			l.run("b:2@11 ack 2")
		}, []at{{999 * time.Millisecond, "nothing"}, {time.Second, "11 a:1@10 b:2@11"}}, "the interval begins with the first ack"},
		{"after the interval", checkpoint.Options{Interval: time.Minute}, func(l *teller) { l.run("a:1@10 ack 1") },
			[]at{{59 * time.Second, "nothing"}, {time.Minute, "10 a:1@10"}}, "one that is longer"},
		{"so many events", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(l *teller) { l.run("a:1@10 b:2@11 ack 1-2") },
			[]at{{0, "11 a:1@10 b:2@11"}}, "SYNCED is the third"},
		{"one less", checkpoint.Options{Interval: time.Hour, Events: 3}, func(l *teller) { l.run("a:1@10 ack 1") },
			[]at{{59 * time.Minute, "nothing"}, {time.Hour, "10 a:1@10"}}, "they wait for the interval"},
		{"events that wait for another", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(l *teller) { l.run("a:1@10 b:2@11 c:3@12 ack 2-3") },
			[]at{{0, "nothing"}, {time.Hour, "9"}}, "they can't be committed, so they don't count"},
		{"bookmarks don't count", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(l *teller) { l.run("bookmark@10 bookmark@11 bookmark@12") },
			[]at{{0, "nothing"}, {time.Hour, "12"}}, "nobody acks them"},
		{"what waited for a gap", checkpoint.Options{Interval: time.Hour, Events: 4},
			func(l *teller) { l.run("gap a:1@10 b:2@11 ack 2-3 ack 1") },
			[]at{{0, "- a:1@10 b:2@11"}}, "SYNCED, GAP, and two that count at last"},
		{"what waited for the same object", checkpoint.Options{Interval: time.Hour, Events: 4},
			func(l *teller) { l.run("gap ack 1 a:1@10 a:1@11 ack 3-2") },
			[]at{{0, "- a:1@11"}}, "SYNCED, GAP, and two that count at last"},
		{"what overtakes", checkpoint.Options{}, func(l *teller) { l.run("gap a:1@10 ?b:2@11 ack 1") },
			[]at{{999 * time.Millisecond, "nothing"}, {time.Second, "- b:2@11"}}, "also what needs no ack"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := newStore(), time.Now()
				opts := tc.opts
				tracker := newTracker(t, s, &opts)
				tc.tell(live(t, tracker))
				var got []at
				for _, w := range tc.want {
					pass(w.After - time.Since(began))
					got = append(got, at{w.After, saved(t, s)})
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: -want +got:\n%s", tc.why, diff)
				}
			})
		})
	}
}

// A quiet sequence commits nothing, and a commit has only what has changed.
func TestCommitsAreIncremental(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, &checkpoint.Options{Interval: time.Second})
		l := live(t, tracker)
		tellMany(l, 0, 100)
		time.Sleep(time.Hour)
		l.run("o7:7@500 -o8:8@501 o7:7@502 ack 101-103")
		time.Sleep(time.Hour)
		l.run("bookmark@600")
		time.Sleep(time.Hour)
		l.run("bookmark@600")
		pass(time.Hour)
		if diff := cmp.Diff([]int{100, 2, 0}, s.sizes); diff != "" {
			t.Errorf("objects of the commits, -want +got:\n%s", diff)
		}
	})
}

// While a commit takes its time more events gather, and follow at once if they are enough.
func TestCommitWhileCommitting(t *testing.T) {
	for _, tc := range []struct {
		name  string
		n     int
		sizes []int
		after time.Duration // of the second commit, from the end of the first
		why   string
	}{
		{"enough", 10, []int{9, 10}, 0, "they fill a batch"},
		{"too few", 4, []int{9, 4}, time.Second, "they wait for the interval"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				var began []time.Time
				s.hinder(func(context.Context) error {
					began = append(began, time.Now())
					time.Sleep(5 * time.Second)
					return nil
				})
				tracker := newTracker(t, s, &checkpoint.Options{Events: 10})
				l := live(t, tracker)
				tellMany(l, 0, 9) // with SYNCED they are ten
				synctest.Wait()
				tellMany(l, 9, tc.n)
				pass(time.Minute)
				if diff := cmp.Diff(tc.sizes, s.sizes); diff != "" {
					t.Fatalf("%s: objects of the commits, -want +got:\n%s", tc.why, diff)
				}
				if after := began[1].Sub(began[0].Add(5 * time.Second)); after != tc.after {
					t.Errorf("%s: the second commit came %v after the first, want %v", tc.why, after, tc.after)
				}
			})
		})
	}
}

// The end of a sequence is committed at once.
func TestCommitAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l := live(t, newTracker(t, s, nil))
		l.session.End()
		synctest.Wait()
		isSaved(t, s, "9", "in the store")
	})
}

// All streams of a tracker are committed at once.
func TestCommitOfSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, nil)
		var tellers []*teller
		for _, k := range []string{"b", "a", "c"} {
			session, err := acks.Begin(t.Context(), tracker, k, widgets())
			if err != nil {
				t.Fatal(err)
			}
			tellers = append(tellers, newTeller(t, session).run("snapshot x:1@3 synced@9"))
		}
		for _, l := range tellers[:2] {
			l.ackAll()
		}
		pass(time.Second)
		if diff := cmp.Diff([]string{"a", "b"}, s.Keys()); diff != "" {
			t.Errorf("keys, -want +got:\n%s", diff)
		}
		if s.count() != 1 {
			t.Errorf("%d commits, want one", s.count())
		}
	})
}

// Status says how far acks and commits are behind.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newStore(), time.Now()
		tracker := newTracker(t, s, nil)
		session := begin(t, tracker, widgets("x", "y"))
		l := newTeller(t, session)
		check := func(why string, want checkpoint.Status) {
			t.Helper()
			want.Key = key
			if diff := cmp.Diff(want, session.Status()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", why, diff)
			}
		}
		check("nothing has been told", checkpoint.Status{})
		l.run("x/snapshot x/a:1@3")
		time.Sleep(time.Minute)
		l.run("y/a:1@3 y/b:2@4")
		time.Sleep(time.Minute)
		check("three objects", checkpoint.Status{Unacked: 3, OldestUnacked: 2 * time.Minute})
		l.run("ack 0")
		check("the oldest is handled", checkpoint.Status{Unacked: 2, OldestUnacked: time.Minute, Uncommitted: true})
		pass(time.Second)
		last := began.Add(2*time.Minute + time.Second)
		check("and committed", checkpoint.Status{Unacked: 2, OldestUnacked: time.Minute + time.Second, LastCommit: last})
		l.run("ack 2")
		check("one of a snapshot that overtakes", checkpoint.Status{Unacked: 1, OldestUnacked: time.Minute + time.Second, LastCommit: last, Uncommitted: true})
		l.run("ack 1")
		check("all", checkpoint.Status{LastCommit: last, Uncommitted: true})
		s.hinder(func(context.Context) error {
			check("while it is committed", checkpoint.Status{LastCommit: last, Uncommitted: true})
			return nil
		})
		pass(time.Second)
		check("everything is committed", checkpoint.Status{LastCommit: last.Add(time.Second)})
	})
}
