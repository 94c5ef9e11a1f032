package acks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// markable is a store that can be marked.
type markable struct {
	*store
	mu      sync.Mutex
	marked  bool
	calls   []string
	refusal error // of MarkUnclean
}

func newMarkable() *markable { return &markable{store: newStore()} }

func (m *markable) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	err := m.store.Commit(ctx, deltas)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, map[bool]string{true: "commit", false: "fails"}[err == nil])
	return err
}

func (m *markable) MarkUnclean(_ context.Context, unclean bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusal == nil {
		m.marked = unclean
	}
	m.calls = append(m.calls, map[bool]string{true: "mark", false: "unmark"}[unclean])
	return m.refusal
}

func (m *markable) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal = err
}

func (m *markable) isMarked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marked
}

var errIO = errors.New("input/output error")

// TestStoreIsMarkedBeforeDelivery: what is delivered while commits fail is not in the Store, so that the Store is
// marked before, and until a commit has all of it.
func TestStoreIsMarkedBeforeDelivery(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, s *markable, fd *feeder)
		want string // calls of the Store
		why  string
	}{
		{"no failure", func(t *testing.T, s *markable, fd *feeder) {
			fd.run("+a:1@3 a:1@3")
		}, "commit", "everything is in the Store"},
		{"a new object", func(t *testing.T, s *markable, fd *feeder) {
			s.fail(errNoSpace)
			if fd.run("+a:1@3"); !s.isMarked() {
				t.Error("the object may be delivered, and the Store is not marked")
			}
		}, "fails mark", "the object's entry is missing"},
		{"room again", func(t *testing.T, s *markable, fd *feeder) {
			s.fail(errNoSpace)
			fd.run("+a:1@3 a:1@3")
			pass(3 * time.Second)
			s.heal()
			pass(3 * time.Second)
		}, "fails mark fails commit unmark", "the retry has the entry; one mark is enough"},
		{"delivered during the retry", func(t *testing.T, s *markable, fd *feeder) {
			s.fail(errNoSpace)
			fd.run("+a:1@3 a:1@3")
			s.hinder(func(context.Context) error { fd.run("+b:1@4 b:1@4"); s.heal(); return nil })
			pass(2 * time.Second)
			if !s.isMarked() {
				t.Error("b is not in the Store, and the mark was taken back")
			}
			pass(2 * time.Second)
		}, "fails mark commit commit unmark", "only the second commit has b"},
		{"the mark fails", func(t *testing.T, s *markable, fd *feeder) {
			s.fail(errNoSpace)
			s.refuse(errIO)
			fd.run("+a:1@3 a:1@3")
			if err := fd.session.Status().Err; !errors.Is(err, errNoSpace) || !errors.Is(err, errIO) {
				t.Errorf("Status has %v, want both errors", err)
			}
			pass(3 * time.Second)
			s.refuse(nil)
			if pass(4 * time.Second); !s.isMarked() {
				t.Error("the Store is not marked")
			}
			pass(10 * time.Second)
		}, "fails mark fails", "it is tried again with each commit, and the Stream goes on"},
		{"it can't be taken back", func(t *testing.T, s *markable, fd *feeder) {
			s.fail(errNoSpace)
			fd.run("+a:1@3 a:1@3")
			s.heal()
			s.refuse(errIO)
			pass(2 * time.Second)
			s.refuse(nil)
			fd.run("+b:1@4")
		}, "fails mark commit unmark commit unmark", "... until the next commit"},
		{"nothing is left to commit", func(t *testing.T, s *markable, fd *feeder) {
			s.fail(errNoSpace)
			fd.run("+a:1@3 a:1@3")
			s.hinder(func(context.Context) error { fd.run("+a:1@3"); s.heal(); return nil })
			pass(time.Minute)
		}, "fails mark commit commit unmark", "an object that was delivered again needs no other entry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMarkable()
				tracker := newTracker(t, s, nil)
				fd := newFeeder(t, begin(t, tracker, widgets())).run("snapshot")
				tc.do(t, s, fd)
				synctest.Wait()
				got := strings.Join(s.calls, " ")
				for _, again := range []string{"fails ", "fails mark "} { // how often is random
					for strings.Contains(got+" ", again+again) {
						got = strings.TrimSpace(strings.ReplaceAll(got+" ", again+again, again))
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: -want +got:\n%s", tc.why, diff)
				}
			})
		})
	}
}

// TestUncleanKeyWithoutACheckpoint: a Store that was marked may lack a key under which something was delivered.
func TestUncleanKeyWithoutACheckpoint(t *testing.T) {
	s := &unsaved{Memory: &checkpoint.Memory{}}
	tracker := newTracker(t, s, nil)
	session := begin(t, tracker, widgets())
	if p := session.Position(); p == nil || !p.Unclean {
		t.Fatalf("the position is %v, want an Unclean one", p)
	}
	p := session.Progress("")
	noError(t, p.WriteSynced(t.Context(), "5", false))
	isSaved(t, s.Memory, "- unclean", "before SYNCED is acked")
	p.Mark("5", false).Ack()
	flush(t, tracker)
	isSaved(t, s.Memory, "5", "after the snapshot")
}

