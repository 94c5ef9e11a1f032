package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// fullStore fails every commit.
type fullStore struct{ checkpoint.Store }

var errFull = errors.New("no space left on device")

func (fullStore) Commit(context.Context, []checkpoint.Delta) error { return errFull }

// TestWatchContinuesWhileCommitsFail: failed commits are retried and reported in Status, and delay no event.
func TestWatchContinuesWhileCommitsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, fullStore{&checkpoint.Memory{}}, checkpoint.Options{})
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "", "a@2")},
			{"watch 5", watch("wait 1m", "ADDED b@6", "wait 1m", "ADDED c@7", "open")},
		}}
		s := newStream(t, sc.client(), &setup{Run: stream.Run{Checkpoint: tracker}})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errTimeUp)
		defer cancel()
		var got []string
		for ev, err := range stream.Acked(s.Events(ctx)) {
			if err != nil {
				break
			}
			got = append(got, text(ev))
		}
		if diff := cmp.Diff([]string{"ADDED a@2", "SYNCED 5", "ADDED b@6", "ADDED c@7"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		st := s.Status().Checkpoint
		if !errors.Is(st.Err, errFull) || st.Attempts < 80 || st.Attempts > 250 ||
			!st.Uncommitted || st.Unacked != 0 || !st.LastCommit.IsZero() || st.Key != "widgets.example.com" {
			t.Errorf("the status is %+v", st)
		}
		if err := tracker.Close(); !errors.Is(err, errFull) {
			t.Errorf("Close: %v, want the error of the last commit", err)
		}
	})
}

// filling is a Store whose disk is full from a number of commits on, until it is not.
type filling struct {
	*checkpoint.Memory
	room atomic.Int32
	err  error
}

func (f *filling) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	if f.room.Add(-1) < 0 {
		return f.err
	}
	return f.Memory.Commit(ctx, deltas)
}

// TestEventsWaitForCommits: with WaitForCommits nothing is delivered without the commit that it needs.
func TestEventsWaitForCommits(t *testing.T) {
	fenced := &checkpoint.FencedError{Store: "x"}
	for _, tt := range []struct {
		name string
		err  error // of the Store
		then func(f *filling, tracker *checkpoint.Tracker)
		want []string
		end  error
		why  string
	}{
		{"room again", errFull, func(f *filling, _ *checkpoint.Tracker) { f.room.Store(100) },
			[]string{"ADDED a@2 after 0s", "SYNCED 5 after 0s", "MODIFIED a@6 after 1m0s", "ADDED b@7 after 1h"},
			errTimeUp, "b waits for room, and for 3 s at most after that"},
		{"closed", errFull, func(_ *filling, tracker *checkpoint.Tracker) { _ = tracker.Close() },
			[]string{"ADDED a@2 after 0s", "SYNCED 5 after 0s", "MODIFIED a@6 after 1m0s"}, errFull,
			"no commit follows, so that b would wait for ever"},
		{"fenced", fenced, func(*filling, *checkpoint.Tracker) {},
			[]string{"ADDED a@2 after 0s", "SYNCED 5 after 0s", "MODIFIED a@6 after 1m0s"}, fenced, "likewise"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &filling{Memory: &checkpoint.Memory{}, err: tt.err}
				store.room.Store(2)
				tracker := newTracker(t, store, checkpoint.Options{WaitForCommits: true})
				sc := &script{t: t, exchanges: []exchange{
					{"list", list("5", "", "a@2")},
					{"watch 5", watch("wait 1m", "MODIFIED a@6", "wait 1m", "ADDED b@7", "open")},
				}}
				s := newStream(t, sc.client(), &setup{Run: stream.Run{Checkpoint: tracker}})
				ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Hour, errTimeUp)
				defer cancel()
				began := time.Now()
				time.AfterFunc(time.Hour, func() { tt.then(store, tracker) })
				var got []string
				var end error
				for ev, err := range stream.Acked(s.Events(ctx)) {
					if end = err; err != nil {
						break
					}
					took := time.Since(began)
					at := took.String()
					if took > time.Hour && took < time.Hour+3*time.Second {
						at = "1h"
					}
					got = append(got, fmt.Sprintf("%s after %s", text(ev), at))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(end, tt.end) {
					t.Errorf("%s: %v, want %v (-want +got):\n%s", tt.why, end, tt.end, diff)
				}
				_ = tracker.Close()
			})
		})
	}
}

