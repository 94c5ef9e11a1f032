package acks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

var errNoSpace = &os.PathError{Op: "write", Path: "/var/lib/checkpoints", Err: syscall.ENOSPC}

// TestFailedCommitsAreRetried: while the disk is full, commits are retried with a backoff that has a limit. Once there
// is room, everything that was acked is committed.
func TestFailedCommitsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var attempts []time.Time
		full := func(context.Context) error { attempts = append(attempts, time.Now()); return errNoSpace }
		s.hinder(full)
		tracker := newTracker(t, s, nil)
		fd := live(t, tracker)
		fd.run("a:1@10 b:2@11 c:3@12 ack 1-3")
		pass(time.Second)
		st := fd.session.Status()
		if st.Attempts != 1 || !errors.Is(st.Err, syscall.ENOSPC) || !st.Uncommitted || !st.LastCommit.IsZero() {
			t.Fatalf("after a failed commit the status is %+v", st)
		}
		if wait := time.Until(st.NextTry); wait < time.Second || wait > 2*time.Second {
			t.Errorf("the next try is in %v, want 1 s to 2 s", wait)
		}
		fd.run("-a:1@13 b:2@14 d:4@15 ack 4-6") // delivery continues
		pass(10 * time.Minute)
		for i := 1; i < len(attempts); i++ {
			wait := attempts[i].Sub(attempts[i-1])
			longest := min(time.Second<<min(i, 10), 3*time.Second)
			if wait < longest/2 || wait > longest+time.Millisecond {
				t.Errorf("attempt %d was %v after the one before it, want %v to %v", i, wait, longest/2, longest)
			}
		}
		if n := len(attempts); n < 200 || n > 400 {
			t.Errorf("%d attempts in 10 minutes", n)
		}
		fd.run("d:4@16 ack 7")
		s.heal()
		pass(30 * time.Second)
		isSaved(t, s, "16 b:2@14 c:3@12 d:4@16", "once there is room")
		st = fd.session.Status()
		if st.Err != nil || st.Attempts != 0 || !st.NextTry.IsZero() || st.Uncommitted ||
			time.Since(st.LastCommit) > 30*time.Second {
			t.Errorf("once there is room the status is %+v", st)
		}
		if diff := cmp.Diff([]int{4}, s.sizes); diff != "" {
			t.Errorf("objects of the commits that succeeded, -want +got:\n%s", diff)
		}
		fd.run("d:4@17 ack 8")
		pass(time.Second)
		isSaved(t, s, "17 b:2@14 c:3@12 d:4@17", "afterwards")
	})
}

func TestAcksDoNotHurryRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		attempts := 0
		s.hinder(func(context.Context) error { attempts++; return errNoSpace })
		tracker := newTracker(t, s, &checkpoint.Options{Events: 2})
		fd := live(t, tracker)
		for i := range 1000 {
			feedMany(fd, i, 1)
			synctest.Wait()
		}
		if attempts != 1 {
			t.Errorf("%d attempts in no time, want one", attempts)
		}
		fd.session.End()
		synctest.Wait()
		if attempts != 1 {
			t.Errorf("End caused another attempt")
		}
	})
}

// The Tracker tries again, also if a commit was due meanwhile.
func TestFlushReturnsTheStoresError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.hinder(func(context.Context) error { time.Sleep(5 * time.Second); return nil })
		tracker := newTracker(t, s, nil)
		fd := live(t, tracker)
		time.Sleep(2 * time.Second) // a commit is under way
		fd.run("a:1@10 ack 1")
		flushed := make(chan error)
		go func() { flushed <- tracker.Flush(context.Background()) }()
		synctest.Wait()
		s.fail(errNoSpace)
		if err := <-flushed; !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Flush returned %v, want the Store's error", err)
		}
		s.heal()
		pass(time.Minute)
		if got := saved(t, s); got != "10 a:1@10" {
			t.Errorf("a minute later the Store has %s", got)
		}
	})
}

