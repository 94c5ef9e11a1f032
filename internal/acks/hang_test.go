package acks_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

var errTired = errors.New("timeout of the test")

// hanging is a Store whose calls ignore ctx and do not return while they are blocked, as for a file on a network disk
// that is gone.
type hanging struct {
	*checkpoint.Memory
	load, commit atomic.Pointer[chan struct{}]
	calls        atomic.Int32 // under way
	most         atomic.Int32
}

func (h *hanging) enter() func() {
	if n := h.calls.Add(1); n > h.most.Load() {
		h.most.Store(n)
	}
	return func() { h.calls.Add(-1) }
}

func (h *hanging) Load(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
	defer h.enter()()
	if blocked := h.load.Load(); blocked != nil {
		<-*blocked
	}
	return h.Memory.Load(ctx, key)
}

func (h *hanging) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	defer h.enter()()
	if blocked := h.commit.Load(); blocked != nil {
		<-*blocked
	}
	return h.Memory.Commit(ctx, deltas)
}

func block(p *atomic.Pointer[chan struct{}]) (release func()) {
	blocked := make(chan struct{})
	p.Store(&blocked)
	return func() {
		p.Store(nil)
		close(blocked)
	}
}

// Close gives up after Timeout, and no Session begins afterwards.
func TestCloseGivesUpOnAHangingLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{Memory: &checkpoint.Memory{}}
		tracker := newTracker(t, store, &checkpoint.Options{Events: 1, CommitTimeout: 3 * time.Second})
		session := begin(t, tracker, widgets())
		release := block(&store.load)
		late := make(chan error)
		for _, k := range []string{"loads", "waits for its turn"} {
			go func() {
				_, err := acks.Begin(t.Context(), tracker, strings.ReplaceAll(k, " ", "-"), widgets(), false)
				late <- err
			}()
			synctest.Wait()
		}
		newFeeder(t, session).run("snapshot synced@9 ack 0") // its commit waits for a turn, too
		synctest.Wait()
		began := time.Now()
		if err := tracker.Close(); err == nil || time.Since(began) != 3*time.Second {
			t.Errorf("Close: %v after %v, want an error after 3 s", err, time.Since(began))
		}
		if st := session.Status(); st.Err == nil || st.Attempts != 1 || !st.NextTry.IsZero() {
			t.Errorf("Status: %+v, want one attempt and no next try", st)
		}
		release()
		for range 2 {
			if err := <-late; !errors.Is(err, os.ErrClosed) {
				t.Errorf("Begin: %v, want os.ErrClosed", err)
			}
		}
	})
}

// No call waits longer than Timeout and a grace period, the Store gets one call at a time, and once it answers nothing
// is missing.
func TestHangingStoreDelaysCallsByTimeout(t *testing.T) {
	for _, tc := range []struct {
		name string
		wait time.Duration // of the first event
		why  string
	}{
		{"Load", 0, "the Begin that gave up has recorded that the Store does not answer"},
		{"Load without a deadline", 5 * time.Second, "a Begin still waits, so the event finds it out"},
		{"Commit", 6 * time.Second, "the Store may take a second longer than its context"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hanging{Memory: &checkpoint.Memory{}}
				tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
					Cluster: checkpoint.Cluster{UID: "test"}, CommitTimeout: 5 * time.Second,
				})
				if err != nil {
					t.Fatal(err)
				}
				session := begin(t, tracker, widgets())
				p := session.Progress("")
				var release func()
				switch tc.name {
				case "Commit":
					release = block(&store.commit)
				case "Load without a deadline":
					release = block(&store.load)
					go acks.Begin(t.Context(), tracker, "other", widgets(), false)
					synctest.Wait()
				default:
					release = block(&store.load)
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTired)
					defer cancel()
					if _, err := acks.Begin(ctx, tracker, "other", widgets(), false); !errors.Is(err, errTired) {
						t.Errorf("Begin: %v, want the cause of its ctx", err)
					}
				}
				o := objects.Version{ID: objects.ID{Name: "a", UID: "1"}, ResourceVersion: "5"}
				began := time.Now()
				if err := p.WriteAhead(t.Context(), []objects.ID{o.ID}); err != nil {
					t.Errorf("WriteAhead: %v", err)
				}
				if waited := time.Since(began); waited != tc.wait {
					t.Errorf("WriteAhead took %v, want %v: %s", waited, tc.wait, tc.why)
				}
				if session.Status().Err == nil {
					t.Error("Status.Err is nil")
				}
				p.Note(acks.Change{Version: o})
				m := p.Mark("5", false)
				time.Sleep(time.Minute)
				release()
				m.Ack()
				time.Sleep(time.Minute)
				if st := session.Status(); st.Err != nil || st.Uncommitted {
					t.Errorf("after the Store has answered: %+v", st)
				}
				release = block(&store.commit)
				p.Mark("6", false).Ack()
				began = time.Now()
				if err := tracker.Close(); err == nil {
					t.Error("Close: no error, although nothing was committed")
				}
				if waited := time.Since(began); waited > 15*time.Second {
					t.Errorf("Close took %v", waited)
				}
				release()
				synctest.Wait()
				if most := store.most.Load(); most > 1 {
					t.Errorf("%d calls of the Store at once, want one", most)
				}
			})
		})
	}
}