// unsaved says of keys without a checkpoint that they are Unclean.
type unsaved struct{ *checkpoint.Memory }

func (u *unsaved) Load(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
	c, err := u.Memory.Load(ctx, key)
	if c == nil {
		c = &checkpoint.Checkpoint{Position: checkpoint.Position{Unclean: true}}
	}
	return c, err
}

// TestWaitForCommits: with that option nothing is delivered that the Store should have known before.
func TestWaitForCommits(t *testing.T) {
	fenced := &checkpoint.FencedError{Store: "x"}
	for _, tc := range []struct {
		name string
		then func(s *markable, tracker *checkpoint.Tracker, cancel context.CancelCauseFunc)
		want error
		why  string
	}{
		{"room again", func(s *markable, _ *checkpoint.Tracker, _ context.CancelCauseFunc) { s.heal() }, nil,
			"it is delivered after a commit"},
		{"canceled", func(_ *markable, _ *checkpoint.Tracker, c context.CancelCauseFunc) { c(errNoSpace) }, errNoSpace,
			"the run ends"},
		{"closed", func(_ *markable, t *checkpoint.Tracker, _ context.CancelCauseFunc) { _ = t.Close() }, errNoSpace,
			"no commit follows"},
		{"closed in time", func(s *markable, t *checkpoint.Tracker, _ context.CancelCauseFunc) {
			s.heal()
			_ = t.Close()
		}, nil, "the last commit has its entry"},
		{"fenced", func(s *markable, _ *checkpoint.Tracker, _ context.CancelCauseFunc) { s.fail(fenced) }, fenced,
			"no commit follows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMarkable()
				tracker := newTracker(t, s, &checkpoint.Options{WaitForCommits: true})
				p := newFeeder(t, begin(t, tracker, widgets())).run("snapshot").session.Progress("")
				s.fail(errNoSpace)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ended := make(chan error, 1)
				go func() { ended <- p.WriteAhead(ctx, []objects.ID{{Name: "a", UID: "1"}}) }()
				pass(time.Minute)
				select {
				case err := <-ended:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
				began := time.Now()
				tc.then(s, tracker, cancel)
				err := <-ended
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("%v, want %v: %s", err, tc.want, tc.why)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("it took %v, want 3 s at most", took)
				}
				if err == nil {
					isSaved(t, s, "- !a:1", "when it is delivered")
				}
				if s.isMarked() {
					t.Error("the Store is marked, and nothing was delivered without a commit")
				}
			})
		})
	}
	t.Run("delivered after Close", func(t *testing.T) {
		tracker := newTracker(t, newStore(), &checkpoint.Options{WaitForCommits: true})
		p := begin(t, tracker, widgets()).Progress("")
		noError(t, tracker.Close())
		if err := p.WriteAhead(t.Context(), []objects.ID{{Name: "a"}}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v, want one that wraps os.ErrClosed", err)
		}
	})
}

// TestLateAcksAreLogged: a Tracker that is closed before its events are acked makes the next run deliver them again.
func TestLateAcksAreLogged(t *testing.T) {
	const events = "snapshot synced@9 a:1@10 b:2@11 c:3@12 "
	for _, tc := range []struct {
		name, before, after string
		want                string // what is logged; empty for nothing
		why                 string
	}{
		{"in time", events + "ack 0-3", "", "", "all were acked"},
		{"never", events, "", "", "a program that ends may leave events to the next run"},
		{"again", events + "ack 0-3", "ack 0-3", "", "they count already"},
		{"all", events, "ack 0-3", "events=4", "one line says it for all"},
		{"in reverse", events, "ack 3-0", "events=4", "their order does not matter"},
		{"some", events + "ack 0 ack 2", "ack 1 ack 3", "events=3", "one was acked in time, behind one that was not"},
		{"delivered afterwards", events + "ack 0-3", "d:4@13 ack 4 e:5@14 ack 5", "events=1", "it has no checkpoint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			tracker := newTracker(t, newStore(), &checkpoint.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			fd := newFeeder(t, begin(t, tracker, widgets())).run(tc.before)
			if !strings.Contains(tc.after, "@") {
				fd.session.End()
			}
			noError(t, tracker.Close())
			fd.run(tc.after)
			got := ""
			if strings.Count(log.String(), "\n") > 0 {
				got = strings.TrimSpace(log.String()[strings.LastIndex(log.String(), " "):])
			}
			if n := strings.Count(log.String(), "level=WARN"); got != tc.want || n != min(1, len(tc.want)) {
				t.Errorf("%q is logged, want one warning with %q: %s", log.String(), tc.want, tc.why)
			}
		})
	}
}