// The checkpoint is of other objects or of another cluster.
func TestRunRefusesAMismatchedCheckpoint(t *testing.T) {
	same := setup{Options: stream.Options{LabelSelector: "b=c,a=b"}}
	fields := setup{Options: stream.Options{FieldSelector: "metadata.name=a,spec.n!=1"}, Run: stream.Run{Key: "fields"}}
	tests := []struct {
		options setup
		cluster string
		want    any // type of error, nil for none
		text    string
		why     string
	}{
		{options: same, why: "the same options"},
		{options: setup{Options: stream.Options{LabelSelector: "a=b, b=c"}},
			why: "the same selector, written differently"},
		{options: setup{Options: stream.Options{LabelSelector: "b=c,a=b", Namespaces: []string{""}}},
			why: "an explicit whole cluster"},
		{options: setup{Options: stream.Options{FieldSelector: "spec.n!=1,metadata.name==a"},
			Run: stream.Run{Key: "fields"}},
			why: "the same field selector, written differently"},
		{options: setup{Options: stream.Options{FieldSelector: "spec.n!=1", Name: "a"}, Run: stream.Run{Key: "fields"}},
			why: "the same field selector, by Name"},
		{setup{Options: stream.Options{FieldSelector: "spec.n=1,metadata.name!=a"}, Run: stream.Run{Key: "fields"}},
			"test", new(*checkpoint.MismatchError), "field selector", "the same fields with other operators"},
		{setup{Options: stream.Options{LabelSelector: "a=b"}}, "test",
			new(*checkpoint.MismatchError), `is for label selector "a=b,b=c", not "a=b"`, "other labels"},
		{setup{Options: stream.Options{LabelSelector: "b=c,a=b", Name: "a"}}, "test",
			new(*checkpoint.MismatchError), "field selector", "one name only"},
		{same, "another",
			new(*checkpoint.MismatchError), `cluster "test", not "another"`, "another cluster"},
		{setup{Options: stream.Options{LabelSelector: "a=b"}, Run: stream.Run{Key: "other"}}, "test", nil, "",
			"another key has its own checkpoint"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			store := &checkpoint.Memory{}
			run := func(o setup, cluster string) (err error) {
				id := checkpoint.Cluster{UID: cluster}
				tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: id})
				if err != nil {
					t.Fatal(err)
				}
				defer tracker.Close()
				o.Checkpoint, o.Until = tracker, stream.UntilSynced
				srv := streamtest.NewServer(widgets())
				s := streamOf(t, srv.Client(), widgets(), &o)
				for _, e := range stream.Acked(s.Events(anHour(t))) {
					err = e
				}
				return err
			}
			for _, o := range []setup{same, fields} {
				noError(t, run(o, "test"))
			}
			err := run(tt.options, map[bool]string{true: "test", false: tt.cluster}[tt.cluster == ""])
			switch {
			case tt.want == nil && err != nil:
				t.Errorf("%s: %v", tt.why, err)
			case tt.want != nil && (!errors.As(err, tt.want) || !strings.Contains(err.Error(), tt.text)):
				t.Errorf("%s: %v, want a %T that says %q", tt.why, err, tt.want, tt.text)
			}
		})
	}
}

func TestCheckpointKeyMustBeValid(t *testing.T) {
	tracker := newTracker(t, &checkpoint.Memory{}, checkpoint.Options{})
	_, err := newRunning(streamtest.NewServer(widgets()).Client(), widgets(),
		&setup{Run: stream.Run{Checkpoint: tracker, Key: "a/b"}})
	var invalid *stream.OptionsError
	if !errors.As(err, &invalid) || invalid.Field != "Key" {
		t.Errorf("%v, want an *OptionsError of Key", err)
	}
}

// A later run is compared with the identity.
func TestCheckpointStoresItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := widgets()
		r.StorageVersionHash = "hash"
		store := &checkpoint.Memory{}
		tracker := newTracker(t, store, checkpoint.Options{})
		s := streamOf(t, streamtest.NewServer(widgets()).Client(), r,
			&setup{Options: stream.Options{LabelSelector: "b=c,a=b", FieldSelector: "metadata.name=a",
				Namespaces: []string{"y", "x"}}, Run: stream.Run{Checkpoint: tracker, Until: stream.UntilSynced}})
		for _, err := range stream.Acked(s.Events(anHour(t))) {
			if err != nil {
				t.Fatal(err)
			}
		}
		noError(t, tracker.Close())
		c, err := store.Load(t.Context(), "widgets.example.com")
		if err != nil || c == nil {
			t.Fatalf("nothing is committed: %v", err)
		}
		want := checkpoint.Identity{
			Cluster: checkpoint.Cluster{UID: "test"},
			Group:   "example.com", Resource: "widgets", StorageVersionHash: "hash",
			Namespaces: []string{"x", "y"}, LabelSelector: "a=b,b=c", FieldSelector: "metadata.name=a",
		}
		if diff := cmp.Diff(want, c.Identity); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// No run can have committed the position.
