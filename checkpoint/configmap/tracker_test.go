package configmap

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func tracker(t *testing.T, s checkpoint.Store, commits *[]checkpoint.CommitInfo) *checkpoint.Tracker {
	t.Helper()
	tr, err := checkpoint.NewTracker(s, &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "c1"}, Interval: 10 * time.Second,
		Committed: func(i checkpoint.CommitInfo) { *commits = append(*commits, i) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func begin(t *testing.T, tr *checkpoint.Tracker) *checkpoint.Session {
	t.Helper()
	session, err := tr.Begin(t.Context(), "k", checkpoint.Identity{Resource: "widgets", Objects: true})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// tell tells an event of an object at a version, which is handled at once.
func tell(s *checkpoint.Session, name string, version int) {
	p := s.Progress("")
	p.Note(checkpoint.Change{Object: checkpoint.Object{Name: name, UID: uid(name), ResourceVersion: fmt.Sprint(version)}})
	p.Mark(fmt.Sprint(version), false).Ack()
}

// TestTracker: while the server fails the Tracker keeps trying, and when it is
// back, everything is committed.
func TestTracker(t *testing.T) {
	for _, fault := range []string{"500", "403", "422", "hang", "refuse", "half-open", "slow 1m", "429 retry-after 5s"} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(configMapResource)
			var commits []checkpoint.CommitInfo
			tr := tracker(t, open(t, srv.Client(), "first"), &commits)
			session := begin(t, tr)
			tell(session, "a", 5)
			time.Sleep(11 * time.Second)
			if st := session.Status(); st.Err != nil || st.Uncommitted {
				t.Errorf("%s: before it: %+v", fault, st)
			}
			if err := srv.Apply("configmaps write *: " + fault); err != nil {
				t.Fatal(err)
			}
			tell(session, "b", 6)
			time.Sleep(5 * time.Minute)
			st := session.Status()
			if e := (*checkpoint.CommitError)(nil); !errors.As(st.Err, &e) || e.Attempts < 5 || e.NextTry.IsZero() {
				t.Errorf("%s: %+v", fault, st)
			}
			tell(session, "c", 7)
			if err := srv.Do("heal"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if st := session.Status(); st.Err != nil || st.Uncommitted {
				t.Errorf("%s: healed: %+v", fault, st)
			}
			if err := tr.Close(); err != nil {
				t.Errorf("%s: %v", fault, err)
			}
			tr = tracker(t, open(t, srv.Client(), "second"), &commits)
			want := &checkpoint.Position{ResourceVersions: map[string]string{"": "7"}}
			for i, name := range []string{"a", "b", "c"} {
				want.Objects = append(want.Objects, checkpoint.Object{Name: name, UID: uid(name), ResourceVersion: fmt.Sprint(5 + i)})
			}
			if d := cmp.Diff(want, begin(t, tr).Position()); d != "" {
				t.Errorf("%s: the next run: %s", fault, d)
			}
			if err := tr.Close(); err != nil {
				t.Errorf("%s: %v", fault, err)
			}
		})
	}
}

// TestTrackerFenced: the earlier owner ends its commits, the later one goes on.
func TestTrackerFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(configMapResource)
		var commits, others []checkpoint.CommitInfo
		first := tracker(t, open(t, srv.Client(), "first"), &commits)
		session := begin(t, first)
		tell(session, "a", 5)
		time.Sleep(time.Minute)
		second := tracker(t, open(t, srv.Client(), "second"), &others)
		after := begin(t, second)
		tell(session, "stale", 6)
		time.Sleep(time.Hour)
		fencedBy(t, session.Status().Err, "second")
		if len(commits) != 2 {
			t.Errorf("%d attempts, want one that went well and one that was the last", len(commits))
		}
		tell(after, "b", 7)
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		fencedBy(t, first.Close(), "second")
		c := load(t, open(t, srv.Client(), "third"), "k")
		if d := cmp.Diff(map[string]string{"": "7"}, c.Position.ResourceVersions); d != "" || len(c.Position.Objects) != 2 {
			t.Errorf("in the end: %+v", c.Position)
		}
	})
}
