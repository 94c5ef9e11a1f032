package mux_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// timedSource emits SYNCED and ends after a while, or if that is zero with its context.
type timedSource struct {
	key   string
	until time.Duration
}

func (s timedSource) Key() string { return s.key }

func (s timedSource) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		if !yield(stream.Event{Type: stream.Synced}, nil) {
			return
		}
		if s.until > 0 {
			time.Sleep(s.until)
			return
		}
		<-ctx.Done()
		yield(stream.Event{}, context.Cause(ctx))
	}
}

// The source that has ended is removed.
func TestRunContinuesWithoutAnEndedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, nil, timedSource{"ended", time.Second}, timedSource{"running", 0})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(30*time.Second, func() { m.Remove("ended") })
		began := time.Now()
		var last error
		for _, err := range m.Events(ctx) {
			last = err
		}
		if took := time.Since(began); last == nil || took != time.Minute {
			t.Errorf("the run ended after %v with %v, want it to last as long as its context", took, last)
		}
	})
}

var _ mux.Source = timedSource{}
