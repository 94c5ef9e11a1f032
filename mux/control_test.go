package mux

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
)

// one is a source that delivers SYNCED and ends.
type one string

func (o one) Key() string { return string(o) }

func (o one) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) { yield(stream.Event{Type: stream.Synced}, nil) }
}

// The function beside a run adds and removes sources and can end the run with an error. The run goes on without
// sources, and waits for the function.
func TestControlMayEndTheRun(t *testing.T) {
	failed := errors.New("failed")
	tests := []struct {
		end  func(*Mux)
		rest func(ctx context.Context) error
		want error
		why  string
	}{
		{func(*Mux) {}, func(context.Context) error { return failed }, failed, "its error ends the run"},
		{func(*Mux) {}, func(context.Context) error { panic(failed) }, failed, "its panic ends the run"},
		{func(m *Mux) { m.Stop() }, func(ctx context.Context) error { <-ctx.Done(); return failed }, nil,
			"its error does not count once the run is stopped"},
		{func(m *Mux) { m.Drain() }, func(ctx context.Context) error { <-ctx.Done(); return failed }, nil,
			"its error does not count while the run drains"},
		{func(m *Mux) { m.Stop() }, func(context.Context) error { time.Sleep(2 * time.Hour); return nil }, nil,
			"its end does not end the run"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			m, err := New(nil)
			if err != nil {
				t.Fatal(err)
			}
			over := false
			run := func(ctx context.Context) error {
				defer func() { over = true }()
				for range 3 {
					if err := m.Add(one("a"), nil); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
					if !m.Remove("a") {
						t.Error("the source was not in the Mux")
					}
				}
				if err := m.Add(one("a"), nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				return tt.rest(ctx)
			}
			if err := m.AddGroup(friend.Access{}, &host.Group{Run: run}); err != nil {
				t.Fatal(err)
			}
			begun, n, last := time.Now(), 0, error(nil)
			go func() {
				time.Sleep(time.Hour)
				tt.end(m)
			}()
			for _, err := range m.Events(t.Context()) {
				if last = err; err == nil {
					n++
				}
			}
			if n != 4 || !errors.Is(last, tt.want) || !over || time.Since(begun) < 4*time.Minute {
				t.Errorf("%s: %d events, ended with %v after %v; function ended: %v", tt.why, n, last,
					time.Since(begun), over)
			}
			time.Sleep(time.Hour)
		})
	}
}

// A Mux may have any number of keys over time.
func TestRemovedSourceLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(nil, waiting("a"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() {
			m.Remove("a")
			m.Stop()
		})
		for range m.Events(t.Context()) {
		}
		if len(m.sources.byKey)+len(m.sources.leaving) > 0 {
			t.Errorf("left: %v and %v", m.sources.byKey, m.sources.leaving)
		}
	})
}

// waiting is a source that ends with its context.
type waiting string

func (w waiting) Key() string { return string(w) }

func (w waiting) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(func(stream.Event, error) bool) { <-ctx.Done() }
}

// A follower begins when all that had its prefix before have ended, also those that were removed while another one was
// ending.
func TestFollowersOfAPrefixRunOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		running, begun := 0, 0
		add := func() {
			err := m.AddGroup(friend.Access{}, &host.Group{Prefix: "p", Done: func() bool { return false },
				Run: func(ctx context.Context) error {
					running++
					begun++
					if running > 1 {
						t.Errorf("follower %d begins while another one is ending", begun)
					}
					<-ctx.Done()
					time.Sleep(time.Hour)
					running--
					return nil
				}})
			if err != nil {
				t.Error(err)
			}
		}
		go func() {
			for _, wait := range []time.Duration{0, 0, 90 * time.Minute, 3 * time.Hour} {
				time.Sleep(wait)
				add()
				time.Sleep(time.Minute)
				go m.Remove("p")
				synctest.Wait()
			}
			time.Sleep(3 * time.Hour)
			m.Stop()
		}()
		for range m.Events(t.Context()) {
		}
		if begun != 4 || len(m.sources.leaving) > 0 {
			t.Errorf("%d followers have begun, want 4; left: %v", begun, m.sources.leaving)
		}
	})
}

// ofGroup is a source that a follower has added.
type ofGroup struct {
	one
	group *host.Group
}

func (s ofGroup) Group(friend.Access) *host.Group { return s.group }

// inner is a Mux that is a source.
type inner struct{ *Mux }

func (inner) Key() string { return "in" }

// What a follower adds before it calls StartSources starts then: no answer of Synced is without one of these sources.
// What it adds later starts at once, and so does in another run what is there.
func TestSourcesOfAFollowerStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		g := &host.Group{Prefix: "p"}
		add := func(keys ...one) {
			for _, key := range keys {
				if err := m.Add(ofGroup{key, g}, nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			}
		}
		first := true
		g.Run = func(context.Context) error {
			if first {
				add("p/a", "p/removed", "p/b")
				if st := m.Status(); st.AllSynced || st.Sources[0].State != stream.Listing || !m.Remove("p/removed") {
					t.Errorf("before the start the status is %+v, want Listing", st)
				}
			}
			m.StartSources(friend.Access{}, g)
			if time.Sleep(time.Minute); first {
				add("p/later")
			}
			first = false
			m.Stop()
			return nil
		}
		if err := m.AddGroup(friend.Access{}, g); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"3m0s p/a; 3m0s p/b; 4m0s p/later", "0s p/a; 0s p/b; 0s p/later"} {
			var got []string
			began := time.Now()
			for ev, err := range m.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, time.Since(began).String()+" "+SourceOf(ev))
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("the events (-want +got):\n%s", diff)
			}
		}
	})
}

// An event has the prefix of a follower of the Mux that delivers it, and none of a follower of another Mux.
func TestPrefixIsThatOfTheSameMux(t *testing.T) {
	for _, tt := range []struct {
		nested bool
		want   string
	}{{false, "europe in europe/widgets"}, {true, " in in"}} {
		synctest.Test(t, func(t *testing.T) {
			m, err := New(nil)
			if err != nil {
				t.Fatal(err)
			}
			g := &host.Group{Prefix: "europe"}
			g.Run = func(context.Context) error {
				defer m.StartSources(friend.Access{}, g)
				return m.Add(ofGroup{"europe/widgets", g}, nil)
			}
			if err := m.AddGroup(friend.Access{}, g); err != nil {
				t.Fatal(err)
			}
			runs := m
			if tt.nested {
				if runs, err = New(nil, inner{m}); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for ev, err := range runs.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, PrefixOf(ev)+" in "+SourceOf(ev))
				runs.Stop()
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("nested %t (-want +got):\n%s", tt.nested, diff)
			}
		})
	}
}
