package mux

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
)

// forgetful is a source that resumes. It delivers SYNCED three times, and takes a minute to end.
type forgetful struct {
	*testing.T
	open   bool
	forgot int
}

func (*forgetful) Key() string { return "a" }

func (*forgetful) Watched(friend.Access) (stream.Options, stream.Run, error) {
	return stream.Options{}, stream.Run{Start: stream.Resume()}, nil
}

func (f *forgetful) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return f.Host(ctx, host.Run{})
}

func (f *forgetful) Host(ctx context.Context, _ host.Run) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		f.open = true
		for range 3 {
			if !yield(stream.Event{Type: stream.Synced}, nil) {
				break
			}
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		f.open = false
	}
}

func (f *forgetful) Hold(_ friend.Access, by *host.Holder) {
	if by != host.Nobody {
		return
	}
	if f.forgot++; f.open {
		f.Error("its run, which has begun after that, would clear what it forgets, and go on")
	}
}

// A source that is removed forgets its position once, when no run of it can move the position any more.
func TestRemovedSourceForgetsAfterItsRun(t *testing.T) {
	for _, within := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &forgetful{T: t}
			m, err := New(nil, f)
			if err != nil {
				t.Fatal(err)
			}
			for range m.Events(t.Context()) {
				if within {
					m.Remove("a")
				}
				break
			}
			if f.forgot > 0 != within {
				t.Errorf("removed in the loop: %v, and it forgot %d times", within, f.forgot)
			}
			if m.Remove("a") == within || f.forgot != 1 {
				t.Errorf("removed in the loop: %v, and it forgot %d times after Remove", within, f.forgot)
			}
		})
	}
}

// Events that wait between two runs count in Options.BufferBytes, until they are delivered or discarded.
func TestBytesThatWaitForTheNextRunCount(t *testing.T) {
	for _, remove := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, err := New(nil, &forgetful{T: t})
			if err != nil {
				t.Fatal(err)
			}
			for range m.Events(t.Context()) {
				synctest.Wait()
				break
			}
			if waits := m.sources.backlog.bytes; waits != 2*controlSize || m.Status().Bytes != waits {
				t.Errorf("between two runs %d bytes count, and the status has %d, want those of two events", waits,
					m.Status().Bytes)
			}
			if remove {
				m.Remove("a")
			} else {
				n := 0
				for range m.Events(t.Context()) {
					if n++; n == 5 {
						break
					}
				}
			}
			if m.sources.backlog.bytes != 0 {
				t.Errorf("nothing waits, and %d bytes count", m.sources.backlog.bytes)
			}
		})
	}
}
