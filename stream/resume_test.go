package stream_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestResumeOnlyAfterWhatWasReceived: Resume goes on only where a loop has received everything. Otherwise it begins
// again, with a snapshot.
func TestResumeOnlyAfterWhatWasReceived(t *testing.T) {
	all := []string{"ADDED default/a@2", "ADDED default/b@3", "ADDED default/c@4", "SYNCED @4"}
	resume := stream.Run{Start: stream.Resume()}
	muxOf := func(t *testing.T, sources ...mux.Source) *mux.Mux {
		m, err := mux.New(nil, sources...)
		noError(t, err)
		return m
	}
	one := func(seq func(func(stream.Event, error) bool)) {
		for range seq {
			synctest.Wait()
			break
		}
	}
	tests := []struct {
		before func(*testing.T, context.Context, *stream.Stream)
		want   []string
		why    string
	}{
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			streamtest.Record(s.With(stream.Run{Until: stream.UntilSynced}).Events(ctx), nil)
		}, []string{"SYNCED @4"}, "a loop has received everything"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			one(muxOf(t, s).Events(ctx))
		}, all, "a Mux has discarded what waited"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			one(muxOf(t, s.With(resume)).Events(ctx))
		}, all, "what waits comes only from its Mux"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			func() {
				defer func() { _ = recover() }()
				for range s.Events(ctx) {
					panic("mine")
				}
			}()
		}, all, "the loop body has panicked"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			func() {
				defer func() { _ = recover() }()
				for range s.Events(ctx) {
					panic("mine")
				}
			}()
			streamtest.Record(s.With(stream.Run{Until: stream.UntilSynced}).Events(ctx), nil)
		}, []string{"SYNCED @4"}, "a later run has received everything"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			func() {
				defer func() { _ = recover() }()
				for range muxOf(t, s.With(resume)).Events(ctx) {
					panic("mine")
				}
			}()
		}, all, "the loop body of a Mux has panicked"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			w := informer.Watch(ctx, s.With(resume))
			<-w.ResultChan()
			synctest.Wait()
			w.Stop()
			<-w.Done()
		}, all, "the receiver of a watch has not taken the next event"},
		{func(t *testing.T, ctx context.Context, s *stream.Stream) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			streamtest.Record(s.With(stream.Run{Start: stream.Now()}).Events(ctx), nil)
		}, all, "a run from now has not reached SYNCED"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				for _, name := range []string{"a", "b", "c"} {
					srv.Put(widgets(), "default", name)
				}
				ctx := anHour(t)
				s, err := stream.New(srv.Client(), widgets(), nil)
				noError(t, err)
				tt.before(t, ctx, s)
				rec := streamtest.Record(s.With(resume).Events(ctx),
					func(ev stream.Event) bool { return ev.Type == stream.Synced })
				if diff := cmp.Diff(tt.want, oracle.Texts(rec.Events)); diff != "" || rec.Err != nil {
					t.Errorf("%v (-want +got):\n%s", rec.Err, diff)
				}
			})
		})
	}
}

// TestRetryAfterAGapOfAResumedRun: a source that resumes, and whose first answer in a run of the Mux is a gap with
// FailOnGap, begins again when OnError says Retry.
func TestRetryAfterAGapOfAResumedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets()).AllFaults(friend.Access{})
		noError(t, srv.Do("410 as status"))
		srv.Put(widgets(), "default", "a")
		s, err := stream.New(srv.Client(), widgets(), nil)
		noError(t, err)
		failures := 0
		m, err := mux.New(&mux.Options{OnError: func(string, error) mux.Decision {
			failures++
			return mux.Retry
		}}, s.With(stream.Run{Start: stream.Resume(), FailOnGap: true}))
		noError(t, err)
		synced := func(ev stream.Event) bool { return ev.Type == stream.Synced }
		streamtest.Record(m.Events(anHour(t)), synced)
		srv.Put(widgets(), "default", "b")
		noError(t, srv.Do("compact"))
		srv.Put(widgets(), "default", "c")
		noError(t, srv.Do("compact"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		rec := streamtest.Record(m.Events(ctx), synced)
		want := []string{"ADDED default/a@2", "ADDED default/b@3", "ADDED default/c@4", "SYNCED @4"}
		if diff := cmp.Diff(want, oracle.Texts(rec.Events)); diff != "" || failures != 1 {
			t.Errorf("%d failures, %v (-want +got):\n%s", failures, rec.Err, diff)
		}
	})
}

