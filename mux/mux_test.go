package mux_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestNewRefuses: New and Add name the field that is invalid.
func TestNewRefuses(t *testing.T) {
	a, s := emitting("a"), newStream(t, streamtest.NewServer(widgets()), widgets(), nil)
	type embeds struct{ *stream.Sequence }
	tests := []struct {
		options *mux.Options
		sources []mux.Source
		want    string // the Field of an *OptionsError; empty for no error
		why     string
	}{
		{nil, nil, "", "sources may be added later"},
		{&mux.Options{BufferEvents: -1}, nil, "BufferEvents", "a negative number"},
		{&mux.Options{BufferBytes: -1}, nil, "BufferBytes", "a negative number"},
		{&mux.Options{ConcurrentSnapshots: -1}, nil, "ConcurrentSnapshots", "a negative number"},
		{&mux.Options{Overflow: "all"}, nil, "Overflow", "neither Block nor Latest"},
		{nil, []mux.Source{nil}, "Source", "no source"},
		{nil, []mux.Source{(*stream.Stream)(nil)}, "Stream", "a nil Stream"},
		{nil, []mux.Source{(*stream.Sequence)(nil)}, "Stream", "a nil Sequence has no Stream"},
		{nil, []mux.Source{&stream.Sequence{}}, "Stream", "nor has one that is not made with With"},
		{nil, []mux.Source{s.With(stream.Run{Until: "then"})}, "Until", "an invalid Run"},
		{nil, []mux.Source{embeds{s.With(stream.Run{Until: "then"})}}, "Until", "also of a Sequence that is embedded"},
		{nil, []mux.Source{emitting("")}, "Key", "a source without a key"},
		{nil, []mux.Source{a, emitting("a")}, "Key", "two sources with one key"},
	}
	for _, tt := range tests {
		_, err := mux.New(tt.options, tt.sources...)
		var invalid *stream.OptionsError
		if errors.As(err, &invalid) != (tt.want != "") || invalid != nil && invalid.Field != tt.want ||
			invalid == nil && err != nil {
			t.Errorf("%s: got %v, want an error of %q", tt.why, err, tt.want)
		}
	}
	m := newMux(t, nil)
	for _, o := range []mux.SourceOptions{{BufferEvents: -1}, {Overflow: "all"}} {
		if err := m.Add(a, &o); !errors.As(err, new(*stream.OptionsError)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if m.Status().AllSynced || m.Remove("a") {
		t.Error("a Mux without sources is synced, or has a source to remove")
	}
}

// The test ends a run in every possible way. synctest checks that no goroutine is left.
func TestEveryEndLeavesNoGoroutine(t *testing.T) {
	failed := errors.New("failed")
	tests := []struct {
		name        string
		do          func(m *mux.Mux, cancel func(), n int) (leave bool) // in the loop body, at event n
		want        error
		least, most int // events
		why         string
	}{
		{"ctx", func(_ *mux.Mux, cancel func(), n int) bool { cancel(); return false }, errTimeUp, 1, 1,
			"the end of ctx ends the run at once"},
		{"break", func(*mux.Mux, func(), int) bool { return true }, nil, 1, 1, "break ends the run"},
		{"stop", func(m *mux.Mux, _ func(), _ int) bool { m.Stop(); m.Stop(); return false }, nil, 1, 1,
			"Stop discards what waits"},
		{"drain", func(m *mux.Mux, _ func(), _ int) bool { synctest.Wait(); m.Drain(); m.Drain(); return false }, nil,
			22, 22, "the event in the body, and of each source two that wait and one that does not fit"},
		{"drain and stop", func(m *mux.Mux, _ func(), n int) bool {
			synctest.Wait() // every queue is full
			m.Drain()
			if n == 3 {
				m.Stop()
			}
			return false
		}, nil, 3, 3, "Stop overrides Drain"},
		{"stop and drain", func(m *mux.Mux, _ func(), _ int) bool { m.Stop(); m.Drain(); return false }, nil, 1, 1,
			"also if Drain comes later"},
		{"drain and ctx", func(m *mux.Mux, cancel func(), n int) bool {
			synctest.Wait() // every queue is full
			m.Drain()
			if n == 3 {
				cancel()
			}
			return false
		}, errTimeUp, 3, 3, "the end of ctx overrides Drain"},
		{"remove all but one that ends", func(m *mux.Mux, _ func(), n int) bool {
			if n == 1 {
				synctest.Wait()
				for i := range 7 {
					m.Remove(fmt.Sprint(i))
				}
				add(t, m, ending("short", nil, synced()), nil)
			}
			return false
		}, nil, 2, 2, "the run ends when all sources that are left have ended"},
		{"fail", func(m *mux.Mux, _ func(), n int) bool {
			if n == 1 {
				add(t, m, ending("short", failed), nil)
				synctest.Wait()
			}
			return false
		}, failed, 1, 100, "a failure ends the run by default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sources []mux.Source
				var all []*scripted
				for i := range 7 {
					var events []stream.Event
					for j := range 100 {
						events = append(events, modified("x", fmt.Sprint(j)))
					}
					all = append(all, emitting(fmt.Sprint(i), events...))
					sources = append(sources, all[i])
				}
				m := newMux(t, &mux.Options{BufferEvents: 2}, sources...)
				for range 3 { // a Mux may run again
					ctx, cancel := context.WithCancelCause(t.Context())
					n, last := 0, error(nil)
					for _, err := range m.Events(ctx) {
						if err != nil {
							last = err
							break
						}
						if n++; tt.do(m, func() { cancel(errTimeUp) }, n) {
							break
						}
					}
					for _, s := range all {
						if s.isOpen() {
							t.Errorf("the source %s is still open", s.key)
						}
					}
					if !errors.Is(last, tt.want) || n < tt.least || n > tt.most {
						t.Errorf("%s: it ended with %v after %d events, want %v after %d to %d", tt.why, last, n,
							tt.want, tt.least, tt.most)
					}
					if st := m.Status(); st.Queued != 0 || st.Bytes != 0 {
						t.Errorf("it ended, and the status is %+v", st)
					}
					cancel(nil)
					m.Remove("short")
					if len(m.Status().Sources) == 0 {
						return
					}
				}
			})
		})
	}
}

func TestPanicInBodyClosesTheSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := emitting("a", modified("x", "1"), modified("x", "2"))
		m := newMux(t, nil, a)
		func() {
			defer func() {
				if recover() != "body" {
					t.Error("the panic is lost")
				}
			}()
			for range m.Events(anHour(t)) {
				panic("body")
			}
		}()
		if a.isOpen() {
			t.Error("the source is still open")
		}
		for range m.Events(anHour(t)) {
			break // the Mux is not busy
		}
	})
}

func TestOneRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, nil, emitting("a", synced()))
		for range m.Events(anHour(t)) {
			for _, err := range m.Events(anHour(t)) {
				if !errors.Is(err, stream.ErrBusy) {
					t.Errorf("a second run at the same time: %v", err)
				}
			}
			break
		}
	})
}

// AllSynced counts the events of all sources.
func TestAllSyncedCountsReceivedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gap := stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired}}
		m := newMux(t, nil, emitting("a", synced(), gap, synced()))
		for range 2 { // each run on its own
			var got []bool
			for ev, err := range m.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // events that wait do not count
				got = append(got, m.Status().AllSynced)
				if st := m.Status(); st.AllSynced != m.Status().AllSynced || mux.SourceOf(ev) == "a" &&
					st.Sources[0].Synced != (ev.Type == stream.Synced) {
					t.Errorf("the status is %+v", st)
				}
				switch len(got) {
				case 3:
					add(t, m, emitting("b", modified("x", "1"), synced()), nil)
					if m.Status().AllSynced {
						t.Error("AllSynced is true with a new source")
					}
				case 4:
					m.Remove("b")
					if !m.Status().AllSynced {
						t.Error("AllSynced is false for a source that was removed")
					}
					m.Stop()
				}
			}
			if want := []bool{true, false, true, false}; !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
	})
}
