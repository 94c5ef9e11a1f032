package checkpoint_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// What is kept of objects that are written ahead, until they are settled.
func TestAhead(t *testing.T) {
	for _, tc := range []struct {
		name, first, script string
		want                string
		why                 string
	}{
		{"not acked", "", "snapshot +a:1@3 a:1@3", "- !a:1@3", "it may have been handled"},
		{"not even told", "", "snapshot +a:1@3", "- !a:1@3", "it may have been told right before the end"},
		{"acked", "", "snapshot +a:1@3 a:1@3 synced@9 ack 0-1", "9 a:1@3", "it is known now"},
		{"acked in the next run", "snapshot +a:1@5", "snapshot a:1@5 ack 0", "- a:1@5", "it came again"},
		{"acked in the next run, changed", "snapshot +a:1@5", "snapshot a:1@7 ack 0", "- a:1@7", "what is newer settles it as well"},
		{"acked in the next run, before", "snapshot +a:1@5", "snapshot a:1@3 ack 0", "- a:1@3 !a:1@5", "of what was told then, nothing is said by what was before"},
		{"its end", "snapshot +a:1@5", "snapshot !a:1@5 synced@9 ack 0", "9", "there is no more to say"},
		{"its end, not acked", "snapshot +a:1@5", "snapshot !a:1@5 synced@9", "- !a:1@5", "its end has to come again"},
		{"its end, not that of another", "snapshot a:1@3 ack 0 +a:2@5", "snapshot !a:2@5 synced@9 ack 0", "9 a:1@3", "the one that was handled is still what it was"},
		{"two of a name", "snapshot +a:1@3 +a:2@5", "snapshot a:2@5 ack 0", "- a:2@5 !a:1@3", "each is settled by itself"},

		{"an earlier event", "", "snapshot +a:1@5 a:1@3 ack 0", "- a:1@3 !a:1@5", "what was written is not told yet"},
		{"an earlier event at the same version", "", "snapshot +a:1@3 a:1@3 +a:1@3 ack 0", "- a:1@3 !a:1@3", "it is about to be told once more"},
		{"an earlier event, and a newer version", "", "snapshot +a:1@3 a:1@3 +a:1@5 ack 0", "- a:1@3 !a:1@5", "the new one is not told yet"},
		{"told twice", "", "snapshot +a:1@3 a:1@3 a:1@3 ack 0", "- a:1@3", "it is ADDED but once, the first time"},
		{"an older version", "", "snapshot +a:1@5 +a:1@3", "- !a:1@5", "a watch that goes on before it comes to it again"},
		{"an older version than an earlier run's", "snapshot +a:1@5", "snapshot +a:1@3", "- !a:1@5", "the same"},
		{"once more, before a commit", "", "snapshot +a:1@3 a:1@3 ack 0 +a:1@5 ", "- a:1@3 !a:1@5", "what settled the first one does not settle this one"},
		{"once more, at an older version", "", "snapshot +a:1@5 a:1@5 synced@9 ack 0-1 -a:1@10 ack 2 gap +a:1@3", "10 !a:1@3", "the server has gone back in time"},

		{"held", "", "hold after@9 +a:1@10", "nothing", "the sequence has not begun"},
		{"held, and begun", "", "hold after@9 synced@9 +a:1@10 +b:2@11 a:1@10 ack 0-1", "10 a:1@10 !b:2@11", "the first is settled before it is written"},
	} {
		t.Run(tc.name, func(t *testing.T) { keeps(t, tc.first, nil, tc.script, tc.want, tc.why) })
	}
}

func TestIsAhead(t *testing.T) {
	l := newTeller(t, begin(t, newTracker(t, newStore(), nil), widgets())).run("snapshot +a:1@5")
	for _, tc := range []struct {
		uid, version string
		want         bool
		why          string
	}{
		{"1", "5", true, "it was written"},
		{"1", "3", true, "what is older needs not be"},
		{"1", "7", false, "at this version it was not"},
		{"2", "5", false, "that is another one"},
	} {
		o := checkpoint.Object{Name: "a", UID: types.UID(tc.uid), ResourceVersion: tc.version}
		if got := l.session.Progress("").IsAhead(o); got != tc.want {
			t.Errorf("a:%s@%s: %v, want %v: %s", tc.uid, tc.version, got, tc.want, tc.why)
		}
	}
}

