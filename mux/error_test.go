package mux_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var errBroken = errors.New("broken")

func panicking(key string) *scripted {
	return &scripted{key: key, run: func(_ context.Context, put func(stream.Event) bool) error {
		put(modified("x", "1"))
		panic(errBroken)
	}}
}

func TestOnError(t *testing.T) {
	tests := []struct {
		name    string
		source  *scripted
		onError func(m *mux.Mux) mux.Decision
		want    string // that the sequence ends with
		left    []string
		log     string
		why     string
	}{
		{"no OnError", ending("bad", errBroken, modified("x", "1")), nil, `mux: source "bad" failed: broken`,
			[]string{"bad", "good"}, "ending the run", "without OnError a failure ends the run"},
		{"fail", ending("bad", errBroken, modified("x", "1")), func(*mux.Mux) mux.Decision { return mux.Fail },
			`mux: source "bad" failed: broken`, []string{"bad", "good"}, "ending the run", "Fail ends the run"},
		{"no decision", ending("bad", errBroken, modified("x", "1")), func(*mux.Mux) mux.Decision { return "" },
			`mux: source "bad" failed: broken`, []string{"bad", "good"}, "", "an unknown decision is Fail"},
		{"drop", ending("bad", errBroken, modified("x", "1")), func(*mux.Mux) mux.Decision { return mux.Drop }, "",
			[]string{"good"}, "dropping it", "Drop affects no other source"},
		{"panic", ending("bad", errBroken, modified("x", "1")), func(*mux.Mux) mux.Decision { panic("oops") },
			`mux: source "bad" failed: broken, and Options.OnError: panic: oops`,
			[]string{"bad", "good"}, "ending the run", "a panic of OnError ends the run"},
		{"panic after Stop", ending("bad", errBroken, modified("x", "1")),
			func(m *mux.Mux) mux.Decision { m.Stop(); panic("oops") },
			`mux: source "bad" failed: broken, and Options.OnError: panic: oops`,
			[]string{"bad", "good"}, "", "a panic is never lost"},
		{"a source that panics", panicking("bad"), func(*mux.Mux) mux.Decision { return mux.Drop }, "",
			[]string{"good"}, "panic: broken", "a panic affects no other source"},
		{"a source that panics ends it", panicking("bad"), nil, `mux: source "bad" failed: panic: broken`,
			[]string{"bad", "good"}, "", "without OnError a panic ends the run"},
		{"replace", ending("bad", errBroken, modified("x", "1")), func(m *mux.Mux) mux.Decision {
			if !m.Remove("bad") || m.Add(emitting("bad", modified("x", "2")), nil) != nil {
				panic("the source can't be replaced")
			}
			return mux.Retry // of a source that was removed
		}, "", []string{"bad", "good"}, "", "the decision does not concern a new source with the key"},
		{"replace, and drop", ending("bad", errBroken, modified("x", "1")), func(m *mux.Mux) mux.Decision {
			m.Remove("bad")
			if m.Add(emitting("bad", modified("x", "2")), nil) != nil {
				panic("the source can't be replaced")
			}
			return mux.Drop
		}, "", []string{"bad", "good"}, "", "nor does Drop"},
		{"stop", ending("bad", errBroken, modified("x", "1")),
			func(m *mux.Mux) mux.Decision { m.Stop(); return mux.Retry }, "",
			[]string{"bad", "good"}, "", "OnError may call Stop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				o := &mux.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
				var m *mux.Mux
				calls, delivered := 0, 0
				if tt.onError != nil {
					o.OnError = func(key string, err error) mux.Decision {
						if calls++; key != "bad" || !errors.Is(err, errBroken) || delivered != 1 {
							t.Errorf("OnError(%s, %v) after %d events", key, err, delivered)
						}
						return tt.onError(m)
					}
				}
				m = newMux(t, o, tt.source, emitting("good", synced()))
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTimeUp)
				defer cancel()
				var last error
				for ev, err := range m.Events(ctx) {
					if err != nil && err != errTimeUp {
						last = err
					}
					if mux.SourceOf(ev) == "bad" && ev.ResourceVersion == "1" {
						delivered++
					}
				}
				got := ""
				if last != nil {
					got = last.Error()
					var failed *mux.SourceError
					var panicked *stream.PanicError
					if !errors.As(last, &failed) || failed.Key != "bad" || !errors.Is(last, errBroken) ||
						strings.Contains(got, "panic:") && !(errors.As(last, &panicked) && len(panicked.Stack) > 0) {
						t.Errorf("%s: the error is a %T", tt.why, last)
					}
				}
				if got != tt.want || delivered != 1 || tt.onError != nil && calls != 1 {
					t.Errorf("%s: it ended with %q after %d events and %d calls", tt.why, got, delivered, calls)
				}
				var left []string
				for _, s := range m.Status().Sources {
					left = append(left, s.Key)
				}
				if diff := cmp.Diff(tt.left, left); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if !strings.Contains(log.String(), tt.log) {
					t.Errorf("%s: the log has %s", tt.why, log.String())
				}
			})
		})
	}
}