// Acks wait for the interval again, not for a retry.
func TestSuccessfulFlushEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.fail(errNoSpace)
		tracker := newTracker(t, s, nil)
		fd := live(t, tracker)
		time.Sleep(10 * time.Minute) // the waits are up to 30 s now
		s.hinder(func(context.Context) error { fd.run("a:1@10 ack 1"); s.heal(); return nil })
		flush(t, tracker)
		pass(time.Second)
		isSaved(t, s, "10 a:1@10", "what was acked during the Flush, after the interval")
		s.fail(errNoSpace)
		fd.run("a:1@11 ack 2")
		time.Sleep(10 * time.Minute)
		s.heal()
		flush(t, tracker)
		fd.run("a:1@12 ack 3")
		pass(time.Second)
		isSaved(t, s, "12 a:1@12", "what was acked after the Flush, after the interval")
	})
}

func TestFlushHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.hinder(func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		tracker := newTracker(t, s, nil)
		live(t, tracker)
		why := errors.New("ended by the test")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, why)
		defer cancel()
		if err := tracker.Flush(ctx); !errors.Is(err, why) {
			t.Errorf("Flush returned %v, want its context's cause", err)
		}
		time.Sleep(2 * time.Second) // an attempt hangs
		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		began := time.Now()
		if err := tracker.Flush(ctx); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("Flush returned %v after %v, want its context's cause after 1 s", err, time.Since(began))
		}
	})
}

// TestRetriesIgnoreTheInterval: after a failure the next attempt is at NextTry, also if a commit was due after the
// interval.
func TestRetriesIgnoreTheInterval(t *testing.T) {
	for _, tc := range []struct {
		opts checkpoint.Options
		why  string
	}{
		{checkpoint.Options{Interval: math.MaxInt64, Events: 1}, "no commit is due"},
		{checkpoint.Options{Interval: math.MaxInt64}, "a commit is due after an endless interval"},
		{checkpoint.Options{Interval: time.Second / 2}, "a commit is due before NextTry"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, attempts := newStore(), 0
			s.hinder(func(context.Context) error { attempts++; return errNoSpace })
			tracker := newTracker(t, s, &tc.opts)
			fd := live(t, tracker)
			if err := tracker.Flush(t.Context()); !errors.Is(err, errNoSpace) {
				t.Errorf("%s: Flush: %v, want the Store's error", tc.why, err)
			}
			synctest.Wait()
			before := attempts
			pass(time.Until(fd.session.Status().NextTry) - 1)
			if s.heal(); attempts != before {
				t.Errorf("%s: an attempt before NextTry", tc.why)
			}
			pass(1)
			isSaved(t, s, "9", tc.why)
		})
	}
}

func TestFinalErrorsEndTheAttempts(t *testing.T) {
	for _, tc := range []struct {
		err error
		why string
	}{
		{fmt.Errorf("committing: %w", &checkpoint.FencedError{Store: "configmap default/x", Holder: "pod-2"}),
			"another program has taken over"},
		{fmt.Errorf("committing: %w", os.ErrClosed), "the store has been closed"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				attempts := 0
				s.hinder(func(context.Context) error { attempts++; return tc.err })
				tracker := newTracker(t, s, nil)
				fd := live(t, tracker)
				pass(time.Second)
				s.hinder(func(context.Context) error { attempts++; return nil })
				fd.run("a:1@10 ack 1")
				pass(time.Hour)
				if attempts != 1 {
					t.Errorf("%d attempts, want one: %s", attempts, tc.why)
				}
				fd.session.End()
				_, err := acks.Begin(t.Context(), tracker, key, widgets(), false)
				for what, err := range map[string]error{
					"Begin": err, "Status": fd.session.Status().Err,
					"Flush": tracker.Flush(t.Context()), "Close": tracker.Close(),
				} {
					if !errors.Is(err, tc.err) {
						t.Errorf("%s: %v, want the Store's error", what, err)
					}
				}
				if st := fd.session.Status(); !st.NextTry.IsZero() || st.Attempts != 1 {
					t.Errorf("Status: %+v, want one attempt and no next try", st)
				}
				if got := saved(t, s); got != "nothing" {
					t.Errorf("the Store has %s", got)
				}
			})
		})
	}
}