// TestCheckpointDecidesAgainstResume: with a Checkpoint, what was not acked comes again, also in a Mux that runs again.
func TestCheckpointDecidesAgainstResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		for _, name := range []string{"a", "b", "c"} {
			srv.Put(widgets(), "default", name)
		}
		s, err := stream.New(srv.Client(), widgets(), nil)
		noError(t, err)
		tracker := newTracker(t, &checkpoint.Memory{}, checkpoint.Options{})
		m, err := mux.New(nil, s.With(stream.Run{Start: stream.Resume(), Checkpoint: tracker}))
		noError(t, err)
		for range m.Events(anHour(t)) {
			synctest.Wait() // the others wait
			break           // none is acked
		}
		if n := m.Status().Queued; n != 0 {
			t.Errorf("%d events wait for a run that resumes from the checkpoint", n)
		}
		rec := streamtest.Record(m.Events(anHour(t)), func(ev stream.Event) bool { return ev.Type == stream.Synced })
		var names []string
		for _, ev := range rec.Events {
			if ev.HasObject() {
				names = append(names, ev.NamespacedName().Name)
			}
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" || rec.Err != nil {
			t.Errorf("%v (-want +got):\n%s", rec.Err, diff)
		}
		noError(t, tracker.Close())
	})
}

// TestResumeAfterNow: a run from now that has reached SYNCED knows what existed, also if a gap follows. One that has
// not does not, and the next run begins with everything.
func TestResumeAfterNow(t *testing.T) {
	tests := []struct {
		namespaces []string
		script     string
		until      stream.Type // the first run ends there, or after ten minutes
		resumed    []string
		why        string
	}{
		{nil, "", stream.Gap,
			[]string{"GAP expired 4..5", "DELETED one/b@4 inferred", "SYNCED @5"}, "it is left at GAP"},
		{nil, "at 0s: list *: 503\ninitial *: 503", "",
			[]string{"GAP expired 4..5", "DELETED one/b@4 inferred", "SYNCED @5"}, "it is left before GAP"},
		{[]string{"one"}, "watch *: 503\nlist *: 503\ninitial *: 503", "",
			[]string{"ADDED one/a@2", "SYNCED @3 in one"}, "it is left before SYNCED"},
		{[]string{"one", "two"}, "watch * in two: 503\nlist * in two: 503\ninitial * in two: 503", "",
			[]string{"ADDED one/a@2", "SYNCED"}, "one of two namespaces is not read"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "one", "a")
				srv.Put(widgets(), "three", "a")
				s, err := stream.New(srv.Client(), widgets(), &stream.Options{Namespaces: tt.namespaces})
				noError(t, err)
				later, script := strings.CutPrefix(tt.script, "at 0s: ")
				if !script {
					noError(t, srv.Apply(tt.script))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				for ev, err := range s.With(stream.Run{Start: stream.Now()}).Events(ctx) {
					if err != nil || ev.Type == tt.until {
						break
					}
					switch ev.Type {
					case stream.Synced:
						srv.Put(widgets(), "one", "b")
					case stream.Added:
						synctest.Wait()
						noError(t, srv.Do("silence")) // so that the deletion is not delivered
						_, _ = srv.Delete(widgets(), "one", "b")
						noError(t, srv.Apply(later))
						noError(t, srv.Do("compact"))
						noError(t, srv.Do("restart"))
					}
				}
				noError(t, srv.Do("heal"))
				rec := streamtest.Record(s.With(stream.Run{Start: stream.Resume()}).Events(anHour(t)),
					func(ev stream.Event) bool { return ev.Type == stream.Synced && ev.ResourceVersion != "4" })
				got := oracle.Texts(rec.Events)
				if len(got) > 0 && got[0] == "SYNCED @4" { // from a run that had a version when it ended
					got = got[1:]
				}
				if diff := cmp.Diff(tt.resumed, got); diff != "" || rec.Err != nil {
					t.Errorf("%s: %v (-want +got):\n%s", tt.why, rec.Err, diff)
				}
			})
		})
	}
}