// The waits are in the Status, and are short again after a healthy minute.
func TestRetryWaitsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Time
		source := &scripted{key: "a", run: func(_ context.Context, put func(stream.Event) bool) error {
			begun = append(begun, time.Now())
			put(synced())
			if len(begun) == 12 {
				time.Sleep(61 * time.Second)
			}
			return errBroken
		}}
		var mu sync.Mutex
		var attempts []int
		m := newMux(t, &mux.Options{OnError: func(string, error) mux.Decision { return mux.Retry }}, source)
		for _, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if !m.Status().AllSynced {
				t.Error("Status.AllSynced is false though SYNCED was delivered")
			}
			if len(begun) == 16 {
				break
			}
			go func() {
				synctest.Wait()
				if s := m.Status().Sources[0]; s.State == stream.Backoff {
					if s.Err != errBroken || s.NextTry.Before(time.Now()) || time.Until(s.NextTry) > 30*time.Second ||
						m.Status().AllSynced {
						t.Errorf("the status is %+v", s)
					}
					mu.Lock()
					defer mu.Unlock()
					attempts = append(attempts, s.Attempt)
				}
			}()
		}
		var long bool
		for i := 1; i < len(begun); i++ {
			wait := begun[i].Sub(begun[i-1])
			most := min(time.Second<<min(i-1, 10), 30*time.Second)
			switch {
			case i == 12:
				most = 61*time.Second + time.Second
			case i > 12:
				most = time.Second << (i - 12)
			}
			if wait > most {
				t.Errorf("wait %d is %v, want at most %v", i, wait, most)
			}
			long = long || wait > 4*time.Second && i != 12
		}
		if !long {
			t.Error("the waits did not grow")
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(attempts) < 8 || slices.Max(attempts) < 8 {
			t.Errorf("the attempts are %v", attempts)
		}
	})
}

// A Stream resumes, and so does a type that embeds one.
func TestRetryResumesWhereItWas(t *testing.T) {
	type embeds struct{ *stream.Stream }
	for _, source := range []func(*stream.Stream) mux.Source{
		func(s *stream.Stream) mux.Source { return s },
		func(s *stream.Stream) mux.Source { return embeds{s} },
	} {
		synctest.Test(t, func(t *testing.T) { testRetryResumes(t, source) })
	}
}

func testRetryResumes(t *testing.T, source func(*stream.Stream) mux.Source) {
	srv := streamtest.NewServer(widgets())
	for _, name := range []string{"a", "b", "c"} {
		srv.Put(widgets(), "default", name)
	}
	s := newStream(t, srv, widgets(), &stream.Options{
		Requests: stream.Requests{GiveUpAfter: 10 * time.Second, PagedLists: true},
	})
	var failures []error
	var resume *checkpoint.Position
	m := newMux(t, &mux.Options{OnError: func(_ string, err error) mux.Decision {
		failures = append(failures, err)
		if resume == nil {
			p := s.Position()
			resume = &p
		}
		return mux.Retry
	}}, source(s))
	go func() {
		time.Sleep(time.Minute)
		do(t, srv, "unauthorized")
		do(t, srv, "close watches")
		_, _ = srv.Delete(widgets(), "default", "a")
		srv.Put(widgets(), "default", "b", "spec.n=1")
		time.Sleep(time.Minute)
		do(t, srv, "authorized")
		time.Sleep(5 * time.Minute)
		m.Drain()
	}()
	split := -1
	rec := streamtest.Record(m.Events(anHour(t)), nil)
	if rec.Err != nil || len(failures) == 0 || !errors.As(failures[0], new(*stream.GaveUpError)) {
		t.Fatalf("it ended with %v after %v", rec.Err, failures)
	}
	for i, ev := range rec.Events {
		if ev.Type == stream.Synced {
			split = i + 1
			break
		}
	}
	h := srv.History(widgets(), nil)
	if err := streamtest.Check(h, rec.Events[:split], nil); err != nil {
		t.Error(err)
	}
	if err := streamtest.Check(h, rec.Events[split:],
		&streamtest.CheckOptions{From: resume, Complete: true}); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(rec.Texts(), "\n"))
	}
}

// A Stream that has delivered nothing starts as its Run says.
func TestRetryBeforeAnyEventUsesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "default", "a")
		if err := srv.Apply("watch 1: 403"); err != nil {
			t.Fatal(err)
		}
		s := newStream(t, srv, widgets(), &stream.Options{Requests: stream.Requests{PagedLists: true}})
		m := newMux(t, &mux.Options{OnError: func(_ string, err error) mux.Decision {
			srv.Put(widgets(), "default", "b")
			return mux.Retry
		}}, s.With(stream.Run{Start: stream.Now()}))
		for ev, err := range m.Events(anHour(t)) {
			if err != nil || ev.Type != stream.Synced {
				t.Errorf("got %s, %v, want SYNCED only", ev.String(), err)
			}
			time.AfterFunc(time.Minute, m.Stop)
		}
	})
}

// restarting is a source whose Stream has ended, and that will start it again.
type restarting struct{ *scripted }

func (restarting) Status() stream.Status { return stream.Status{State: stream.Stopped} }

// TestStateOfARestartingSource: a source that runs is not Stopped, even if its Stream is.
func TestStateOfARestartingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(anHour(t))
		defer cancel()
		source := &scripted{key: "a", run: func(ctx context.Context, put func(stream.Event) bool) error {
			put(synced())
			<-ctx.Done()
			return nil
		}}
		m := newMux(t, nil, restarting{source})
		go func() {
			for range m.Events(ctx) {
			}
		}()
		time.Sleep(time.Second)
		if got := m.Status().Sources[0]; got.State != stream.Backoff || got.Stream.State != stream.Stopped {
			t.Errorf("during the run: %s of %s, want Backoff of Stopped", got.State, got.Stream.State)
		}
		cancel()
		synctest.Wait()
		if got := m.Status().Sources[0].State; got != stream.Stopped {
			t.Errorf("after the run: %s, want Stopped", got)
		}
	})
}