func TestRunRefusesAnImpossiblePosition(t *testing.T) {
	tests := []struct {
		delta checkpoint.Delta
		why   string
	}{
		{checkpoint.Delta{ResourceVersions: map[string]string{"": "0"}}, "version 0, which means any version"},
		{checkpoint.Delta{ResourceVersions: map[string]string{"default": "5"}}, "a version of another namespace"},
		{checkpoint.Delta{Put: []checkpoint.Object{{UID: "a"}}}, "an object without a name"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			store := &checkpoint.Memory{}
			tt.delta.Key = "widgets.example.com"
			tt.delta.Identity = checkpoint.Identity{
				Cluster: checkpoint.Cluster{UID: "test"}, Group: "example.com", Resource: "widgets",
			}
			noError(t, store.Commit(t.Context(), []checkpoint.Delta{tt.delta}))
			tracker := newTracker(t, store, checkpoint.Options{})
			s := newStream(t, streamtest.NewServer(widgets()).Client(), &setup{Run: stream.Run{Checkpoint: tracker}})
			for range 2 { // a refused run releases its key
				n := 0
				for _, err := range s.Events(anHour(t)) {
					if n++; !errors.As(err, new(*stream.OptionsError)) {
						t.Errorf("%s: %v, want an *OptionsError", tt.why, err)
						break
					}
				}
				if n != 1 {
					t.Errorf("%s: %d events, want one error", tt.why, n)
				}
			}
		})
	}
}

// With Acked, a break or a panic in the loop body does not ack the event. The next run delivers it again.
func TestLeavingTheLoopAcksNothing(t *testing.T) {
	ways := map[string]func(){"panic": func() { panic("at the disco") }, "break": nil}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &checkpoint.Memory{}
				tracker := newTracker(t, store, checkpoint.Options{})
				sc := &script{t: t, exchanges: []exchange{
					{"list", list("5", "", "a@2")},
					{"watch 5", watch("MODIFIED a@6", "open")},
					{"watch 5", watch("MODIFIED a@6", "open")},
				}}
				s := newStream(t, sc.client(), &setup{Run: stream.Run{Checkpoint: tracker}})
				run := func() (delivered []string) {
					defer func() { _ = recover() }()
					for ev, err := range stream.Acked(s.Events(anHour(t))) {
						if err != nil {
							t.Fatal(err)
						}
						delivered = append(delivered, text(ev))
						if ev.Type == stream.Modified {
							if leave != nil {
								leave()
							}
							break
						}
					}
					return delivered
				}
				run()
				noError(t, tracker.Flush(t.Context()))
				if got := storedText(t, store); got != "at 5 a@2" {
					t.Errorf("the checkpoint is %s", got)
				}
				leave = nil
				if diff := cmp.Diff([]string{"SYNCED 5", "MODIFIED a@6"}, run()); diff != "" {
					t.Errorf("the next run (-want +got):\n%s", diff)
				}
				noError(t, tracker.Close())
			})
		})
	}
}

// The next run delivers the deletions in each namespace, even of an object that was never acked.
func TestNextRunDeliversEachDeletionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		for _, ns := range []string{"one", "two"} {
			srv.Put(widgets(), ns, "kept")
			srv.Put(widgets(), ns, "gone")
		}
		store := &checkpoint.Memory{}
		run := func(ack func(stream.Event) bool) (delivered []string, pending int) {
			tracker := newTracker(t, store, checkpoint.Options{})
			s := newStream(t, srv.Client(), &setup{Options: stream.Options{Namespaces: []string{"one", "two"}},
				Run: stream.Run{Checkpoint: tracker}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for ev, err := range s.Events(ctx) {
				if err != nil {
					break
				}
				for _, o := range s.Position().Objects {
					if o.ResourceVersion == "" {
						pending++
					}
				}
				if ev.Object != nil {
					delivered = append(delivered,
						fmt.Sprintf("%s %s/%s", ev.Type, ev.Object.GetNamespace(), ev.Object.GetName()))
				}
				if ack(ev) {
					ev.Ack()
				}
			}
			noError(t, tracker.Close())
			slices.Sort(delivered)
			return delivered, pending
		}
		all := []string{"ADDED one/gone", "ADDED one/kept", "ADDED two/gone", "ADDED two/kept"}
		delivered, _ := run(func(ev stream.Event) bool {
			if ev.Type == stream.Synced {
				srv.Put(widgets(), "two", "late")
			}
			return ev.Object == nil || ev.Object.GetName() != "late"
		})
		if diff := cmp.Diff(append(all, "ADDED two/late"), delivered); diff != "" {
			t.Errorf("the first run (-want +got):\n%s", diff)
		}
		for _, o := range [][2]string{{"one", "gone"}, {"two", "gone"}, {"two", "late"}} {
			if _, err := srv.Delete(widgets(), o[0], o[1]); err != nil {
				t.Fatal(err)
			}
		}
		srv.Compact("")
		delivered, pending := run(func(stream.Event) bool { return true })
		want := []string{"DELETED one/gone", "DELETED two/gone", "DELETED two/late"}
		if diff := cmp.Diff(want, delivered); diff != "" {
			t.Errorf("the second run (-want +got):\n%s", diff)
		}
		if pending == 0 {
			t.Error("Position has no pending entry for two/late, which was not acked")
		}
		if delivered, pending := run(func(stream.Event) bool { return true }); len(delivered) > 0 || pending > 0 {
			t.Errorf("the third run delivered %q and had %d pending entries, want none: everything is acked", delivered,
				pending)
		}
	})
}
