package mux_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// silent is a Source without a sequence.
type silent struct{}

func (silent) Key() string                                                  { return "silent" }
func (silent) Events(context.Context) (none iter.Seq2[stream.Event, error]) { return none }

// TestNilAndZeroValues: a nil or zero argument either works or leads to an error that names it.
func TestNilAndZeroValues(t *testing.T) { synctest.Test(t, testNilAndZeroValues) }

func testNilAndZeroValues(t *testing.T) {
	newWith := func(sources ...mux.Source) error {
		_, err := mux.New(nil, sources...)
		return err
	}
	end := func(m *mux.Mux) error { // of a run
		_, err := stream.Until(m.Events(anHour(t)), func(stream.Event) (bool, error) { return false, nil })
		return err
	}
	endOf := func(s mux.Source, o *mux.SourceOptions) error {
		m := newMux(t, nil)
		add(t, m, s, o)
		return end(m)
	}
	zero := &mux.Mux{}
	nilStream, nilSequence := (*stream.Stream)(nil), (*stream.Sequence)(nil)
	tests := []struct {
		call string
		do   func() any
		want string // a part of the result as text
	}{
		{"New(nil)", func() any { return newWith() }, "<nil>"},
		{"New(nil source)", func() any { return newWith(nil) }, `invalid Source: must not be nil`},
		{"New((*Stream)(nil))", func() any { return newWith(nilStream) },
			"invalid Stream: must be made with stream.New"},
		{"New((*Sequence)(nil))", func() any { return newWith(nilSequence) },
			"invalid Stream: must be made with stream.New"},
		{"Add((*Sequence)(nil)) with a key", func() any {
			return newMux(t, nil).Add(nilSequence, &mux.SourceOptions{Key: "s"})
		}, "invalid Stream: must be made with stream.New"},
		{"Add(&Stream{})", func() any { return newWith(&stream.Stream{}) },
			"invalid Stream: must be made with stream.New"},
		{"Add(&Stream{}) with a key", func() any {
			return newMux(t, nil).Add(&stream.Stream{}, &mux.SourceOptions{Key: "s"})
		}, "invalid Stream: must be made with stream.New"},
		{"Add of a Source without a sequence", func() any { return endOf(silent{}, nil) },
			`mux: source "silent" failed: Events returned nil: must return a sequence`},
		{"Remove", func() any { return newMux(t, nil).Remove("") }, "false"},

		{"zero Mux: Events", func() any { return end(zero) }, "invalid Mux: must be made with New"},
		{"zero Mux: Add", func() any { return zero.Add(silent{}, nil) }, "invalid Mux: must be made with New"},
		{"zero Mux: Remove", func() any { return zero.Remove("silent") }, "false"},
		{"zero Mux: Stop, Drain", func() any { zero.Stop(); zero.Drain(); return "" }, ""},
		{"zero Mux: AllSynced", func() any { return zero.Status().AllSynced }, "false"},
		{"zero Mux: Status", func() any { return len(zero.Status().Sources) }, "0"},

		{"errors", func() any {
			return fmt.Sprint((&stream.OptionsError{}).Error() != "", (&mux.SourceError{}).Error() != "",
				(&stream.PanicError{}).Error() != "", (&stream.PanicError{}).Unwrap() == nil)
		}, "true true true true"},
	}
	for _, tt := range tests {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: panic: %v, want %q", tt.call, p, tt.want)
				}
			}()
			if got := fmt.Sprint(tt.do()); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.call, got, tt.want)
			}
		}()
	}
}