func TestNoWriteAhead(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, &checkpoint.Options{NoWriteAhead: true})
	newTeller(t, begin(t, tracker, widgets())).run("snapshot +a:1@3")
	if diff := cmp.Diff("- unclean", saved(t, s)); diff != "" { // before the first is told
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is ahead is part of a commit once: not of those that follow.
func TestAheadIsIncremental(t *testing.T) {
	s := &deltas{Memory: checkpoint.NewMemory()}
	tracker := newTracker(t, s, nil)
	l := newTeller(t, begin(t, tracker, widgets())).run("snapshot +a:1@3 +b:2@5 a:1@3 ack 0")
	flush(t, tracker)
	l.run("~c:3@6 b:2@5 synced@9 ack 1-2")
	flush(t, tracker)
	l.run("d:4@10 ack 3")
	flush(t, tracker)
	want := []ahead{{told: 1}, {told: 1}, {settled: 1}, {settled: 1}, {}}
	if diff := cmp.Diff(want, s.of, cmp.AllowUnexported(ahead{})); diff != "" {
		t.Errorf("in each commit, -want +got:\n%s", diff)
	}
}

type ahead struct{ told, settled int }

// deltas is a Memory that counts what is ahead in each commit.
type deltas struct {
	*checkpoint.Memory
	of []ahead
}

func (s *deltas) Commit(ctx context.Context, ds []checkpoint.Delta) error {
	for _, d := range ds {
		s.of = append(s.of, ahead{len(d.Told), len(d.Settled)})
	}
	return s.Memory.Commit(ctx, ds)
}

// A commit that fails is tried again with what is ahead, but for what has become
// of that meanwhile.
func TestAheadOfAFailingCommit(t *testing.T) {
	for _, tc := range []struct {
		name, before, during, after string
		want                        string
		why                         string
	}{
		{"nothing meanwhile", "+a:1@3 a:1@3", "", "", "- !a:1@3", "it is not written yet"},
		{"acked meanwhile", "+a:1@3 a:1@3", "ack 0", "", "- a:1@3", "there is nothing to be written ahead any more"},
		{"acked afterwards", "+a:1@3 a:1@3", "", "ack 0", "- a:1@3", "the same"},
		{"written anew meanwhile", "+a:1@3 a:1@3", "+a:1@5", "", "- !a:1@5", "what is older must not take its place"},
		{"settled, and written anew meanwhile", "+a:1@3 a:1@3 ack 0", "+a:1@5", "", "- a:1@3 !a:1@5", "it was the earlier one that was settled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			tracker := newTracker(t, s, &checkpoint.Options{Interval: time.Hour})
			l := newTeller(t, begin(t, tracker, widgets())).run("snapshot")
			s.fail(errNoSpace)
			l.run(tc.before)
			s.hinder(func(context.Context) error { l.run(tc.during); return errNoSpace })
			if err := tracker.Flush(t.Context()); !errors.Is(err, errNoSpace) {
				t.Errorf("%v, want what the store said", err)
			}
			l.run(tc.after)
			s.heal()
			flush(t, tracker)
			if diff := cmp.Diff(tc.want, saved(t, s)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.why, diff)
			}
		})
	}
}

// Those who want to write ahead at the same time share a commit, and also the
// failure of one.
func TestAheadTogether(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail error
		want int
		why  string
	}{
		{"well", nil, 2, "one that was under way, and one for all who came meanwhile"},
		{"failing", errNoSpace, 1, "nobody is held up by a second attempt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, attempts := newStore(), 0
				s.hinder(func(context.Context) error { attempts++; time.Sleep(time.Second); return tc.fail })
				session := begin(t, newTracker(t, s, &checkpoint.Options{Interval: time.Hour}), widgets())
				began := time.Now()
				for _, name := range []string{"a", "b", "c", "d"} {
					go session.Progress("").Ahead(t.Context(), []checkpoint.Object{{Name: name, UID: "1", ResourceVersion: "3"}})
					synctest.Wait()
				}
				time.Sleep(time.Duration(tc.want)*time.Second + time.Millisecond)
				synctest.Wait()
				if attempts != tc.want {
					t.Errorf("%d commits after %v, want %d: %s", attempts, time.Since(began), tc.want, tc.why)
				}
				s.heal()
			})
		})
	}
}

// While commits fail nobody waits for one that hangs.
func TestAheadWhileARetryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.fail(errNoSpace)
		l := live(t, newTracker(t, s, nil))
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
		l.run("+a:1@10")
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited %v", waited)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

// That a stream is stopped while it writes ahead is no failure of the Store.
func TestAheadOfAStoppedStream(t *testing.T) {
	s := newStore()
	session := begin(t, newTracker(t, s, nil), widgets())
	ctx, stop := context.WithCancel(t.Context())
	s.hinder(func(ctx context.Context) error { stop(); return ctx.Err() })
	session.Progress("").Ahead(ctx, []checkpoint.Object{{Name: "a", UID: "1", ResourceVersion: "3"}})
	if err := session.Status().Err; err != nil {
		t.Errorf("the status has %v", err)
	}
	if diff := cmp.Diff("- !a:1@3", saved(t, s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What has been settled keeps no event.
func TestSettledKeepsNoMarks(t *testing.T) {
	tracker := newTracker(t, newStore(), nil)
	l := newTeller(t, begin(t, tracker, widgets())).run("snapshot +a:1@3 a:1@3 synced@9 ack 0-1")
	w := weak.Make(l.marks[0])
	l.marks = nil
	for range 3 {
		runtime.GC()
	}
	if w.Value() != nil {
		t.Error("the event that told an object is kept after its ack")
	}
	runtime.KeepAlive(l.session)
}

// Without writing ahead, what is kept is the whole only if the run ended with
// everything acked.
func TestUnclean(t *testing.T) {
	const told = "snapshot a:1@3 synced@9 ack 0-1"
	for _, tc := range []struct {
		name, script, later string
		end                 bool
		want                string
		why                 string
	}{
		{"it goes on", told, "", false, "9 unclean a:1@3", "more may be told before it is killed"},
		{"ended", told, "", true, "9 a:1@3", "nothing more is told"},
		{"ended before an ack", told + " b:2@10", "", true, "9 unclean a:1@3", "b was told"},
		{"acked after the end", told + " b:2@10", "ack 2", true, "10 a:1@3 b:2@10", "nothing is open any more"},
		{"acked after the end, but for one", told + " b:2@10 c:3@11", "ack 2", true, "10 unclean a:1@3 b:2@10", "c was told"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			tracker := newTracker(t, s, &checkpoint.Options{NoWriteAhead: true, Interval: time.Hour})
			l := newTeller(t, begin(t, tracker, widgets())).run(tc.script)
			flush(t, tracker)
			if tc.end {
				l.session.End()
			}
			flush(t, tracker)
			l.run(tc.later)
			flush(t, tracker)
			if diff := cmp.Diff(tc.want, saved(t, s)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.why, diff)
			}
		})
	}
}