// TestObjectThatReturnsWaitsForItsEntry: an object that is delivered again has an entry that an earlier ADDED of it may
// not have waited for, because commits failed.
func TestObjectThatReturnsWaitsForItsEntry(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(b *acks.Books, d checkpoint.Delta)
		want   bool
		why    string
	}{
		{"under way", func(*acks.Books, checkpoint.Delta) {}, true, "the commit that has the entry may still fail"},
		{"committed", func(b *acks.Books, d checkpoint.Delta) { b.Committed(d, nil) }, false,
			"the Store has the entry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := acks.NewBooks(widgets(), false, false, false, nil)
			fd := newFeeder(t, b.Session).run("snapshot +a:1@3 a:1@3 -a:1@4")
			d, _ := b.Take()
			b.Waits = false
			tc.before(b, d)
			if fd.run("+a:1@5"); b.Waits != tc.want {
				t.Errorf("ADDED waits: %v, want %v: %s", b.Waits, tc.want, tc.why)
			}
		})
	}
}

// TestSyncedWaitsUntilTheStoreKnows: the next run must not begin as if nothing had been delivered, although the commit
// that the first SYNCED waited for has failed.
func TestSyncedWaitsUntilTheStoreKnows(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  error
		want bool
		why  string
	}{
		{"failed", errNoSpace, true, "the Store still has nothing"},
		{"committed", nil, false, "the Store knows that the sequence has begun"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := acks.NewBooks(widgets(), false, false, false, nil)
			newFeeder(t, b.Session).run("snapshot")
			synced := func(version string) bool {
				b.Waits = false
				noError(t, b.Session.Progress("").WriteSynced(t.Context(), version, false))
				return b.Waits
			}
			if !synced("2") {
				t.Fatal("the first SYNCED does not wait")
			}
			d, _ := b.Take()
			b.Committed(d, tc.end)
			if got := synced("3"); got != tc.want {
				t.Errorf("the second SYNCED waits: %v, want %v: %s", got, tc.want, tc.why)
			}
		})
	}
}

// An object that is delivered while a retry is under way has its entry in the commit after it.
func TestWriteAheadDuringARetryIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, &checkpoint.Options{Interval: time.Minute})
		fd := newFeeder(t, begin(t, tracker, widgets())).run("snapshot")
		s.fail(errNoSpace)
		fd.run("+a:1@3 a:1@3")
		retries := make(chan struct{})
		s.hinder(func(context.Context) error {
			close(retries)
			s.heal()
			time.Sleep(time.Second)
			return nil
		})
		<-retries
		fd.run("+b:1@4 b:1@4")
		isSaved(t, s, "nothing", "the retry is under way")
		pass(time.Second)
		isSaved(t, s, "- !a:1", "the retry has succeeded")
		pass(time.Hour)
		isSaved(t, s, "- !a:1 !b:1", "after the interval")
	})
}

// TestWhatTheRunBeforeHasLeftIsWaitedFor: a run that ended before its entry was committed leaves it to the next one,
// which takes the object for known. One whose SYNCED was acked leaves the version.
func TestWhatTheRunBeforeHasLeftIsWaitedFor(t *testing.T) {
	const synced = "snapshot synced@9 ack 0 "
	live := func(p *acks.Progress) error { return p.WriteVersion(context.Background()) }
	page := func(p *acks.Progress) error { return p.WriteAhead(context.Background(), nil) }
	for _, tc := range []struct {
		name, script string
		deliver      func(*acks.Progress) error
		committed    bool
		want         bool
		why          string
	}{
		{"live", synced + "+a:1@10", live, false, true, "ADDED must not precede its entry"},
		{"snapshot", synced + "+a:1@10", page, false, true, "the object may be on the page, and is not new"},
		{"version", "snapshot synced@9 ack 0", live, false, true, "SYNCED is acked"},
		{"live, committed", synced + "+a:1@10", live, true, false, "the Store has the entry"},
		{"snapshot, committed", synced + "+a:1@10", page, true, false, "the Store has the entry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := widgets()
			id.Cluster = cluster
			b := acks.NewBooks(id, false, false, false, nil)
			newFeeder(t, b.Session).run(tc.script)
			b.Session.End()
			next := b.Next(false, nil)
			if tc.committed {
				d, _ := next.Take()
				next.Committed(d, nil)
			}
			if noError(t, tc.deliver(next.Session.Progress(""))); next.Waits != tc.want {
				t.Errorf("the event waits: %v, want %v: %s", next.Waits, tc.want, tc.why)
			}
		})
	}
}
