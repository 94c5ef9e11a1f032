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
