package mux

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// one tells SYNCED and ends.
type one string

func (o one) Key() string { return string(o) }

func (o one) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) { yield(stream.Event{Type: stream.Synced}, nil) }
}

// TestRun: what runs beside a range adds and removes sources, keeps it going, ends it
// with an error, and is waited for.
func TestRun(t *testing.T) {
	failed := errors.New("failed")
	tests := []struct {
		end  func(*Mux)
		run  func(ctx context.Context) error
		want error
		why  string
	}{
		{func(*Mux) {}, func(context.Context) error { return failed }, failed, "its error ends the range"},
		{func(*Mux) {}, func(context.Context) error { panic(failed) }, failed, "its panic too"},
		{func(m *Mux) { m.Stop() }, func(ctx context.Context) error { <-ctx.Done(); return failed }, nil, "once the range ends it has no say"},
		{func(m *Mux) { m.Drain() }, func(ctx context.Context) error { <-ctx.Done(); return failed }, nil, "nor while it drains"},
		{func(m *Mux) { m.Stop() }, func(context.Context) error { time.Sleep(2 * time.Hour); return nil }, nil, "its end alone is not the end"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			m, err := New(nil)
			if err != nil {
				t.Fatal(err)
			}
			over := false
			m.control = func(ctx context.Context) error {
				defer func() { over = true }()
				for range 3 {
					if err := m.Add(one("a"), nil); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
					if !m.Remove("a") {
						t.Error("it is gone")
					}
				}
				if err := m.Add(one("a"), nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				return tt.run(ctx)
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
				t.Errorf("%s: %d events, ended with %v after %v; over: %v", tt.why, n, last, time.Since(begun), over)
			}
			time.Sleep(time.Hour)
		})
	}
}
