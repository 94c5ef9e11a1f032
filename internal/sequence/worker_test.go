package sequence_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
)

func widgets() gvr.Resource {
	r := gvr.Resource{Kind: "Widget", Namespaced: true}
	r.Group, r.Version, r.Resource = "example.com", "v1", "widgets"
	return r
}

var errDone = errors.New("the test has seen enough")

// newWorker returns a Worker of the namespace n, and a function that runs it until it has emitted a number of Events,
// and returns these.
func newWorker(t *testing.T, srv *apiserver.Server) (w *sequence.Worker, run func(events int) []string) {
	return newLoggingWorker(t, srv, slog.New(slog.DiscardHandler))
}

func newLoggingWorker(
	t *testing.T, srv *apiserver.Server, log *slog.Logger,
) (w *sequence.Worker, run func(events int) []string) {
	target := sequence.NewTarget(sequence.Config{
		Resource: widgets(), Logger: log,
		Requests: sequence.Requests{PageSize: 500, IdleTimeout: time.Minute},
		Between:  func(least, _ time.Duration) time.Duration { return least },
		Errors: sequence.Errors{
			Request: func(_, _ string, cause error) error { return cause },
			End:     func(s protocol.Stopped) error { return s.Err },
		},
	})
	c := srv.Client()
	pace, release := client.PaceOf(c)
	t.Cleanup(release)
	var emitted []string
	enough := 0
	shared := &sequence.Run{Client: c, Pace: pace, Workers: func() []*sequence.Worker { return []*sequence.Worker{w} }}
	w = sequence.New(target, shared, "n", sequence.Door{Emit: func(ev *sequence.Event) error {
		text := string(ev.Kind) + " " + ev.ResourceVersion
		if ev.Object != nil {
			text += " " + ev.Object.GetName()
		}
		if emitted = append(emitted, text); len(emitted) == enough {
			return errDone
		}
		return nil
	}})
	return w, func(events int) []string {
		emitted, enough = nil, events
		if err := w.Run(t.Context()); !errors.Is(err, errDone) {
			t.Errorf("Run returns %v", err)
		}
		return emitted
	}
}

// A Worker that is not watched for a while goes on where it stands, with what it knows, as if nobody had left.
func TestWorkerContinuesWhereItStands(t *testing.T) {
	for _, tt := range []struct {
		why  string
		from sequence.Origin // of the whole run
		do   string          // an action of the server meanwhile
		want []string
	}{
		{"from its version, with the changes since", sequence.Origin{}, "",
			[]string{"SYNCED 3", "DELETED 4 a", "ADDED 5 c"}},
		{"with the differences if that version has expired", sequence.Origin{}, "compact",
			[]string{"GAP ", "ADDED 5 c", "DELETED 2 a", "SYNCED 5"}},
		{"with the differences if they are asked for", sequence.Origin{Snapshot: true}, "",
			[]string{"ADDED 5 c", "DELETED 2 a", "SYNCED 5"}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := apiserver.NewServer(widgets())
				srv.Put(widgets(), "n", "a")
				srv.Put(widgets(), "n", "b")
				w, run := newWorker(t, srv)
				w.Begin(tt.from)
				if diff := cmp.Diff([]string{"ADDED 2 a", "ADDED 3 b", "SYNCED 3"}, run(3)); diff != "" {
					t.Errorf("the first run (-want +got):\n%s", diff)
				}
				if _, err := srv.Delete(widgets(), "n", "a"); err != nil {
					t.Fatal(err)
				}
				srv.Put(widgets(), "n", "c")
				if tt.do != "" {
					if err := srv.Do(script.Everything(), tt.do); err != nil {
						t.Fatal(err)
					}
				}
				w.Continue(tt.from)
				if diff := cmp.Diff(tt.want, run(len(tt.want))); diff != "" {
					t.Errorf("the second run (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A Worker that has never run stands where an earlier process left the namespace.
func TestWorkerStandsWhereItIsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.NewServer(widgets())
		a := srv.Put(widgets(), "n", "a")
		b := srv.Put(widgets(), "n", "b")
		w, run := newWorker(t, srv)
		p := &checkpoint.Position{ResourceVersions: map[string]string{"n": b.GetResourceVersion()}, Partial: true}
		w.Stand(p)
		w.Enter(checkpoint.Object{Namespace: "n", Name: "a", UID: a.GetUID(), ResourceVersion: a.GetResourceVersion()})
		want := checkpoint.Position{ResourceVersions: p.ResourceVersions, Partial: true, Objects: []checkpoint.Object{
			{Namespace: "n", Name: "a", UID: a.GetUID(), ResourceVersion: a.GetResourceVersion()},
		}}
		if diff := cmp.Diff(want, w.Position()); diff != "" {
			t.Errorf("Position (-want +got):\n%s", diff)
		}
		if s := w.Status(); s.State != sequence.Idle || s.Objects != 1 || s.ResourceVersion != b.GetResourceVersion() {
			t.Errorf("Status is %+v", s)
		}
		srv.Put(widgets(), "n", "a", "spec.size=2")
		w.Continue(sequence.Origin{Position: p})
		if diff := cmp.Diff([]string{"SYNCED 3", "MODIFIED 4 a"}, run(2)); diff != "" {
			t.Errorf("the run (-want +got):\n%s", diff)
		}
	})
}

// However a run ends, no watch stays open and the Status says that it has ended.
func TestWorkerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.NewServer(widgets())
		w, _ := newWorker(t, srv)
		ctx, cancel := context.WithCancelCause(t.Context())
		w.Begin(sequence.Origin{})
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		if s := w.Status(); s.State != sequence.Streaming || !s.Synced {
			t.Errorf("while it runs, Status is %+v", s)
		}
		cancel(errDone)
		if err := <-ended; err != errDone {
			t.Errorf("Run returns %v, want the cause of its context", err)
		}
		if s := w.Status(); s.State != sequence.Stopped || s.Cause != errDone || !s.Synced {
			t.Errorf("at the end, Status is %+v", s)
		}
	})
}

// recorder is a slog.Handler, as people write it for a test: without WithAttrs of its own.
type recorder struct {
	slog.Handler
	lines map[string]string // the file of each message, and its first two attributes
}

func (*recorder) Enabled(context.Context, slog.Level) bool { return true }

func (h *recorder) Handle(_ context.Context, r slog.Record) error {
	line := filepath.Base(r.Source().File)
	n := 0
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		n++
		return n < 2
	})
	h.lines[r.Message] = line
	return nil
}

// A log line says where it comes from, and what it is about.
func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.NewServer(widgets())
		if err := srv.Apply(script.Everything(), "initial 1: 503\nlist 1: 503"); err != nil {
			t.Fatal(err)
		}
		h := &recorder{Handler: slog.DiscardHandler, lines: map[string]string{}}
		w, run := newLoggingWorker(t, srv, slog.New(h))
		w.Begin(sequence.Origin{})
		run(1)
		about := " resource=widgets.v1.example.com namespace=n"
		want := map[string]string{
			"watching": "requests.go" + about, "trying again after a failure": "pacing.go" + about,
			"watching again": "pacing.go" + about, "synced": "delivery.go" + about,
		}
		if diff := cmp.Diff(want, h.lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
