package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestStatus: Status names the state, the cause and the version at some moments of a run against a scripted server.
func TestStatus(t *testing.T) {
	type moment struct {
		after time.Duration // since the beginning
		want  string        // State, Synced, ResourceVersion, Objects, Cause
	}
	tests := []struct {
		name    string
		script  string
		options setup
		moments []moment
		why     string
	}{
		{"healthy", "", setup{},
			[]moment{{time.Second, "Streaming synced @3 2"}}, "a watch is open"},
		{"listing", "list 1: hang", setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}},
			[]moment{{time.Second, "Listing @ 0"}}, "no object is known yet"},
		{"server away", "at 1s: close watches\nany 1-*: refuse", setup{},
			[]moment{{30 * time.Second, "Backoff @ 0: connect"}}, "the server refuses every connection"},
		{"server goes away", "at 5s: close watches\nprobe *: 503", setup{},
			[]moment{{4 * time.Second, "Streaming synced @3 2"}, {30 * time.Second, "Backoff synced @3 2: 503"}},
			"the Stream stays synced until it knows that it has missed something"},
		{"forbidden", "at 5s: forbid all\nat 5s: close watches\nat 60s: allow", setup{},
			[]moment{{30 * time.Second, "Forbidden synced @3 2: 403"}, {80 * time.Second, "Streaming synced @3 2"}},
			"the Stream is back within 20 s of its rights"},
		{"unauthorized", "at 5s: unauthorized\nat 5s: close watches\nat 60s: authorized", setup{},
			[]moment{{30 * time.Second, "Unauthorized synced @3 2: 401"}, {80 * time.Second, "Streaming synced @3 2"}},
			"the Stream is back within 20 s of its credentials"},
		{"CRD deleted", "at 5s: delete crd\nat 60s: create crd", setup{},
			[]moment{{30 * time.Second, "Gone synced @5 0: 404"}, {80 * time.Second, "Streaming synced @7 0"}},
			"the objects are deleted before the CRD"},
		{"stalled", "at 5s: silence\nprobe *: 500",
			setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: 10 * time.Second}}},
			[]moment{{9 * time.Second, "Streaming synced @3 2"}, {40 * time.Second, "Stalled synced @3 2: 500"}},
			"with a dead conversion webhook the watch is silent and lists fail"},
		{"in a gap", "at 5s: rewind 1 restart\nlist *: 500", setup{},
			[]moment{{60 * time.Second, "Backoff @3 2: 500"}},
			"until the GAP is delivered, the version stays: a run that resumes from it reports the GAP, too"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "ns", "a")
				srv.Put(widgets(), "ns", "b")
				noError(t, srv.Apply(tt.script))
				t.Cleanup(func() { noError(t, srv.CheckScript()) })
				s := streamOf(t, srv.Client(), widgets(), &tt.options)
				if got := s.Status(); got.State != stream.Idle {
					t.Errorf("before the run: %+v", got)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				began := time.Now()
				go func() {
					defer cancel(errTimeUp)
					for _, m := range tt.moments {
						time.Sleep(m.after - time.Since(began))
						synctest.Wait()
						got := s.Status()
						if diff := cmp.Diff(m.want, statusText(got)); diff != "" {
							t.Errorf("%s: after %v (-want +got):\n%s", tt.why, m.after, diff)
						}
						if err := oracle.CheckStatuses([]stream.Status{got}); err != nil {
							t.Errorf("after %v: %v", m.after, err)
						}
						if got.Since.After(time.Now()) || got.Since.Before(began) {
							t.Errorf("after %v: since %v", m.after, got.Since)
						}
					}
				}()
				for range s.Events(ctx) {
				}
				if got := s.Status(); got.State != stream.Stopped || !errors.Is(got.Cause, errTimeUp) {
					t.Errorf("after the run: %+v", got)
				}
			})
		})
	}
}

func statusText(s stream.Status) string {
	text := string(s.State)
	if s.Synced {
		text += " synced"
	}
	text += fmt.Sprintf(" @%s %d", s.ResourceVersion, s.Objects)
	var status apierrors.APIStatus
	switch {
	case errors.As(s.Cause, &status):
		text += fmt.Sprint(": ", status.Status().Code)
	case s.Cause != nil:
		text += ": connect"
	}
	return text
}

func TestStatusChangedReceivesEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", refuse}, {"list", refuse}, {"list", list("5", "", "a@2")},
			{"watch 5", watch("wait 5s")},
			{"probe", refuse}, {"probe", list("5", "")},
			{"watch 5", watch("wait 5s", "ERROR 410 Expired")},
			{"list", list("9", "", "a@2")}, {"watch 9", watch("open")},
		}}
		var got []string
		s := newStream(t, sc.client(),
			&setup{Options: stream.Options{Trace: &stream.Trace{StatusChanged: func(s stream.Status) {
				got = append(got, fmt.Sprintf("%s %v %d", s.State, s.Synced, s.Attempt))
			}}}})
		record(t, s, time.Minute)
		want := []string{
			"Listing false 0", "Backoff false 1", // the second failure does not change the State
			"Listing false 0", "Streaming true 0", "Resuming true 0", "Backoff true 1",
			"Streaming true 0", "Listing false 0", "Streaming true 0", "Stopped true 0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Backoff lasts until an attempt succeeds (-want +got):\n%s", diff)
		}
	})
}

func TestTraceReceivesRequestsFramesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"watch initial", watch("ADDED a@2", "MARKER @5", "BOOKMARK @6", "wait 5s", "ERROR 410 Expired")},
			{"list", list("9", "p", "a@2", "b@3")},
			{"list continue=p", refuse}, {"list continue=p", list("9", "", "c@4")},
			{"watch 9", watch("ADDED d@10", "open")},
			{"watch 10", watch("open")},
		}}
		var got []string
		log := func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
		failed := func(err error) string {
			if err == nil {
				return "nil"
			}
			return "failed"
		}
		s := streamOf(t, sc.client(), widgets(),
			&setup{Options: stream.Options{Namespaces: []string{"default"}, Trace: &stream.Trace{
				RequestDone: func(r stream.Request) {
					log("%s in %s rv=%s continued=%v initial=%v objects=%d %s", r.Verb, r.Namespace,
						r.ResourceVersion, r.Continued, r.InitialEvents, r.Objects, failed(r.Err))
				},
				FrameReceived: func(f stream.Event) { log("%s@%s in %s", f.Type, f.ResourceVersion, f.Namespace) },
				WatchClosed: func(e stream.Request) {
					log("closed in %s after %v, %d frames, %s", e.Namespace, e.Duration, e.Objects, failed(e.Err))
				},
			}, Requests: stream.Requests{IdleTimeout: 40 * time.Second}}})
		record(t, s, 50*time.Second)
		want := []string{
			"watch in default rv= continued=false initial=true objects=0 nil",
			"ADDED@2 in default", "BOOKMARK@5 in default", "BOOKMARK@6 in default",
			"closed in default after 5s, 3 frames, failed",
			"list in default rv= continued=false initial=false objects=2 nil",
			"list in default rv= continued=true initial=false objects=0 failed",
			"list in default rv= continued=true initial=false objects=1 nil",
			"watch in default rv=9 continued=false initial=false objects=0 nil",
			"ADDED@10 in default",
			"closed in default after 40s, 1 frames, failed",
			"probe in default rv= continued=false initial=false objects=0 nil",
			"watch in default rv=10 continued=false initial=false objects=0 nil",
		}
		if n := len(got) - 1; n > 0 && strings.HasPrefix(got[n], "closed in default after ") {
			got = got[:n] // how long this watch was open depends on the random waits
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestStatusString(t *testing.T) {
	for _, tt := range []struct {
		status stream.Status
		want   string
	}{
		{stream.Status{}, ""},
		{stream.Status{State: stream.Streaming, ResourceVersion: "7"}, "Streaming @7"},
		{stream.Status{State: stream.Backoff, Namespace: "shop", Attempt: 4, Cause: errors.New("refused"),
			NextTry: time.Date(2026, 11, 26, 15, 4, 5, 0, time.UTC)},
			"Backoff in shop, 4 failures, next try at 15:04:05: refused"},
	} {
		if got := tt.status.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
