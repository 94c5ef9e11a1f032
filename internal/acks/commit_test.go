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

// feedMany delivers and acks live events of n objects, the first of which is number from.
func feedMany(fd *feeder, from, n int) {
	for i := from; i < from+n; i++ {
		fd.run(fmt.Sprintf("o%d:%d@%d ack %d", i, i, 100+i, len(fd.marks)))
	}
}

// live begins a session, and delivers and acks an empty snapshot.
func live(t *testing.T, tracker *checkpoint.Tracker) *feeder {
	return newFeeder(t, begin(t, tracker, widgets())).run("snapshot synced@9 ack 0")
}

func TestCommitAfterIntervalOrEnoughAcks(t *testing.T) {
	type at struct {
		After time.Duration
		Saved string
	}
	for _, tc := range []struct {
		name string
		opts checkpoint.Options
		feed func(fd *feeder)
		want []at
		why  string
	}{
		{"after a second", checkpoint.Options{}, func(fd *feeder) { fd.run("a:1@10 ack 1") },
			[]at{{999 * time.Millisecond, "nothing"}, {time.Second, "10 a:1@10"}}, "the default interval"},
		{"acks during the interval", checkpoint.Options{}, func(fd *feeder) {
			fd.run("a:1@10 ack 1")
			time.Sleep(900 * time.Millisecond)
			fd.run("b:2@11 ack 2")
		}, []at{{999 * time.Millisecond, "nothing"}, {time.Second, "11 a:1@10 b:2@11"}},
			"the interval begins with the first ack"},
		{"after the interval", checkpoint.Options{Interval: time.Minute}, func(fd *feeder) { fd.run("a:1@10 ack 1") },
			[]at{{59 * time.Second, "nothing"}, {time.Minute, "10 a:1@10"}}, "a longer interval"},
		{"enough events", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(fd *feeder) { fd.run("a:1@10 b:2@11 ack 1-2") },
			[]at{{0, "11 a:1@10 b:2@11"}}, "with SYNCED they are three"},
		{"one event less", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(fd *feeder) { fd.run("a:1@10 ack 1") },
			[]at{{59 * time.Minute, "nothing"}, {time.Hour, "10 a:1@10"}}, "they wait for the interval"},
		{"events that wait for another", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(fd *feeder) { fd.run("a:1@10 b:2@11 c:3@12 ack 2-3") },
			[]at{{0, "nothing"}, {time.Hour, "9"}}, "they can't be committed, so they don't count"},
		{"bookmarks don't count", checkpoint.Options{Interval: time.Hour, Events: 3},
			func(fd *feeder) { fd.run("bookmark@10 bookmark@11 bookmark@12") },
			[]at{{0, "nothing"}, {time.Hour, "12"}}, "they need no ack"},
		{"events that waited for GAP", checkpoint.Options{Interval: time.Hour, Events: 4},
			func(fd *feeder) { fd.run("gap a:1@10 b:2@11 ack 2-3 ack 1") },
			[]at{{0, "- a:1@10 b:2@11"}}, "SYNCED, GAP, and two that waited"},
		{"events that waited for one of the same object", checkpoint.Options{Interval: time.Hour, Events: 4},
			func(fd *feeder) { fd.run("gap ack 1 a:1@10 a:1@11 ack 3-2") },
			[]at{{0, "- a:1@11"}}, "SYNCED, GAP, and two that waited"},
		{"an object that is canceled", checkpoint.Options{}, func(fd *feeder) {
			fd.run("+b:2@10 b:2@10 -b:2@11")
			acks.Cancel(fd.marks[1], fd.marks[2])
		}, []at{{999 * time.Millisecond, "9 !b:2"}, {time.Second, "11"}}, "it needs no ack, but a commit"},
		{"an object noted in a snapshot", checkpoint.Options{}, func(fd *feeder) { fd.run("gap a:1@10 ?b:2@11 ack 1") },
			[]at{{999 * time.Millisecond, "nothing"}, {time.Second, "- b:2@11"}}, "it needs no ack, but a commit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := newStore(), time.Now()
				opts := tc.opts
				tracker := newTracker(t, s, &opts)
				tc.feed(live(t, tracker))
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

// A commit has only what has changed, and there is none if nothing has.
func TestCommitsAreIncremental(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, &checkpoint.Options{Interval: time.Second})
		fd := live(t, tracker)
		feedMany(fd, 0, 100)
		time.Sleep(time.Hour)
		fd.run("o7:7@500 -o8:8@501 o7:7@502 ack 101-103")
		time.Sleep(time.Hour)
		fd.run("bookmark@600")
		time.Sleep(time.Hour)
		fd.run("bookmark@600")
		pass(time.Hour)
		if diff := cmp.Diff([]int{100, 2, 0}, s.sizes); diff != "" {
			t.Errorf("objects of the commits, -want +got:\n%s", diff)
		}
	})
}

// Events that gather during a commit follow at once if there are enough of them.
func TestEventsDuringACommitFollowAtOnce(t *testing.T) {
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
				fd := live(t, tracker)
				feedMany(fd, 0, 9) // with SYNCED they are ten
				synctest.Wait()
				feedMany(fd, 9, tc.n)
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

func TestEndOfSessionIsCommittedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		fd := live(t, newTracker(t, s, nil))
		fd.session.End()
		synctest.Wait()
		isSaved(t, s, "9", "in the store")
	})
}

func TestOneCommitHasAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, nil)
		var feeders []*feeder
		for _, k := range []string{"b", "a", "c"} {
			session, err := acks.Begin(t.Context(), tracker, k, widgets(), false)
			if err != nil {
				t.Fatal(err)
			}
			feeders = append(feeders, newFeeder(t, session).run("snapshot x:1@3 synced@9"))
		}
		for _, fd := range feeders[:2] {
			fd.ackAll()
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

func TestStatusShowsPendingAcksAndCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newStore(), time.Now()
		tracker := newTracker(t, s, nil)
		session := begin(t, tracker, widgets("x", "y"))
		fd := newFeeder(t, session)
		check := func(why string, want checkpoint.Status) {
			t.Helper()
			want.Key = key
			if diff := cmp.Diff(want, session.Status()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", why, diff)
			}
		}
		check("nothing has been delivered", checkpoint.Status{})
		fd.run("x/snapshot x/a:1@3")
		time.Sleep(time.Minute)
		fd.run("y/a:1@3 y/b:2@4")
		time.Sleep(time.Minute)
		for range 100 { // the order of a map is random
			check("three objects", checkpoint.Status{Unacked: 3, OldestUnacked: 2 * time.Minute})
		}
		fd.run("ack 0")
		check("the oldest is acked", checkpoint.Status{Unacked: 2, OldestUnacked: time.Minute, Uncommitted: true})
		pass(time.Second)
		last := began.Add(2*time.Minute + time.Second)
		oldest := time.Minute + time.Second
		check("the ack is committed", checkpoint.Status{Unacked: 2, OldestUnacked: oldest, LastCommit: last})
		fd.run("ack 2")
		check("an ack within a snapshot, out of order",
			checkpoint.Status{Unacked: 1, OldestUnacked: oldest, LastCommit: last, Uncommitted: true})
		fd.run("ack 1")
		check("all are acked", checkpoint.Status{LastCommit: last, Uncommitted: true})
		s.hinder(func(context.Context) error {
			check("during the commit", checkpoint.Status{LastCommit: last, Uncommitted: true})
			return nil
		})
		pass(time.Second)
		check("everything is committed", checkpoint.Status{LastCommit: last.Add(time.Second)})
	})
}