// slowMark is a Store whose MarkUnclean(true) is another function.
type slowMark struct {
	*markable
	mark func(ctx context.Context) error
}

func (s *slowMark) MarkUnclean(ctx context.Context, unclean bool) error {
	if unclean {
		if err := s.mark(ctx); err != nil {
			return err
		}
	}
	return s.markable.MarkUnclean(ctx, unclean)
}

// TestSlowMarkDelaysCommitsByTimeout: marking a Store takes as long as a commit at most. Then the event is delivered,
// Status has the errors of both, and commits are retried.
func TestSlowMarkDelaysCommitsByTimeout(t *testing.T) {
	untilEnd := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	take := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return nil }
	}
	full := func(context.Context) error { return errNoSpace }
	fullAfter := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return errNoSpace }
	}
	noAnswer := errors.New("the Store does not answer")
	for _, tc := range []struct {
		name         string
		commit, mark func(ctx context.Context) error
		wait         time.Duration // of the event
		errs         []error       // of Status then
		marked       bool          // then
		healed       time.Duration // until there is nothing to commit any more
		why          string
	}{
		{"obeys its context", full, untilEnd, 5 * time.Second, []error{errNoSpace, context.DeadlineExceeded}, false,
			8 * time.Second, "it may be a Store across the network"},
		{"in time", full, take(4 * time.Second), 4 * time.Second, []error{errNoSpace}, true, 7 * time.Second,
			"the event waits for it"},
		{"a little late", full, take(11 * time.Second / 2), 11 * time.Second / 2, []error{errNoSpace}, true,
			9 * time.Second, "the Store may take a second longer than its context"},
		{"much later", full, take(time.Minute), 6 * time.Second, []error{errNoSpace, noAnswer}, false,
			63 * time.Second, "the Store gets one call at a time"},
		{"the commit has taken all of its time", untilEnd, take(4 * time.Second), 9 * time.Second,
			[]error{context.DeadlineExceeded}, true, 12 * time.Second, "the mark has its own"},
		{"the commit fails late", fullAfter(time.Minute), take(4 * time.Second), 6 * time.Second, []error{noAnswer},
			false, 67 * time.Second, "it is marked as soon as the Store has answered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowMark{newMarkable(), tc.mark}
				tracker := newTracker(t, s, &checkpoint.Options{CommitTimeout: 5 * time.Second})
				fd := newFeeder(t, begin(t, tracker, widgets())).run("snapshot")
				pass(2 * time.Second)
				s.hinder(tc.commit)
				began := time.Now()
				fd.run("+a:1@3")
				if waited := time.Since(began); waited != tc.wait {
					t.Errorf("the event waited %v, want %v: %s", waited, tc.wait, tc.why)
				}
				st := fd.session.Status()
				for _, want := range tc.errs {
					if st.Err == nil || !errors.Is(st.Err, want) && !strings.Contains(st.Err.Error(), want.Error()) {
						t.Errorf("Status has %v, want %v: %s", st.Err, want, tc.why)
					}
				}
				if next := time.Until(st.NextTry); next < 0 || next > 3*time.Second {
					t.Errorf("the next try is in %v, want 3 s at most", next)
				}
				if s.isMarked() != tc.marked {
					t.Errorf("marked: %v, want %v: %s", s.isMarked(), tc.marked, tc.why)
				}
				s.heal()
				pass(time.Until(began.Add(tc.healed)))
				if st := fd.session.Status(); st.Err != nil {
					t.Errorf("%v later: %v: %s", tc.healed, st.Err, tc.why)
				}
				pass(time.Minute)
				isSaved(t, s, "- !a:1", tc.why)
				if s.isMarked() {
					t.Error("the mark was not taken back")
				}
			})
		})
	}
}
