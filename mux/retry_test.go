package mux_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func retrying(string, error) mux.Decision { return mux.Retry }

// A Stream that failed because of a gap starts from the beginning. After a later failure it resumes.
func TestRetryAfterAGapStartsOverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "default", "a")
		gaps, others := 0, 0
		m := newMux(t, &mux.Options{OnError: func(_ string, err error) mux.Decision {
			if errors.As(err, new(*stream.GapError)) {
				gaps++
			} else {
				others++
			}
			return mux.Retry
		}}, newStream(t, srv, widgets(), &stream.Options{
			Requests: stream.Requests{GiveUpAfter: 30 * time.Second},
		}).With(stream.Run{FailOnGap: true}))
		go func() {
			time.Sleep(10 * time.Second)
			do := func(what string) {
				do(t, srv, what)
			}
			do("widgets silence") // so that the changes are not delivered
			for i := range 5 {
				srv.Put(widgets(), "default", "a", fmt.Sprint("spec.n=", i))
			}
			do("restart")
			time.Sleep(10 * time.Minute)
			do("unauthorized")
			do("close watches")
			time.Sleep(time.Minute)
			do("authorized")
			time.Sleep(10 * time.Minute)
			srv.Put(widgets(), "default", "late")
			time.Sleep(time.Minute)
			m.Drain()
		}()
		rec := streamtest.Record(m.Events(anHour(t)), nil)
		texts := rec.Texts()
		begun := strings.Count(strings.Join(texts, "\n"), "ADDED default/a")
		if rec.Err != nil || gaps != 1 || others == 0 || begun != 2 ||
			!strings.HasPrefix(texts[len(texts)-1], "ADDED default/late") {
			t.Errorf("%d gaps, %d other failures, begun %d times, ended with %v:\n%s", gaps, others, begun, rec.Err,
				strings.Join(texts, "\n"))
		}
	})
}

// TestRetryMissesNothing: a Stream fails, object a comes and object x goes, and the Stream is retried.
func TestRetryMissesNothing(t *testing.T) {
	unauthorized := func(srv *streamtest.Server) {
		do(t, srv, "unauthorized")
		do(t, srv, "close watches")
	}
	expired := func(srv *streamtest.Server) {
		do(t, srv, "silence")
		srv.Put(widgets(), "default", "x", "spec.n=1")
		do(t, srv, "restart")
	}
	tests := []struct {
		name    string
		run     stream.Run
		paged   bool
		tracked bool
		fail    func(*streamtest.Server)
		want    []string
		why     string
	}{
		{"now", stream.Run{Start: stream.Now()}, false, false, unauthorized,
			[]string{"SYNCED @2", "SYNCED @2", "ADDED default/a@3", "DELETED default/x@4"}, "it resumes"},
		{"now, with a checkpoint and no ack", stream.Run{Start: stream.Now()}, false, true, unauthorized,
			[]string{"SYNCED @2", "SYNCED @2", "ADDED default/a@3", "DELETED default/x@4"},
			"the version of SYNCED was committed before it was delivered, so it resumes"},
		{"after a version, expired", stream.Run{Start: stream.After("2"), FailOnGap: true}, false, false, expired,
			[]string{"SYNCED @2", "ADDED default/a@4", "SYNCED @5"},
			"the version has expired, so it begins with a snapshot"},
		{"until SYNCED", stream.Run{Until: stream.UntilSynced}, true, false, nil,
			[]string{"ADDED default/x@2", "ADDED default/a@3 inferred", "DELETED default/x@2 inferred", "SYNCED @4"},
			"a snapshot is compared with what was delivered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "default", "x")
				run := tt.run
				if tt.tracked {
					run.Checkpoint, run.Key = scenario.NewTracker(t, &checkpoint.Memory{}), "widgets"
				}
				s := newStream(t, srv, widgets(), &stream.Options{
					Requests: stream.Requests{GiveUpAfter: 30 * time.Second, PagedLists: tt.paged},
				})
				m := newMux(t, &mux.Options{OnError: retrying}, s.With(run))
				if tt.fail == nil {
					if err := srv.Apply("watch *: 503"); err != nil {
						t.Error(err)
					}
				}
				var running sync.WaitGroup
				running.Go(func() {
					time.Sleep(10 * time.Second)
					if tt.fail != nil {
						tt.fail(srv)
						time.Sleep(time.Minute)
					}
					srv.Put(widgets(), "default", "a")
					if _, err := srv.Delete(widgets(), "default", "x"); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
					do(t, srv, "authorized")
					do(t, srv, "heal")
					time.Sleep(time.Minute)
					m.Stop()
				})
				rec := streamtest.Record(m.Events(anHour(t)), nil)
				if diff := cmp.Diff(tt.want, rec.Texts()); rec.Err != nil || diff != "" {
					t.Errorf("%s: %v, -want +got:\n%s", tt.why, rec.Err, diff)
				}
				running.Wait()
				if run.Checkpoint != nil {
					_ = run.Checkpoint.Close()
				}
			})
		})
	}
}

// The time that the loop takes for a source's events does not count.
func TestLoopTimeMakesNoSourceHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked time.Time
		var longest time.Duration
		tries := 0
		source := &scripted{key: "a", run: func(_ context.Context, put func(stream.Event) bool) error {
			if tries++; tries > 1 {
				longest = max(longest, time.Since(asked))
			}
			for i := range 70 {
				if !put(modified(fmt.Sprint("o", i), fmt.Sprint(i))) {
					return nil
				}
			}
			return errBroken
		}}
		m := newMux(t, &mux.Options{OnError: func(string, error) mux.Decision { asked = time.Now(); return mux.Retry }},
			source)
		for _, err := range m.Events(anHour(t)) {
			if err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if longest < 4*time.Second {
			t.Errorf("the source failed at once %d times in a row, and waited for %v at most", tries, longest)
		}
	})
}

