package acks_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

// Nothing is committed after Close.
func TestCloseCommitsAcksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble ends only if no goroutine is left
		s := newStore()
		tracker := newTracker(t, s, &checkpoint.Options{Events: 2})
		fd := live(t, tracker)
		fd.run("a:1@10 b:2@11")
		s.hinder(func(context.Context) error { fd.run("ack 2"); return nil }) // as another goroutine might
		noError(t, tracker.Close())
		isSaved(t, s, "9", "in the store")
		fd.run("ack 1 c:3@12 ack 3 bookmark@13 ack 0") // harmless
		if err := tracker.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		fd.session.End()
		if err := tracker.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
		pass(time.Hour)
		if s.count() != 1 {
			t.Errorf("%d commits, want the one of Close", s.count())
		}
	})
}

// Status shows that there is no next try.
func TestCloseReturnsTheStoresError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.fail(errNoSpace)
		tracker := newTracker(t, s, nil)
		fd := live(t, tracker)
		time.Sleep(10 * time.Second)
		if err := tracker.Close(); !errors.Is(err, errNoSpace) {
			t.Errorf("Close: %v, want the Store's error", err)
		}
		st := fd.session.Status()
		if !errors.Is(st.Err, errNoSpace) || !st.NextTry.IsZero() || st.Attempts < 2 {
			t.Errorf("Status: %+v, want the Store's error and no next try", st)
		}
		s.heal()
		pass(time.Hour)
		if s.count() != 0 {
			t.Errorf("%d commits after Close", s.count())
		}
	})
}

// The Store hangs.
func TestCloseWaitsTwoTimeoutsAtMost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before time.Duration
		want   time.Duration
		why    string
	}{
		{"nothing under way", 0, 3 * time.Second, "one attempt"},
		{"an attempt under way", 2 * time.Second, 2*time.Second + 3*time.Second,
			"the rest of that attempt, and another one"},
		{"a retry due", 5 * time.Second, 3 * time.Second, "one attempt, at once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.hinder(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
				tracker := newTracker(t, s, &checkpoint.Options{CommitTimeout: 3 * time.Second})
				live(t, tracker)
				time.Sleep(tc.before)
				began := time.Now()
				err := tracker.Close()
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != tc.want {
					t.Errorf("%v after %v, want a timeout after %v: %s", err, took, tc.want, tc.why)
				}
			})
		})
	}
}

// Acks may come in any order.
func TestAcksMayComeFromAnyGoroutine(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, &checkpoint.Options{Interval: time.Millisecond, Events: 10})
	session := begin(t, tracker, widgets("x", "y"))
	fd := newFeeder(t, session).run("x/snapshot y/snapshot")
	marks := make(chan *acks.Mark, 64)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for m := range marks {
				m.Ack()
				m.Ack()
				_ = session.Status()
			}
		})
	}
	run := func(script string) {
		before := len(fd.marks)
		fd.run(script)
		for _, m := range fd.marks[before:] {
			marks <- m
		}
	}
	for range 50 {
		run("x/a:1@3 y/a:2@3 x/?h:5@4 x/-a:1@5 x/a:4@5 y/b:3@6 x/synced@9 y/synced@9")
		run("x/a:4@10 y/-b:3@11 x/c:6@12 y/bookmark@13 x/-c:6@14 x/gap y/gap")
	}
	run("x/synced@20 y/synced@21 x/z:9@22")
	close(marks)
	running.Wait()
	session.End()
	noError(t, tracker.Close())
	isSaved(t, s, "x=22 y=21 x/a:4@10 x/h:5@4 x/z:9@22 y/a:2@3", "in the store")
}

// A caller that keeps an old event does not keep later ones in memory, and an event that waits for its ack does not
// keep earlier ones.
func TestOldEventKeepsNoOthersInMemory(t *testing.T) {
	for _, tc := range []struct{ name, script, acks, why string }{
		{"live", "snapshot synced@9 a:1@10 b:2@11 a:1@12 b:2@13 c:3@14", "ack 0-5",
			"each refers to its neighbours while it waits"},
		{"live in reverse", "snapshot synced@9 a:1@10 b:2@11 a:1@12 b:2@13 c:3@14", "ack 5-0",
			"each refers to its neighbours while it waits"},
		{"a snapshot", "snapshot a:1@3 a:1@4 a:1@5 -a:1@5 a:2@6", "ack 0-4",
			"each of an object refers to the next of it"},
		{"a snapshot in reverse", "snapshot a:1@3 a:1@4 a:1@5 -a:1@5 a:2@6", "ack 4-0",
			"each refers to its neighbours while it waits"},
		{"a snapshot with a hole", "snapshot z:9@1 a:1@3 a:1@4 b:2@4 a:1@5 synced@9", "ack 4-1 ack 5 ack 0",
			"the hole is filled last"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tracker := newTracker(t, newStore(), &checkpoint.Options{Interval: time.Hour})
			fd := newFeeder(t, begin(t, tracker, widgets())).run(tc.script)
			fd.run("-gone:7@100") // waits for its ack, and is the only one that stays in memory
			fd.run(tc.acks)
			old, n := fd.marks[0], len(fd.marks)
			var others []weak.Pointer[acks.Mark]
			for _, m := range fd.marks[1 : n-1] {
				others = append(others, weak.Make(m))
			}
			fd.marks = nil
			for range 3 {
				runtime.GC()
			}
			for i, w := range others {
				if w.Value() != nil {
					t.Errorf("event %d is kept in memory by another one: %s", i+1, tc.why)
				}
			}
			old.Ack()
			runtime.KeepAlive(fd.session)
		})
	}
}

// A Tracker of many short sessions does not keep them in memory.
func TestEndedSessionsAreReleased(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		kept         bool
		why          string
	}{
		{"all acked", "x/snapshot x/a:1@3 x/synced@9 ack 0-1", false, "no commit can follow"},
		{"nothing delivered", "", false, "no commit can follow"},
		{"one not acked", "x/snapshot x/a:1@3 x/synced@9 ack 1", true, "it may still be acked"},
		{"deferred", "defer x/~a:1@3 x/+b:2@4", false, "nothing will be acked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tracker := newTracker(t, newStore(), &checkpoint.Options{Interval: time.Hour})
			released := func() func() bool {
				s := runScript(t, tracker, widgets("x", "y"), tc.script)
				s.End()
				return acks.Released(s)
			}()
			for range 2 { // the first commits, the second releases the session
				flush(t, tracker)
			}
			for range 3 {
				runtime.GC()
			}
			if kept := !released(); kept != tc.kept {
				t.Errorf("kept: %v, want %v: %s", kept, tc.kept, tc.why)
			}
			runtime.KeepAlive(tracker)
		})
	}
}