// The event that was being handled in a panic is delivered again, since the source starts from the beginning.
func TestPanicLosesNoEvent(t *testing.T) {
	tests := []struct {
		name string
		do   func(*streamtest.Server) // after a minute
		want string                   // of b, in the end
		why  string
	}{
		{"in a snapshot", nil, "ADDED default/b@3", "the object was not delivered"},
		{"modified", func(srv *streamtest.Server) { srv.Put(widgets(), "default", "b", "spec.n=1") },
			"ADDED default/b@5", "its new state is delivered"},
		{"deleted", func(srv *streamtest.Server) { _, _ = srv.Delete(widgets(), "default", "b") }, "",
			"a deleted object is not delivered again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				for _, name := range []string{"a", "b", "c"} {
					srv.Put(widgets(), "default", name)
				}
				var armed atomic.Bool
				armed.Store(tt.do == nil)
				s := newStream(t, srv, widgets(), &stream.Options{Transform: func(u *unstructured.Unstructured) {
					if u.GetName() == "b" && armed.CompareAndSwap(true, false) {
						panic("once")
					}
				}})
				m := newMux(t, &mux.Options{OnError: retrying}, s)
				go func() {
					time.Sleep(time.Minute)
					if tt.do != nil {
						armed.Store(true)
						tt.do(srv)
					}
					time.Sleep(time.Minute)
					m.Drain()
				}()
				rec := streamtest.Record(m.Events(anHour(t)), nil)
				if rec.Err != nil {
					t.Fatal(rec.Err)
				}
				texts, begun := rec.Texts(), 0
				for i, text := range texts {
					if strings.HasPrefix(text, "ADDED default/a@") {
						begun = i // the last time
					}
				}
				got := ""
				for _, text := range texts[begun:] {
					if strings.Contains(text, "default/b@") {
						got = text
					}
				}
				if got != tt.want {
					t.Errorf("%s: got %q after the restart, want %q\n%s", tt.why, got, tt.want,
						strings.Join(texts, "\n"))
				}
			})
		})
	}
}

// meddling is a log Handler that does something when a failure is about to be logged.
type meddling struct {
	slog.Handler
	do func()
}

func (h meddling) WithAttrs([]slog.Attr) slog.Handler { h.do(); return h }

// The source is being removed, or the run is being stopped.
func TestFailureWhileEndingIsIgnored(t *testing.T) {
	tests := []struct {
		name   string
		within string
		do     func(*mux.Mux)
		why    string
	}{
		{"removed before OnError", "log", func(m *mux.Mux) { m.Remove("bad") }, "a failure after Remove is ignored"},
		{"removed in OnError", "OnError", func(m *mux.Mux) { m.Remove("bad") }, "likewise"},
		{"stopped in OnError", "OnError", (*mux.Mux).Stop, "Stop is without an error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m *mux.Mux
				o := &mux.Options{OnError: func(string, error) mux.Decision {
					if tt.within == "OnError" {
						tt.do(m)
					}
					return mux.Fail
				}}
				if tt.within == "log" {
					o.Logger = slog.New(meddling{slog.DiscardHandler, func() { tt.do(m) }})
				}
				m = newMux(t, o, ending("bad", errBroken, synced()), emitting("good", synced()))
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTimeUp)
				defer cancel()
				for _, err := range m.Events(ctx) {
					if errors.As(err, new(*mux.SourceError)) {
						t.Errorf("%s: it ended with %v", tt.why, err)
					}
				}
			})
		})
	}
}

// After the only source is dropped, the run waits for another one.
func TestRunOutlivesItsOnlySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, &mux.Options{OnError: func(string, error) mux.Decision { return mux.Drop }},
			ending("bad", errBroken, synced()))
		time.AfterFunc(time.Minute, func() {
			add(t, m, ending("bad", nil, modified("x", "1")), nil)
		})
		n := 0
		for _, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Errorf("it ended with %v", err)
			}
			n++
		}
		if n != 2 {
			t.Errorf("%d events, want those of both", n)
		}
	})
}

func TestKeyMakesTwoSourcesOfOneResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "default", "a")
		m := newMux(t, nil, newStream(t, srv, widgets(), nil))
		second := newStream(t, srv, widgets(), &stream.Options{Objects: stream.Metadata})
		var taken *stream.OptionsError
		if err := m.Add(second, nil); !errors.As(err, &taken) || taken.Field != "Key" ||
			!strings.Contains(err.Error(), "SourceOptions.Key") {
			t.Errorf("two Streams with the same key: %v", err)
		}
		add(t, m, second, &mux.SourceOptions{Key: "metadata"})
		delivered := map[string]int{}
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if delivered[mux.SourceOf(ev)]++; m.Status().AllSynced {
				m.Stop()
			}
		}
		if delivered["widgets.example.com"] != 2 || delivered["metadata"] != 2 {
			t.Errorf("delivered %v, want ADDED and SYNCED of each", delivered)
		}
		if !m.Remove("metadata") || m.Remove("metadata") {
			t.Error("the source is not removed by its key, or twice")
		}
	})
}
